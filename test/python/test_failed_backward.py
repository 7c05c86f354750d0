# SPDX-License-Identifier: Apache-2.0
"""backward() that fails on some ranks: all ranks hear of it, none makes a step, and the next batch is as if
nothing had been."""

from typing import Any

import pytest
from ready_ranks import run_ready

_KINDS = {
    "plain": "{}",
    "groups": "{'groups': 2}",
    "fp16": "{'compression': hvd.Compression.fp16}",
    "finite": "{'check_finite': True}",
    "sparse": "{}",
    "sparse as dense": "{'sparse_as_dense': True}",
    "adasum": "{'op': hvd.Adasum}",
    "two optimizers": "{}",
    "passes": "{'backward_passes_per_step': 2}",
    "no_sync": "{}",
    "process set": "{'process_set': hvd.add_process_set([0, 1])}",
    "joined": "{}",
}

# A model and its twin get the same batches. Only the passes of the first one fail, again and again; both must
# stay equal.
_PROGRAM = """
import contextlib, itertools, sys, torch, hora.torch as hvd
hvd.init()
rank = hvd.rank()

class Model:
    def __init__(self):
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(6, 2, sparse=kind.startswith("sparse"))
        self.middle, self.head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
        self.place = ""
        parts = [("table", self.table), ("middle", self.middle), ("head", self.head)]
        shares = [parts[:1], parts[1:]] if kind == "two optimizers" else [parts]
        self.optimizers = [self._optimizer(share) for share in shares]
        self.table.weight.register_post_accumulate_grad_hook(lambda parameter: self.fail("after"))

    def _optimizer(self, share):
        named = [(f"{name}.{own}", parameter) for name, part in share for own, parameter in part.named_parameters()]
        return hvd.DistributedOptimizer(torch.optim.SGD([parameter for _, parameter in named], 0.1), named, **options)

    def parameters(self):
        return [*self.table.parameters(), *self.middle.parameters(), *self.head.parameters()]

    def fail(self, place):
        if self.place == place:
            raise ValueError(f"bad batch: {place}")

    def one_pass(self, batch):
        hidden = self.middle(self.table(batch))
        hidden.register_hook(lambda gradient: self.fail("between"))
        loss = self.head(hidden).sum()
        loss.register_hook(lambda gradient: self.fail("before"))
        loss.backward(create_graph=self.place == "own hook")

    def passes(self, batch, failing, place):
        for number in range(passes):
            self.place = place if number == failing else ""
            with self.optimizers[0].no_sync() if kind == "no_sync" and number == 0 else contextlib.nullcontext():
                self.one_pass(batch + number)

    def each(self, method):
        for optimizer in self.optimizers:
            getattr(optimizer, method)()

def refused(method):
    for optimizer in model.optimizers:
        try:
            getattr(optimizer, method)()
        except hvd.HoraBackwardError:
            continue
        raise AssertionError(f"no error in {method}()")

def try_a_step(batch, failing, place, ranks):
    fails = rank in ranks
    before = [parameter.detach().clone() for parameter in model.parameters()]
    try:
        model.passes(batch, failing, place if fails else "")
    except hvd.HoraBackwardError as error:
        assert not fails, error
        what = "hora._errors.HoraUsageError: " if place == "own hook" else f"ValueError: bad batch: {place} ("
        assert f"rank {ranks[0]}'s backward() failed: {what}" in str(error) and "(<string>:" in str(error), error
        assert all(parameter.grad is None for parameter in model.parameters())
    except (ValueError, hvd.HoraUsageError) as error:
        assert fails and ("bad batch" in str(error)) == (place != "own hook"), error
    else:
        raise AssertionError("backward() did not fail")
    if recovery != "go on":
        refused("step") if recovery == "step" else model.each("zero_grad")
    for parameter, value in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, value), "a rank has made a step"

def make_a_step(one, batch):
    one.passes(batch, -1, "")
    one.each("step")
    one.each("zero_grad")

def train():
    places = ["before", "between", "after"] + (["own hook"] if kind not in ("sparse", "adasum") else [])
    batches = itertools.count()
    for place, ranks, failing in itertools.product(places, ([1], [0], [0, 1]), range(passes)):
        number = next(batches)
        try_a_step(torch.tensor([number % 4, rank]), failing, place, ranks)
        for one in (model, twin):
            make_a_step(one, torch.tensor([number % 3, rank + number % 2]))
        for own, other in zip(model.parameters(), twin.parameters(), strict=True):
            assert torch.equal(own, other), (place, ranks, failing)
    everybody = hvd.allgather_object([parameter.tolist() for parameter in model.parameters()], **of_set)
    assert everybody[0] == everybody[1]

for kind in sys.argv[1:]:
    options = eval(kinds[kind])
    passes = 2 if kind in ("passes", "no_sync") else 1
    of_set = {"process_set": options["process_set"]} if "process_set" in options else {}
    for recovery in ["zero_grad", "step", "go on"][: 4 - passes] if rank < 2 else []:
        model, twin = Model(), Model()
        train()
        print(kind, recovery)
        del model, twin
    if hvd.size() > 2:
        hvd.join()
"""


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
def test_no_rank_steps_after_a_pass_that_failed_on_some_and_all_go_on_alike(
    ranks: int, overlap: dict[str, Any]
):
    """The third rank joins, so that the others make rounds for it."""
    kinds = [kind for kind in _KINDS if (kind in ("process set", "joined")) == (ranks == 3)]
    lines = run_ready(ranks, f"kinds = {_KINDS}\n{_PROGRAM}", *kinds, **overlap)
    tried = [f"{kind} {recovery}" for kind in kinds for recovery in ("zero_grad", "step", "go on")]
    tried = [each for each in tried if each not in ("passes go on", "no_sync go on")]
    assert lines[:2] == [tried] * 2


@pytest.mark.parametrize("place", ["inside", "before"])
def test_a_pass_that_fails_with_another_one_within_it_is_one_failed_pass(place: str, overlap: dict[str, Any]):
    run_ready(
        2,
        """
        import sys, torch, hora.torch as hvd
        from torch.utils.checkpoint import checkpoint
        hvd.init()
        torch.manual_seed(0)
        layer = torch.nn.Linear(2, 2)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), 0.1), layer.named_parameters(), backward_passes_per_step=2)
        fails = False
        def inner(x):
            y = layer(x)
            if fails and y.requires_grad and sys.argv[1] == "inside":
                y.register_hook(fail)
            return y
        def fail(gradient):
            raise ValueError("bad batch")
        for step in range(6):
            try:
                for number in range(2):
                    fails = step % 3 == 1 and number == 0 and hvd.rank() == 1
                    loss = checkpoint(inner, torch.ones(1, 2, requires_grad=True), use_reentrant=True).sum()
                    if fails and sys.argv[1] == "before":
                        loss.register_hook(fail)
                    loss.backward()
                optimizer.step()
            except (ValueError, hvd.HoraBackwardError) as error:
                assert step % 3 == 1 and isinstance(error, ValueError) == (hvd.rank() == 1), error
            else:
                assert step % 3 != 1
            optimizer.zero_grad()
        assert len({str(each) for each in hvd.allgather_object(layer.weight.tolist())}) == 1
    """,
        place,
        **overlap,
    )


def test_what_cannot_say_what_it_is_is_told_by_its_class():
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError
        w = torch.nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 0.1), [("w", w)])
        late = w * 2
        def fail(gradient):
            raise Mute
        if hvd.rank() == 1:
            late.register_hook(fail)
        try:
            late.sum().backward()
        except hvd.HoraBackwardError as error:
            print(str(error).partition(" (")[0])
        except Mute:
            pass
        optimizer.zero_grad()
    """,
    )
    assert lines == [["'gradient.0.kinds': rank 1's backward() failed: Mute: <its str() failed>"], []]
