# SPDX-License-Identifier: Apache-2.0
"""Random messages between all ranks: python random_messages.py <seed> <rounds>.

Run it on any number of ranks. All draw the same messages. In each round every rank starts to send and to
receive what it has to, in an order of its own, then waits for all of it in another one. Every rank has a
manner of its own of choosing what to receive, from which follows what it must get: messages of one sender
that a receive could take are taken in the order sent. Unless a rank takes whatever comes, nothing else keeps
ranks in step, and some are rounds ahead: so each round has tags of its own.
"""

import collections
import dataclasses
import random
import sys
from collections.abc import Callable, Hashable
from typing import Any

import hora
import hora.torch as hvd
import numpy as np
import torch

DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
)
SHAPES = ((), (0,), (1,), (7,), (3, 0, 2), (2, 3, 4), (50, 20), (129, 127), (40_000,), (600_000,))
TAGS = range(4)
OBJECT_TAG = 2**31 - 1
MANNERS: dict[str, Callable[[int, int], tuple[int, int]]] = {  # what is asked for, of a source and a tag
    "exact": lambda source, tag: (source, tag),
    "any tag": lambda source, tag: (source, hvd.ANY_TAG),
    "any source": lambda source, tag: (hvd.ANY_SOURCE, tag),
    "any": lambda source, tag: (hvd.ANY_SOURCE, hvd.ANY_TAG),
}


@dataclasses.dataclass(frozen=True)
class Message:
    number: int
    source: int
    dest: int
    tag: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def contents(self, seed: int) -> torch.Tensor:
        values = np.asarray(np.random.default_rng([seed, self.number]).integers(0, 100, self.shape))
        return torch.from_numpy(values).to(self.dtype)

    def known_to_numpy(self) -> bool:
        return self.dtype != torch.bfloat16


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, which do not lie side by side."""
    return tensor.repeat_interleave(2, -1)[..., ::2] if tensor.dim() > 0 else tensor


class Rank:
    """The messages that this rank sends and receives, and how it does so."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.shared = random.Random(seed)  # the same on all ranks
        self.own = random.Random(seed * 1000 + hvd.rank())
        self.manners = [self.shared.choice(list(MANNERS)) for _ in range(hvd.size())]
        self.drawn = 0
        self.to_come: dict[Hashable, collections.deque[Message]] = collections.defaultdict(collections.deque)

    def draw(self, number: int) -> list[Message]:
        messages = []
        for _ in range(self.shared.randint(1, 8 * hvd.size())):
            shape = self.shared.choice(SHAPES[:-2] if self.shared.random() < 0.9 else SHAPES)
            source, dest = self.shared.randrange(hvd.size()), self.shared.randrange(hvd.size())
            tag = len(TAGS) * number + self.shared.choice(TAGS)
            messages.append(Message(self.drawn, source, dest, tag, self.shared.choice(DTYPES), shape))
            self.drawn += 1
        return messages

    def send(self, message: Message) -> int:
        tensor = message.contents(self.seed)
        if self.own.random() < 0.3:
            tensor = spread(tensor)
        if message.known_to_numpy() and self.own.random() < 0.5:
            return hora.isend(tensor.numpy(), message.dest, message.tag)
        return hvd.isend(tensor, message.dest, message.tag)

    def receive(self, message: Message) -> int:
        """Starts to receive this one, or one that the manner of this rank cannot tell from it."""
        manner = self.manners[hvd.rank()]
        choice = MANNERS[manner](message.source, message.tag)
        if choice[0] == hvd.ANY_SOURCE:
            return hvd.irecv(None, *choice)
        tensor = torch.empty(message.shape, dtype=message.dtype) if self.own.random() < 0.5 else None
        if tensor is not None and self.own.random() < 0.3:
            tensor = spread(tensor)
        if message.known_to_numpy() and self.own.random() < 0.5:
            return hora.irecv(tensor if tensor is None else tensor.numpy(), *choice)
        return hvd.irecv(tensor, *choice)

    def check(self, got: Any) -> None:
        """Checks the message of a receive; receives with the same choice get messages in the order in which
        they were started."""
        manner = self.manners[hvd.rank()]
        key = (got.source, got.tag) if manner in ("exact", "any source") else got.source
        wanted = self.to_come[key].popleft()
        value = torch.from_numpy(got.value) if isinstance(got.value, np.ndarray) else got.value
        assert (got.source, got.tag, value.dtype, tuple(value.shape)) == (
            wanted.source,
            wanted.tag,
            wanted.dtype,
            wanted.shape,
        ), wanted
        assert torch.equal(value, wanted.contents(self.seed)), wanted

    def round(self, number: int) -> None:
        messages = self.draw(number)
        manner = self.manners[hvd.rank()]
        mine = [message for message in messages if message.dest == hvd.rank()]
        for message in mine:
            self.to_come[
                (message.source, message.tag) if manner in ("exact", "any source") else message.source
            ].append(message)
        sending = [message for message in messages if message.source == hvd.rank()]
        steps = [(self.send, message) for message in sending]
        for step in [
            (self.receive, message) for message in mine
        ]:  # both in their order, but in each other's midst
            steps.insert(self._place(steps, step), step)
        handles = [(step.__name__, step(message)) for step, message in steps]
        exact = [rank for rank in range(hvd.size()) if self.manners[rank] == "exact"]
        for dest in exact:
            hora.send_object(
                {"round": number, "from": hvd.rank(), "text": "x" * self.own.randrange(1000)},
                dest,
                OBJECT_TAG,
            )
        waiting = list(range(len(handles)))
        self.own.shuffle(waiting)
        results = {which: hvd.synchronize(handles[which][1]) for which in waiting}
        for which, (kind, _) in enumerate(handles):
            if kind == "receive":
                self.check(results[which])
        if hvd.rank() in exact:
            for source in self.own.sample(range(hvd.size()), hvd.size()):
                got = hora.recv_object(source, OBJECT_TAG)
                assert (got.value["round"], got.value["from"], got.source, got.tag) == (
                    number,
                    source,
                    source,
                    OBJECT_TAG,
                ), got

    def _place(self, steps: list[Any], step: Any) -> int:
        """Anywhere after those of its kind."""
        last = max((index for index, (kind, _) in enumerate(steps) if kind == step[0]), default=-1)
        return self.own.randint(last + 1, len(steps))


def main() -> None:
    seed, rounds = int(sys.argv[1]), int(sys.argv[2])
    hvd.init()
    rank = Rank(seed)
    number = 0
    try:
        for number in range(rounds):
            rank.round(number)
            if "any" in rank.manners:
                hvd.barrier()
    except BaseException:
        print(
            f"seed {seed}, round {number}, rank {hvd.rank()}, which receives in the manner "
            f"'{rank.manners[hvd.rank()]}'",
            file=sys.stderr,
            flush=True,
        )
        raise
    assert hvd.probe() is None
    print("good")


if __name__ == "__main__":
    main()
