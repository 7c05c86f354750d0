# SPDX-License-Identifier: Apache-2.0
"""allgather, of one tensor and of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hora import _job, _operations, ops
from hora._job import Handle
from hora._naming import Naming, label
from hora._submission import Submission, members, start, start_members
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.allreduce import allreduce, grouped_allreduce
from hora.torch._ops.arguments import documented
from hora.torch._ops.lending import Loan, floating, picked, spread, tracked

_Gathered = tuple[torch.Tensor, list[int]]  # the whole, and the rows of each rank


def _gathered(
    tensor: torch.Tensor, named: Naming, suffix: str = "", out: torch.Tensor | None = None
) -> Submission:
    return _operations.allgather(Loan(tensor, named.full + suffix), named, suffix, out)


def _whole(result: _Gathered) -> torch.Tensor:
    return result[0]


def allgather_async(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: torch.Tensor | None = None,
) -> Handle:
    """Starts `allgather`, without autograd; the handle is for `poll` and `synchronize`."""
    with Naming("allgather", name, process_set) as named:
        return start(_gathered(tensor, named, out=out).then(_whole))


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts `grouped_allgather`, without autograd; the handle is for `poll` and `synchronize`, which returns
    a tuple."""
    with Naming("grouped_allgather", name, process_set) as named:
        return start_members(
            tensors, named, lambda tensor, suffix: _gathered(tensor, named, suffix).then(_whole)
        )


def _own_part(rows: list[int], process_set: ProcessSet) -> slice:
    """Where this rank's rows are in the whole."""
    rank = process_set.rank() or 0
    begin = sum(rows[:rank])
    return slice(begin, begin + rows[rank])


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> torch.Tensor:
        with Naming("allgather", name, process_set) as named:
            handle = start(_gathered(tensor, named))
        result: _Gathered = _job.synchronize(handle)
        ctx.process_set = process_set
        ctx.part = _own_part(result[1], process_set)
        return result[0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return allreduce(gradients[0], op=ops.Average, process_set=ctx.process_set)[ctx.part], None, None


@documented
def allgather(
    tensor: torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The tensors of all ranks of the set, one after the other along the first dimension, in rank order.
    Differentiable: each rank gets its rows of the average of all ranks' gradients, as in Horovod.

    Args:
        tensor: at least 1-dimensional; any dtype that `broadcast` takes; dense, on the CPU or a GPU. The
            first dimension may differ from rank to rank (0 rows, too); the others and the dtype are the same
            on all.
        out: where the result goes, in place of a new tensor: contiguous, of the same dtype, on the same
            device. Then the result is not differentiable.

    Returns:
        A new tensor, equal on all ranks, or `out`.

    Raises:
        HoraShapeError (a ValueError, a RuntimeError and an IndexError): the tensor is a scalar.
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, or this
            rank is no member of the process set; or `out` cannot take the result as it is.
        HoraInternalError (a RuntimeError): the ranks disagree about dtype or the other dimensions; or, on
            this rank alone, all ranks bring another number of rows than `out` has.
    """
    if out is None and tracked(tensor):
        differentiable: torch.Tensor = _Allgather.apply(tensor, name, process_set)  # type: ignore[no-untyped-call, unused-ignore]
        return differentiable
    result: torch.Tensor = _job.run(allgather_async, tensor, name, process_set, out)
    return result


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        with Naming("grouped_allgather", name, process_set) as named:
            handle = start_members(tensors, named, lambda tensor, suffix: _gathered(tensor, named, suffix))
        results: tuple[_Gathered, ...] = _job.synchronize(handle)
        ctx.process_set = process_set
        ctx.floating = floating(tensors)
        ctx.parts = picked([_own_part(rows, process_set) for _, rows in results], ctx.floating)
        return tuple(whole for whole, _ in results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        means = grouped_allreduce(
            picked(gradients, ctx.floating), op=ops.Average, process_set=ctx.process_set
        )
        own = [mean[part] for mean, part in zip(means, ctx.parts, strict=True)]
        return None, None, *spread(own, ctx.floating)


@documented
def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> tuple[torch.Tensor, ...]:
    """`allgather` of several tensors at once: all are gathered, or, if the ranks disagree about one, none.
    Differentiable as `allgather` is; the gradient of a tensor that was not used counts as zeros.

    Args:
        tensors: one tensor or more, as many on all ranks; each as for `allgather`.

    Returns:
        A tuple of new tensors.

    Raises:
        HoraShapeError (a ValueError and an IndexError): there are no tensors, or one is a scalar.
        HoraArgumentError (a ValueError), HoraInternalError (a RuntimeError): as `allgather`.
    """
    listed = members(tensors, label("grouped_allgather", name))
    if any(tracked(tensor) for tensor in listed):
        differentiable: tuple[torch.Tensor, ...] = _GroupedAllgather.apply(name, process_set, *listed)  # type: ignore[no-untyped-call, unused-ignore]
        return differentiable
    results: tuple[torch.Tensor, ...] = _job.run(grouped_allgather_async, listed, name, process_set)
    return results
