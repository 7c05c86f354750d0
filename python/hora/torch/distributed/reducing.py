# SPDX-License-Identifier: Apache-2.0
"""The operations of a group that reduce tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import hora.torch as hvd
from hora._job import Handle
from hora.torch._ops.allreduce import start_in_place
from hora.torch._ops.reduction import Reduction
from hora.torch.distributed import tensors
from hora.torch.distributed.checks import member, one_for_each
from hora.torch.distributed.pytorch import ReduceOp
from hora.torch.distributed.reductions import reduction
from hora.torch.distributed.started import Started, together
from hora.torch.distributed.starting import Group, Tensors
from hora.torch.distributed.work import Work


class Reducing(Group):
    """A group that reduces tensors."""

    def allreduce(self, given: Tensors | torch.Tensor, opts: Any = None, timeout: Any = None) -> Work:
        """Each tensor is reduced over the ranks, in place."""
        return self.allreduce_coalesced([given] if isinstance(given, torch.Tensor) else given, opts, timeout)

    def allreduce_coalesced(self, given: Tensors, opts: Any = None, timeout: Any = None) -> Work:
        """The same, of several tensors that belong together."""
        op, factor = _reduction_of(opts)

        def start() -> Started:
            if len(given) == 1 and not given[0].is_sparse:
                return Started([start_in_place(given[0].detach(), None, self._how(op, factor))], given)
            how: dict[str, Any] = {"op": op, "prescale_factor": factor, "process_set": self.members}
            if any(each.is_sparse for each in given):
                return together([_reduce_sparse(each, how) for each in given])
            return Started([hvd.grouped_allreduce_async_([each.detach() for each in given], **how)], given)

        return self.run("all_reduce", timeout or opts, start)

    def _how(self, op: int, factor: float) -> Reduction:
        known = self._reductions.get((op, factor))
        if known is None:
            known = self._reductions[op, factor] = Reduction(op, factor, 1.0, self.members)
        return known

    def reduce(self, given: Tensors, opts: Any) -> Work:
        """The tensor of the root becomes the reduced one."""

        def start() -> Started:
            handle = self._reduce_to(member("reduce", self.ranks, opts.rootRank), given[0], opts)
            return Started([handle], list(given), tensors.filling(given, None))

        return self.run("reduce", opts, start)

    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        """Each rank gets an equal part of the reduced tensor."""
        return self.reduce_scatter_single_coalesced([output], [given], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, given: Tensors, opts: Any = None) -> Work:
        """The same, of several tensors."""
        return self.run(
            "reduce_scatter",
            opts,
            lambda: together(
                [
                    self._reduce_scatter(output, [each], opts)
                    for output, each in zip(outputs, given, strict=True)
                ]
            ),
        )

    def reduce_scatter(self, outputs: Tensors, given: Sequence[Tensors], opts: Any = None) -> Work:
        """Each rank gets the reduced tensor of its place in the list."""

        def start() -> Started:
            parts = given[0]
            one_for_each("reduce_scatter", "input", parts, self.size())
            if len({part.numel() for part in parts}) == 1:
                return self._reduce_scatter(outputs[0], parts, opts)
            handles = [
                self._reduce_to(root, part, opts) for root, part in zip(self.ranks, parts, strict=True)
            ]
            return Started(
                handles, [outputs[0]], lambda results: tensors.fill([outputs[0]], results[self.rank()]), parts
            )

        return self.run("reduce_scatter", opts, start)

    def _reduce_to(self, root: int, given: torch.Tensor, opts: Any) -> Handle:
        op, factor = _reduction_of(opts)
        return hvd.reduce_async(
            tensors.numbers(given), root_rank=root, op=op, prescale_factor=factor, process_set=self.members
        )

    def _reduce_scatter(self, output: torch.Tensor, parts: Tensors, opts: Any) -> Started:
        op, factor = _reduction_of(opts)
        whole = tensors.joined(parts, tensors.numbers)
        out = tensors.target(output, whole, tensors.numbers)
        handle = hvd.reducescatter_async(
            whole, op=op, prescale_factor=factor, process_set=self.members, out=out
        )
        return Started([handle], [output], tensors.filling([output], out), parts)

    # The names of PyTorch up to 2.14.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _reduce_sparse(given: torch.Tensor, how: dict[str, Any]) -> Started:
    def finish(results: list[Any]) -> None:
        with torch.no_grad():
            given.copy_(results[0])

    return Started([hvd.allreduce_async(given.detach(), **how)], [given], finish)


def _reduction_of(opts: Any) -> tuple[int, float]:
    """The operation, and the factor before it."""
    if opts is None:
        return hvd.Sum, 1.0
    return reduction(opts if isinstance(opts, ReduceOp) else opts.reduceOp)
