# SPDX-License-Identifier: Apache-2.0
"""Operations on PyTorch tensors. They are lent by address: Hora links no Torch, so one build serves every version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hora import _job, _native, ops
from hora._errors import HoraArgumentError
from hora.compression import Compression, Compressor, wire_of

_DTYPES = {
    torch.uint8: _native.DType.uint8,
    torch.int8: _native.DType.int8,
    torch.int16: _native.DType.int16,
    torch.int32: _native.DType.int32,
    torch.int64: _native.DType.int64,
    torch.float16: _native.DType.float16,
    torch.bfloat16: _native.DType.bfloat16,
    torch.float32: _native.DType.float32,
    torch.float64: _native.DType.float64,
    torch.bool: _native.DType.bool,
}


def native_dtype(tensor: torch.Tensor, name: str) -> _native.DType:
    """The dtype of a tensor that can be sent. Raises HoraArgumentError that says why it cannot."""
    if not isinstance(tensor, torch.Tensor):
        raise HoraArgumentError(f"'{name}': expected a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise HoraArgumentError(f"'{name}': sparse tensors cannot be sent in this version; make it dense with .to_dense()")
    if tensor.device.type != "cpu":
        raise HoraArgumentError(f"'{name}': the tensor is on {tensor.device}; this version takes tensors on the CPU: use .cpu()")
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        accepted = ", ".join(str(known).removeprefix("torch.") for known in _DTYPES)
        raise HoraArgumentError(f"'{name}': elements of type {tensor.dtype} cannot be sent; convert with .to() to one of {accepted}")
    return dtype


def _lend(tensor: torch.Tensor, name: str) -> _native.DType:
    dtype = native_dtype(tensor, name)
    if not tensor.is_contiguous():
        raise HoraArgumentError(f"'{name}': the tensor is required to be contiguous; use .contiguous()")
    if tensor.is_neg():
        raise HoraArgumentError(f"'{name}': the tensor is a negative view, whose elements are negated when they are read; use .resolve_neg()")
    return dtype


def _submit_allreduce(tensor: torch.Tensor, output: torch.Tensor, name: str, op: int, prescale: float, postscale: float, compression: type[Compressor]) -> int:
    handle = _job.runtime().submit(
        _native.Entry(
            _native.Operation.allreduce,
            name,
            _lend(tensor, name),
            list(tensor.shape),
            input=tensor.data_ptr(),
            output=output.data_ptr(),
            op=ops.native(op),
            prescale=prescale,
            postscale=postscale,
            wire=wire_of(compression),
        )
    )
    return _job.track(handle, lambda outcome: output, tensor)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> int:
    """Starts `allreduce`, without autograd; the handle is for `poll` and `synchronize`."""
    full = _job.name_or_number("allreduce", name)
    _lend(tensor, full)
    output = torch.empty_like(tensor, requires_grad=False)
    return _submit_allreduce(tensor.detach(), output, full, ops.chosen(average, op), prescale_factor, postscale_factor, compression)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> int:
    """Starts `allreduce_`; the handle is for `poll` and `synchronize`."""
    full = _job.name_or_number("allreduce", name)
    return _submit_allreduce(tensor, tensor, full, ops.chosen(average, op), prescale_factor, postscale_factor, compression)


def allreduce_(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0
) -> torch.Tensor:
    """`allreduce` in place, without autograd; returns the tensor."""
    result: torch.Tensor = _job.synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor))
    return result


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None, op: int, prescale: float, postscale: float, compression: type[Compressor]) -> torch.Tensor:
        ctx.arguments = (op, prescale, postscale)
        result: torch.Tensor = _job.synchronize(allreduce_async(tensor, None, name, op, prescale, postscale, compression))
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        op, prescale, postscale = ctx.arguments
        return allreduce(gradients[0].contiguous(), op=op, prescale_factor=prescale, postscale_factor=postscale), None, None, None, None, None


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """The tensor reduced over all ranks: postscale_factor * op(prescale_factor * tensor of every rank). Differentiable:
    the gradient is the gradients of all ranks reduced in the same way.

    Args:
        tensor: any shape, the same on all ranks; dtype uint8, int8, int16, int32, int64, float16, bfloat16, float32,
            float64 or bool; contiguous, dense, on the CPU.
        average: deprecated; True means op=Average, False op=Sum.
        name: the same on all ranks; without one, operations are matched by the order in which ranks issue them.
        compression: Compression.none, fp16 or bf16: what float32 and float64 elements look like on the wire.
        op: Average (default), Sum, Min, Max or Product. 16-bit floats are summed in float32; averages of integers are
            truncated toward zero; bool has no average.

    Returns:
        A new tensor of the same shape and dtype, the same bits on every rank.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, or its name is under way already.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype or op; the text is the same on all.
    """
    chosen = ops.chosen(average, op)
    result: torch.Tensor = _Allreduce.apply(tensor, name, chosen, prescale_factor, postscale_factor, compression)  # type: ignore[no-untyped-call]
    return result


def _submit_broadcast(tensor: torch.Tensor, output: torch.Tensor, root_rank: int, name: str) -> int:
    handle = _job.runtime().submit(
        _native.Entry(
            _native.Operation.broadcast,
            name,
            _lend(tensor, name),
            list(tensor.shape),
            input=tensor.data_ptr(),
            output=output.data_ptr(),
            root=_job.checked_root(root_rank, name),
        )
    )
    return _job.track(handle, lambda outcome: output, tensor)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> int:
    """Starts `broadcast`, without autograd; the handle is for `poll` and `synchronize`."""
    full = _job.name_or_number("broadcast", name)
    _lend(tensor, full)
    return _submit_broadcast(tensor.detach(), torch.empty_like(tensor, requires_grad=False), root_rank, full)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> int:
    """Starts `broadcast_`; the handle is for `poll` and `synchronize`."""
    return _submit_broadcast(tensor, tensor, root_rank, _job.name_or_number("broadcast", name))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """`broadcast` in place, without autograd; returns the tensor."""
    result: torch.Tensor = _job.synchronize(broadcast_async_(tensor, root_rank, name))
    return result


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None) -> torch.Tensor:
        ctx.root_rank = root_rank
        result: torch.Tensor = _job.synchronize(broadcast_async(tensor, root_rank, name))
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        mean = allreduce(gradients[0].contiguous(), op=ops.Average)
        return mean if _job.rank() == ctx.root_rank else torch.zeros_like(mean), None, None


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """What rank `root_rank` has: a new tensor on every rank. Shape and dtype must be the same on all. Differentiable:
    the root gets the average of all ranks' gradients, as in Horovod, the others zeros.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, or there is no such rank.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype or root.
    """
    result: torch.Tensor = _Broadcast.apply(tensor, root_rank, name)  # type: ignore[no-untyped-call]
    return result


def _submit_allgather(tensor: torch.Tensor, name: str | None, finish: Callable[[torch.Tensor, list[int]], Any]) -> int:
    """`finish` gets the gathered tensor and the rows of each rank."""
    full = _job.name_or_number("allgather", name)
    dtype = tensor.dtype if isinstance(tensor, torch.Tensor) else None
    lent = tensor.detach() if dtype is not None else tensor
    handle = _job.runtime().submit(_native.Entry(_native.Operation.allgather, full, _lend(lent, full), list(lent.shape), input=lent.data_ptr()))

    def finish_memory(outcome: _native.Outcome) -> Any:
        memory = outcome.memory
        if memory is None or len(memory) == 0:
            return finish(torch.empty(outcome.shape, dtype=dtype), outcome.rows)
        return finish(torch.frombuffer(memory, dtype=dtype).reshape(outcome.shape), outcome.rows)

    return _job.track(handle, finish_memory, lent)


def allgather_async(tensor: torch.Tensor, name: str | None = None) -> int:
    """Starts `allgather`, without autograd; the handle is for `poll` and `synchronize`."""
    return _submit_allgather(tensor, name, lambda result, rows: result)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None) -> torch.Tensor:
        result: torch.Tensor
        rows: list[int]
        result, rows = _job.synchronize(_submit_allgather(tensor, name, lambda result, rows: (result, rows)))
        ctx.begin = sum(rows[: _job.rank()])
        ctx.rows = tensor.shape[0]
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        mean = allreduce(gradients[0].contiguous(), op=ops.Average)
        return mean[ctx.begin : ctx.begin + ctx.rows], None


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """The tensors of all ranks, one after the other along the first dimension, in rank order. The first dimension may
    differ from rank to rank (0 rows, too); the others and the dtype may not. Differentiable: each rank gets its rows of
    the average of all ranks' gradients, as in Horovod.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, or is a scalar.
        HoraInternalError (a RuntimeError): the ranks disagree about dtype or the other dimensions.
    """
    if isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled() and tensor.dim() > 0:
        result: torch.Tensor = _Allgather.apply(tensor, name)  # type: ignore[no-untyped-call]
    else:
        result = _job.synchronize(allgather_async(tensor, name))
    return result
