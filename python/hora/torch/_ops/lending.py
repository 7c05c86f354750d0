# SPDX-License-Identifier: Apache-2.0
"""Tensors lent to the runtime, by address: Hora links no Torch, so one build serves every version."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from hora import _job, _native
from hora._errors import HoraArgumentError
from hora._job import Handle
from hora._naming import Naming
from hora._rows import check_output, refuse_output
from hora.torch._ops import devices

_DTYPES: dict[torch.dtype, _native.DType] = {
    getattr(torch, name): native
    for name, native in _native.DType.__members__.items()
    if hasattr(torch, name)  # float8_e8m0fnu is new in PyTorch 2.7
}
_OF_NATIVE = {native: dtype for dtype, native in _DTYPES.items()}


def check_tensor(tensor: Any, name: str) -> None:
    """Raises HoraArgumentError for what is no tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise HoraArgumentError(f"'{name}': expected a torch.Tensor, not {type(tensor).__name__}")


def native_dtype(tensor: torch.Tensor, name: str) -> _native.DType:
    """The dtype of a tensor that can be sent. Raises HoraArgumentError that says why it cannot."""
    check_tensor(tensor, name)
    if tensor.layout != torch.strided:
        raise HoraArgumentError(
            f"'{name}': sparse tensors cannot be sent in this version; make it dense with .to_dense()"
        )
    devices.check_device(tensor, name)
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        accepted = ", ".join(str(known).removeprefix("torch.") for known in _DTYPES)
        raise HoraArgumentError(
            f"'{name}': elements of type {tensor.dtype} cannot be sent; convert with .to() "
            f"to one of {accepted}"
        )
    return dtype


def known_dtype(tensor: torch.Tensor) -> bool:
    """Whether elements of its dtype can be sent."""
    return tensor.dtype in _DTYPES


def torch_dtype(native: _native.DType) -> torch.dtype:
    """The dtype as PyTorch names it."""
    return _OF_NATIVE[native]


def written(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The tensor itself, with these values, without a trace in autograd."""
    with torch.no_grad():
        return tensor.copy_(values)


class Loan:
    """A tensor's elements as the runtime takes them: where the tensor has them, or in a copy if they are not
    contiguous there, or are negated or conjugated when they are read."""

    __slots__ = ("memory", "native", "place", "shape", "tensor")

    def __init__(self, tensor: torch.Tensor, name: str) -> None:
        self.native = native_dtype(tensor, name)
        self.tensor = tensor
        self.memory = tensor.detach()
        if tensor.is_neg() or tensor.is_conj() or not tensor.is_contiguous():
            self.memory = self.memory.resolve_neg().resolve_conj().contiguous()
        self.shape = self.memory.shape
        self.place = devices.place_of(self.memory)

    def output(self) -> torch.Tensor:
        """Memory for a result of the same shape that is no result in place."""
        return self.memory if self._copied() else torch.empty_like(self.memory)

    def output_of(self, rows: int) -> torch.Tensor:
        """Memory for a result of as many rows."""
        return self.memory.new_empty(rows, *self.shape[1:])

    @staticmethod
    def address_of(output: torch.Tensor) -> int:
        """Where its elements are."""
        return output.data_ptr()

    def checked_output(self, out: torch.Tensor, rows: int | None, name: str) -> torch.Tensor:
        """Memory of the caller's for a result of so many rows, or of any number. Raises
        HoraArgumentError."""
        check_tensor(out, name)
        if tracked(out):
            refuse_output(name, "is to have a gradient; the result has none: use torch.no_grad()")
        if out.device != self.memory.device:
            refuse_output(name, f"is on {out.device}, and the tensor on {self.memory.device}")
        if out.layout != torch.strided:
            refuse_output(name, "is sparse")
        check_output(out.shape, out.dtype, rows, self.shape[1:], self.memory.dtype, name)
        if not out.is_contiguous() or out.is_neg() or out.is_conj():
            refuse_output(name, "has elements that do not lie side by side")
        return out.detach()

    def first(self, rows: int) -> Loan:
        """The first rows."""
        return Loan(self.memory[:rows], "rows")

    def receiver(self) -> Callable[[_native.Outcome], torch.Tensor]:
        """Gives the output that the runtime allocated, for the stream that is current then, and keeps no
        elements."""
        dtype, place = self.memory.dtype, self.place
        return lambda outcome: devices.on_current_stream(received(outcome, dtype), place)

    def under_way(self, handle: _native.Handle, output: torch.Tensor | None) -> _job.UnderWay:
        """The operation to wait for."""
        lent = (self.memory,) if output is None or output is self.memory else (self.memory, output)
        return devices.under_way(handle, self.place, *lent)

    def written_back(self) -> torch.Tensor:
        """The tensor itself, once its memory has the result."""
        return written(self.tensor, self.memory) if self._copied() else self.tensor

    def _copied(self) -> bool:
        return self.memory.data_ptr() != self.tensor.data_ptr()


def _places(dimensions: list[tuple[int, int]]) -> list[int]:
    """Where the elements of a tensor with these strides and extents are."""
    places = [0]
    for stride, extent in dimensions:
        places = [place + stride * index for place in places for index in range(extent)]
    return places


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether several elements are one in memory."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return False
    span = 1
    dimensions = sorted(
        (stride, extent) for stride, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent > 1
    )
    for stride, extent in dimensions:
        if stride < span:  # none but as_strided makes such
            return len(set(_places(dimensions))) < tensor.numel()
        span += (extent - 1) * stride
    return False


def lent_in_place(tensor: torch.Tensor, name: str) -> Loan:
    """A loan whose result can be written back. Raises HoraArgumentError if several elements of the tensor are
    one."""
    loan = Loan(tensor, name)
    if _overlaps_itself(tensor):
        raise HoraArgumentError(
            f"'{name}': several elements of the expanded tensor share one place, so nothing can be done in "
            "place; use .clone()"
        )
    return loan


def received(outcome: _native.Outcome, dtype: torch.dtype) -> torch.Tensor:
    """The output that the runtime allocated."""
    assert outcome.memory is not None
    return devices.tensor_in(outcome.memory, dtype, math.prod(outcome.shape)).reshape(outcome.shape)


#: Classes of tensors whose elements are at `data_ptr`. Those of others may be elsewhere.
PLAIN = (torch.Tensor, torch.nn.Parameter)


def start_at_once(
    operation: _native.Operation,
    named: Naming,
    tensor: torch.Tensor,
    output: torch.Tensor,
    op: _native.ReduceOp = _native.ReduceOp.sum,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: _native.DType = _native.DType.float32,
    root: int = 0,
) -> Handle | None:
    """Submits an operation on a tensor that the runtime takes where it is, without a look at it in Python;
    the handle gives `output`, which may be the tensor itself. None: it is for a `Loan` to look closer."""
    if (
        type(tensor) not in PLAIN
        or devices.gpu_of(tensor) is not None
        or tensor.layout != torch.strided
        or tensor.is_neg()
        or tensor.is_conj()
    ):
        return None
    lent = (
        tensor.untyped_storage() if output is tensor else (tensor.untyped_storage(), output)
    )  # the tensor may be given another storage
    handle = _job.runtime().lend(
        operation, named.full, tensor, output, lent, named.process_set, op, prescale, postscale, wire, root
    )
    return None if handle is None else _job.under_way(handle, lambda outcome: output)


def tracked(tensor: Any) -> bool:
    """Whether autograd is to know about an operation on this tensor."""
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled()


def floating(tensors: Iterable[torch.Tensor]) -> list[bool]:
    """The tensors of a group that have gradients: those of floating-point or complex elements."""
    return [is_floating(tensor) for tensor in tensors]


def is_floating(tensor: torch.Tensor) -> bool:
    """Whether its elements are floating-point or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def picked(gradients: Iterable[Any], which: list[bool]) -> list[Any]:
    """The gradients that `floating` says there are."""
    return [gradient for gradient, there in zip(gradients, which, strict=True) if there]


def spread(gradients: Iterable[Any], which: list[bool]) -> list[Any]:
    """The reverse of `picked`: None for tensors that have none."""
    each = iter(gradients)
    return [next(each) if there else None for there in which]
