# SPDX-License-Identifier: Apache-2.0
"""allreduce, in all its forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hora import _job, _native, _operations, ops
from hora._job import Handle
from hora._naming import Naming, label
from hora._submission import Submission, members, start, start_group, start_members, submission
from hora.compression import Compression, Compressor, in_transfer
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops import sparse
from hora.torch._ops.arguments import documented
from hora.torch._ops.lending import (
    Loan,
    check_tensor,
    floating,
    is_floating,
    lent_in_place,
    picked,
    spread,
    start_at_once,
    tracked,
    written,
)
from hora.torch._ops.reduction import Reduction


def _into_new(tensor: torch.Tensor, named: Naming, how: Reduction, suffix: str = "") -> Submission:
    check_tensor(tensor, named.full + suffix)
    sent, decompressed = how.compressed(tensor.detach())
    return _operations.allreduce(Loan(sent, named.full + suffix), named, how, suffix).then(decompressed)


def _in_place(tensor: torch.Tensor, named: Naming, how: Reduction, suffix: str = "") -> Submission:
    loan = lent_in_place(tensor, named.full + suffix)
    if not in_transfer(how.compression):
        return _into_new(tensor, named, how, suffix).then(lambda result: written(tensor, result))
    return submission(
        _native.Operation.allreduce,
        named,
        loan,
        loan.memory,
        *how.natively(),
        finish=lambda outcome: loan.written_back(),
        suffix=suffix,
    )


def _start(tensor: torch.Tensor, name: str | None, how: Reduction) -> Handle:
    with Naming("allreduce", name, how.process_set) as named:
        if sparse.is_sparse(tensor):
            return sparse.start_allreduce(tensor, named, how)
        if type(tensor) is torch.Tensor and tensor.is_contiguous() and in_transfer(how.compression):
            started = start_at_once(
                _native.Operation.allreduce, named, tensor, torch.empty_like(tensor), *how.natively()
            )
            if started is not None:
                return started
        return start(_into_new(tensor, named, how))


def start_in_place(tensor: torch.Tensor, name: str | None, how: Reduction) -> Handle:
    """`allreduce_async_`, with the arguments of the reduction as one."""
    with Naming("allreduce", name, how.process_set) as named:
        if in_transfer(how.compression):
            started = start_at_once(_native.Operation.allreduce, named, tensor, tensor, *how.natively())
            if started is not None:
                return started
        if sparse.is_sparse(tensor):
            return sparse.start_allreduce_in_place(tensor, named, how)
        return start(_in_place(tensor, named, how))


def _start_group(tensors: Sequence[torch.Tensor], name: str | None, how: Reduction) -> Handle:
    with Naming("grouped_allreduce", name, how.process_set) as named:
        return start_members(tensors, named, lambda tensor, suffix: _into_new(tensor, named, how, suffix))


def _start_group_in_place(tensors: Sequence[torch.Tensor], name: str | None, how: Reduction) -> Handle:
    with Naming("grouped_allreduce", name, how.process_set) as named:
        return start_members(tensors, named, lambda tensor, suffix: _in_place(tensor, named, how, suffix))


def start_gradients_in_place(
    gradients: Mapping[str, torch.Tensor], used: torch.Tensor, name: str, how: Reduction
) -> Handle:
    """Starts the reduction of gradients, all or none.

    Args:
        gradients: by the ends of their names.
        used: uint8, an element for each gradient; it becomes the largest of all ranks.
    """
    with Naming("gradients", name, how.process_set) as named:
        largest = Reduction(ops.Max, 1.0, 1.0, how.process_set)
        parts = [_in_place(each, named, how, f".{key}") for key, each in gradients.items()]
        return start_group([_in_place(used, named, largest, ".used"), *parts])


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `allreduce`, without autograd; the handle is for `poll` and `synchronize`, which returns the new
    tensor."""
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    return _start(tensor, name, how)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `allreduce` in place, without autograd; the handle is for `poll` and `synchronize`, which
    returns the tensor. A tensor whose elements do not lie side by side has its new values once `synchronize`
    has returned."""
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    return start_in_place(tensor, name, how)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """`allreduce` in place, without autograd and compression; returns the tensor itself.

    Raises:
        HoraArgumentError (a ValueError): as `allreduce`; or the tensor is an expanded one.
        HoraInternalError (a RuntimeError): as `allreduce`.
    """
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set)
    result: torch.Tensor = _job.run(start_in_place, tensor, name, how)
    return result


def _selected_gradient(tensor: torch.Tensor, gradient: torch.Tensor, how: Reduction) -> torch.Tensor:
    """The gradient of Min, Max or Product in what this rank brought, for the sum of what all ranks make of
    the result."""
    scaled = tensor.detach() * how.prescale
    whole = allreduce(gradient, op=ops.Sum, process_set=how.process_set)
    if how.op == ops.Product:
        zero = scaled == 0
        zeros = allreduce(zero.to(torch.int32), op=ops.Sum, process_set=how.process_set)
        others = allreduce(
            torch.where(zero, 1, scaled), op=ops.Product, process_set=how.process_set
        ) / torch.where(zero, 1, scaled)
        share = torch.where(zeros == zero.to(torch.int32), others, 0)  # another rank's zero makes it zero
    else:
        chosen = scaled == allreduce(scaled, op=how.op, process_set=how.process_set)
        share = chosen / allreduce(chosen.to(torch.int32), op=ops.Sum, process_set=how.process_set)
    return whole * share.to(gradient.dtype) * (how.prescale * how.postscale)


_SELECTING = (ops.Min, ops.Max, ops.Product)
_WITHOUT_GRADIENT = (ops.LogicalAnd, ops.LogicalOr)


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None, how: Reduction) -> torch.Tensor:
        ctx.how = how
        ctx.save_for_backward(*[tensor] if how.op in _SELECTING else [])
        result: torch.Tensor = _job.run(_start, tensor, name, how)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        how: Reduction = ctx.how
        if how.op in _SELECTING:
            return _selected_gradient(ctx.saved_tensors[0], gradients[0], how), None, None
        return _reduced(gradients[0], None, how), None, None


def _reduced(tensor: torch.Tensor, name: str | None, how: Reduction) -> torch.Tensor:
    if not tracked(tensor) or sparse.is_sparse(tensor) or how.op in _WITHOUT_GRADIENT:
        plain: torch.Tensor = _job.run(_start, tensor, name, how)
        return plain
    sent, decompressed = how.compressed(tensor)
    result: torch.Tensor = decompressed(_Allreduce.apply(sent, name, how.without_calls()))  # type: ignore[no-untyped-call, unused-ignore]
    return result


@documented
def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor reduced over all ranks: postscale_factor * op(prescale_factor * tensor of every rank).

    Differentiable. With Average, Sum and Adasum the gradient is the gradients of all ranks reduced in the
    same way. With Min, Max and Product it is that of the sum over all ranks (equal extremes share it), where
    Horovod's means nothing. With LogicalAnd and LogicalOr there is none.

    Args:
        tensor: any shape, the same on all ranks; dtype an integer of 8 to 64 bits, float16, bfloat16,
            float32, float64, complex64, complex128 or bool; on the CPU or a GPU. A sparse COO tensor is
            reduced by way of its indices and values, with Average or Sum, and the result is sparse and
            coalesced.
        op: Average (default), Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor, LogicalAnd or LogicalOr.
            16-bit floats are summed in float32; averages of integers are exact and then truncated toward
            zero, so 1 and 2 give 1; averages divide by the size of the set; bool has no average; Adasum is
            for floating-point elements; complex numbers have Average and Sum. The bitwise ones are for
            integers and bool; they and the logical ones, whose result is 0 or 1, take no factors.

    Returns:
        A new tensor of the same shape and dtype, the same bits on every rank.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, both average= and op= are given, the name
            is under way already, or this rank is no member of the process set.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype, op or factors; the text is
            the same on all.
    """
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    return _reduced(tensor, name, how)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `grouped_allreduce`, without autograd; the handle is for `poll` and `synchronize`, which returns
    a tuple of new tensors."""
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    return _start_group(tensors, name, how)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `grouped_allreduce` in place, without autograd; the handle is for `poll` and `synchronize`,
    which returns the tuple of the tensors."""
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    return _start_group_in_place(tensors, name, how)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """`grouped_allreduce` in place, without autograd and compression; returns the tuple of the tensors
    themselves."""
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set)
    result: tuple[torch.Tensor, ...] = _job.run(_start_group_in_place, tensors, name, how)
    return result


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, name: str | None, how: Reduction, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.how = how
        ctx.floating = floating(tensors)
        ctx.save_for_backward(*tensors if how.op in _SELECTING else [])
        results: tuple[torch.Tensor, ...] = _job.run(_start_group, tensors, name, how)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        how: Reduction = ctx.how
        own = picked(gradients, ctx.floating)
        if how.op in _SELECTING:
            inputs = [tensor for tensor in ctx.saved_tensors if is_floating(tensor)]
            reduced = [
                _selected_gradient(tensor, gradient, how)
                for tensor, gradient in zip(inputs, own, strict=True)
            ]
        else:
            reduced = _group_reduced(own, None, how)
        return None, None, *spread(reduced, ctx.floating)


def _group_reduced(tensors: Sequence[torch.Tensor], name: str | None, how: Reduction) -> list[torch.Tensor]:
    listed = members(tensors, label("grouped_allreduce", name))
    if how.op in _WITHOUT_GRADIENT or not any(tracked(tensor) for tensor in listed):
        return list(_job.run(_start_group, listed, name, how))
    return how.apply_to_group(_GroupedAllreduce, name, listed)


@documented
def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """`allreduce` of several tensors at once: all are reduced together, or, if the ranks disagree about one,
    none.

    Differentiable: the gradients are reduced together too, those of tensors that were not used as zeros.

    Args:
        tensors: one tensor or more, of any shapes and dtypes, as many on all ranks; dense.
        op: as for `allreduce`.

    Returns:
        A list of new tensors.

    Raises:
        HoraShapeError (a ValueError and an IndexError): there are no tensors.
        HoraArgumentError (a ValueError), HoraInternalError (a RuntimeError): as `allreduce`.
    """
    how = Reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    return _group_reduced(tensors, name, how)
