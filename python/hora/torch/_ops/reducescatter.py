# SPDX-License-Identifier: Apache-2.0
"""reducescatter, of one tensor and of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hora import _job, _operations, ops
from hora._errors import HoraArgumentError
from hora._job import Handle
from hora._naming import Naming, label
from hora._submission import Submission, members, start, start_members
from hora.compression import Compression, Compressor, in_transfer
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.allgather import allgather, grouped_allgather
from hora.torch._ops.arguments import documented
from hora.torch._ops.lending import (
    Loan,
    check_tensor,
    floating,
    picked,
    spread,
    tracked,
)
from hora.torch._ops.reduction import Reduction


def _scattered(
    tensor: torch.Tensor, named: Naming, how: Reduction, suffix: str = "", out: torch.Tensor | None = None
) -> Submission:
    check_tensor(tensor, named.full + suffix)
    sent, decompressed = how.compressed(tensor.detach())
    loan = Loan(sent, named.full + suffix)
    return _operations.reducescatter(loan, named, how, suffix, out).then(decompressed)


def _start(tensor: torch.Tensor, name: str | None, how: Reduction, out: torch.Tensor | None = None) -> Handle:
    with Naming("reducescatter", name, how.process_set) as named:
        if out is not None and not in_transfer(how.compression):
            raise HoraArgumentError(
                f"'{named.full}': out= takes no compression with functions of its own, such as "
                f"{how.compression.__name__}; leave one of both out"
            )
        return start(_scattered(tensor, named, how, out=out))


def _start_group(tensors: Sequence[torch.Tensor], name: str | None, how: Reduction) -> Handle:
    with Naming("grouped_reducescatter", name, how.process_set) as named:
        return start_members(tensors, named, lambda tensor, suffix: _scattered(tensor, named, how, suffix))


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    out: torch.Tensor | None = None,
) -> Handle:
    """Starts `reducescatter`, without autograd; the handle is for `poll` and `synchronize`."""
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    return _start(tensor, name, how, out)


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `grouped_reducescatter`, without autograd; the handle is for `poll` and `synchronize`, which
    returns a tuple."""
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    return _start_group(tensors, name, how)


def _gradient_factor(how: Reduction) -> float:
    """Horovod's: a sum's gradient is that of an average times the size of the set."""
    return how.prescale * how.postscale * (how.process_set.size() or 1 if how.op == ops.Sum else 1)


_WITH_GRADIENT = (ops.Average, ops.Sum)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None, how: Reduction) -> torch.Tensor:
        ctx.how = how
        result: torch.Tensor = _job.run(_start, tensor, name, how)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (
            allgather(gradients[0] * _gradient_factor(ctx.how), process_set=ctx.how.process_set),
            None,
            None,
        )


@documented
def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """This rank's rows of the tensor reduced over all ranks. Of r rows each of the n ranks of the set gets r
    // n, the first r % n ranks one more; so the last ranks get none if there are few.

    Differentiable with Average and Sum: the gradients of all ranks, one after the other, times the factors;
    for Sum also times the size of the set, as in Horovod. With another op the result has no gradient.

    Args:
        tensor: at least 1-dimensional, the same shape on all ranks; dtypes as for `allreduce`; dense, on the
            CPU or a GPU.
        op: Average (default), or any but Adasum, as for `allreduce`.
        out: where the result goes, in place of a new tensor: contiguous, of its dtype and shape, on the same
            device. Then the result is not differentiable.

    Returns:
        A new tensor, or `out`.

    Raises:
        HoraShapeError (a ValueError): the tensor is a scalar.
        HoraUnsupportedError (a RuntimeError and a ValueError): op is Adasum.
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, or this
            rank is no member of the process set; or `out` cannot take the result as it is.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype, op or factors, or one has
            joined.
    """
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    if out is not None or op not in _WITH_GRADIENT or not tracked(tensor):
        plain: torch.Tensor = _job.run(_start, tensor, name, how, out)
        return plain
    sent, decompressed = how.compressed(tensor)
    result: torch.Tensor = decompressed(_Reducescatter.apply(sent, name, how.without_calls()))  # type: ignore[no-untyped-call, unused-ignore]
    return result


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, name: str | None, how: Reduction, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.how = how
        ctx.floating = floating(tensors)
        results: tuple[torch.Tensor, ...] = _job.run(_start_group, tensors, name, how)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        factor = _gradient_factor(ctx.how)
        own = [gradient * factor for gradient in picked(gradients, ctx.floating)]
        return None, None, *spread(grouped_allgather(own, process_set=ctx.how.process_set), ctx.floating)


@documented
def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """`reducescatter` of several tensors at once: all are reduced together, or, if the ranks disagree about
    one, none. Differentiable as `reducescatter` is; the gradient of a result that was not used counts as
    zeros.

    Args:
        tensors: one tensor or more, as many on all ranks; each as for `reducescatter`.
        op: as for `reducescatter`.

    Returns:
        A list of new tensors.

    Raises:
        HoraShapeError (a ValueError and an IndexError): there are no tensors, or one is a scalar.
        HoraUnsupportedError, HoraArgumentError, HoraInternalError: as `reducescatter`.
    """
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    listed = members(tensors, label("grouped_reducescatter", name))
    if op not in _WITH_GRADIENT or not any(tracked(tensor) for tensor in listed):
        return list(_job.run(_start_group, listed, name, how))
    return how.apply_to_group(_GroupedReducescatter, name, listed)
