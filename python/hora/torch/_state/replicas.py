# SPDX-License-Identifier: Apache-2.0
"""Whether all ranks still have the same model."""

from __future__ import annotations

import collections
import functools
import hashlib
import numbers
import struct
from collections.abc import Iterator
from typing import Any

import torch

from hora._errors import HoraArgumentError, HoraReplicaError
from hora._job import size
from hora.ops import Max
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._batch_norm import SyncBatchNorm
from hora.torch._ops.allgather import allgather
from hora.torch._ops.allreduce import allreduce

_CHUNK = 1 << 20  # words of eight bytes that are multiplied at a time
_MOST_NAMED = 10
_OWN_STATISTICS = ("running_mean", "running_var")  # each rank's, of its own batches


class ReplicaCheck:
    """The replicas that `check_replicas` compares. All ranks of the process set call it."""

    def __init__(
        self,
        model: torch.nn.Module | None,
        optimizer: torch.optim.Optimizer | None,
        every: int,
        process_set: ProcessSet,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._every = every
        self._process_set = process_set
        self._steps = 0
        self._hook = (
            optimizer.register_step_post_hook(self._after_step) if optimizer is not None and every else None
        )

    def remove(self) -> None:
        """Looks no more after steps of the optimizer."""
        if self._hook is not None:
            self._hook.remove()

    def __call__(self) -> None:
        named = list(_contents(self._model, self._optimizer))
        _check_names([name for name, _ in named], self._process_set)
        _check_digests(named, self._process_set)

    def _after_step(self, *_: Any) -> None:
        self._steps += 1
        if self._steps % self._every == 0:
            self()


def check_replicas(
    model: torch.nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    every: int | None = None,
    process_set: ProcessSet = global_process_set,
) -> ReplicaCheck:
    """Compares parameters, buffers and optimizer state across ranks, bit by bit: at once, and with `every`
    also after every so many steps of the optimizer. Memory that flips a bit, a rank that missed an update,
    and anything that is not deterministic show here, before a loss does.

    Each tensor is summed up in a number of 64 bits, which any single change changes, at about the speed of
    memory; those numbers are reduced. Running statistics of batch normalisation are left out, as each rank
    has those of its own batches, unless it is `SyncBatchNorm`.

        hvd.check_replicas(model, optimizer, every=100)

    Args:
        model: whose parameters and buffers.
        optimizer: whose state, and, with `every`, whose steps. Without a model its parameters, too, by
            number.
        every: steps.
        process_set: whose members compare; all of them call this.

    Returns:
        A check: call it to compare now; its `remove()` ends what `every` began.

    Raises:
        HoraReplicaError (a HoraInternalError): on all ranks; names the tensors and the ranks that differ from
            most others. `hora.torch.elastic.run` goes back to the last commit then.
        HoraArgumentError (a ValueError): neither a model nor an optimizer; `every` is not positive, or
            without an optimizer.
    """
    if model is None and optimizer is None:
        raise HoraArgumentError("check_replicas needs a model, an optimizer, or both")
    if every is not None and (every <= 0 or optimizer is None):
        raise HoraArgumentError(
            f"every={every} is a number of steps of an optimizer, from 1 up, and needs one"
        )
    check = ReplicaCheck(model, optimizer, every or 0, process_set)
    check()
    return check


def _contents(
    model: torch.nn.Module | None, optimizer: torch.optim.Optimizer | None
) -> Iterator[tuple[str, torch.Tensor]]:
    """The values that must be equal on all ranks, in an order that is equal, too."""
    names: dict[torch.Tensor, str] = {}
    if model is not None:
        for name, parameter in model.named_parameters():
            names[parameter] = name
            yield f"parameter '{name}'", parameter
        own = {
            f"{prefix}{'.' if prefix else ''}{statistic}"
            for prefix, module in model.named_modules()
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
            and not isinstance(module, SyncBatchNorm)
            for statistic in _OWN_STATISTICS
        }
        for name, buffer in model.named_buffers():
            if name not in own:
                yield f"buffer '{name}'", buffer
    if optimizer is None:
        return
    for group, options in enumerate(optimizer.param_groups):
        for number, parameter in enumerate(options["params"]):
            name = names.get(parameter, f"{group}.{number}")
            if parameter not in names:
                yield f"parameter {name}", parameter
            for key, value in sorted(optimizer.state.get(parameter, {}).items()):
                yield from _flat(f"state {key} of '{name}'", value)


def _flat(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors and numbers in some state of an optimizer's."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, numbers.Real):
        yield name, torch.frombuffer(bytearray(struct.pack("<d", float(value))), dtype=torch.int64)
    elif isinstance(value, dict):
        for key, item in sorted(value.items(), key=lambda pair: str(pair[0])):
            yield from _flat(f"{name}[{key!r}]", item)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _flat(f"{name}[{number}]", item)


@functools.lru_cache(maxsize=8)
def _weights(device: torch.device) -> torch.Tensor:
    """Odd numbers: multiplied with them, a change of one bit stays a change, modulo 2^64."""
    generator = torch.Generator().manual_seed(20_231)
    return (torch.randint(-(2**62), 2**62, (_CHUNK,), generator=generator) * 2 + 1).to(device)


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """Its bytes, in the order of its elements, as int64; the last ones filled up with zeros."""
    value = tensor.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
    flat = value.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    whole = flat.numel() // 8 * 8
    if flat.storage_offset() % 8 == 0 and whole == flat.numel():
        return flat.view(torch.int64)
    padded = torch.zeros((flat.numel() + 7) // 8 * 8, dtype=torch.uint8, device=flat.device)
    padded[: flat.numel()] = flat
    return padded.view(torch.int64)


def _lengths(words: int) -> list[int]:
    return [min(_CHUNK, words - begin) for begin in range(0, words, _CHUNK)]


def _digest(tensor: torch.Tensor) -> torch.Tensor:
    """A number of 64 bits of what is in a tensor, on its device."""
    words = _words(tensor)
    weights = _weights(words.device)
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    for chunk, part in enumerate(words.split_with_sizes(_lengths(words.numel()))):
        total += (part * weights[: part.numel()]).sum() * (2 * chunk + 1)
    return total


def _digests(tensors: list[torch.Tensor]) -> torch.Tensor:
    """One each, on the CPU; each device is waited for once."""
    by_device: dict[torch.device, list[int]] = collections.defaultdict(list)
    for place, tensor in enumerate(tensors):
        by_device[tensor.device].append(place)
    result = torch.zeros(len(tensors), dtype=torch.int64)
    for places in by_device.values():
        result[places] = torch.stack([_digest(tensors[place]) for place in places]).cpu()
    return result


def _alike(values: torch.Tensor, name: str, process_set: ProcessSet) -> torch.Tensor:
    """Whether all ranks have the same number, for each of these: the largest, and by its complement the
    smallest, are equal then."""
    most = allreduce(
        torch.cat([values, ~values]), name=f"hora.replicas.{name}", op=Max, process_set=process_set
    )
    return most[: values.numel()] == ~most[values.numel() :]


def _members(process_set: ProcessSet) -> list[int]:
    return list(process_set.ranks) if process_set.ranks is not None else list(range(size()))


def _check_names(names: list[str], process_set: ProcessSet) -> None:
    text = "\n".join(names).encode()
    digest = torch.frombuffer(bytearray(hashlib.blake2b(text, digest_size=8).digest()), dtype=torch.int64)
    if bool(_alike(digest, "names", process_set).all()):
        return
    own = torch.frombuffer(bytearray(text + b"\n"), dtype=torch.uint8)
    lengths = allgather(
        torch.tensor([own.numel()]), name="hora.replicas.lengths", process_set=process_set
    ).tolist()
    texts = allgather(own, name="hora.replicas.texts", process_set=process_set).split_with_sizes(lengths)
    by_rank = {
        rank: set(bytes(each.tolist()).decode().split("\n"))
        for rank, each in zip(_members(process_set), texts, strict=True)
    }
    everywhere = set.intersection(*by_rank.values())
    differences = []
    for name in sorted(set.union(*by_rank.values()) - everywhere):
        differences.append((name, [rank for rank, those in by_rank.items() if name in those]))
    if not differences:
        raise HoraReplicaError("the ranks have the same tensors, but in another order", [])
    first, having = differences[0]
    raise HoraReplicaError(
        f"the ranks do not have the same tensors: {first} is on {_ranks(having)} only", differences
    )


def _check_digests(named: list[tuple[str, torch.Tensor]], process_set: ProcessSet) -> None:
    digests = _digests([tensor for _, tensor in named])
    differing = (~_alike(digests, "digests", process_set)).nonzero().reshape(-1)
    if differing.numel() == 0:
        return
    members = _members(process_set)
    table = allgather(digests[differing].unsqueeze(0), name="hora.replicas.table", process_set=process_set)
    differences = []
    for place, column in zip(differing.tolist(), table.t().tolist(), strict=True):
        usual, times = collections.Counter(column).most_common(1)[0]
        others = [rank for rank, value in zip(members, column, strict=True) if value != usual]
        # Of two halves nobody can say which one is wrong.
        differences.append((named[place][0], others if 2 * times > len(members) else members))
    raise HoraReplicaError(_describe(differences, members), differences)


def _describe(differences: list[tuple[str, list[int]]], members: list[int]) -> str:
    told = [
        f"{name} {'differs between' if ranks == members else 'is another one on'} {_ranks(ranks)}"
        for name, ranks in differences[:_MOST_NAMED]
    ]
    more = f"; and {len(differences) - _MOST_NAMED} more" if len(differences) > _MOST_NAMED else ""
    return f"the ranks' models are not the same any more: {'; '.join(told)}{more}"


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(str(rank) for rank in ranks[:-1])} and {ranks[-1]}"
