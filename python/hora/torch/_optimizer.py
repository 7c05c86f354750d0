# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: gradients reduced over all ranks while backward() still runs."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hora import _job, _native, ops
from hora._errors import HoraArgumentError
from hora.compression import Compression, Compressor
from hora.torch._ops import native_dtype

_LINE = 64
_numbers = itertools.count()


@dataclasses.dataclass
class _Slot:
    """One parameter, and how far its gradient is."""

    name: str
    parameter: torch.Tensor
    place: torch.Tensor  # where its gradient lies while it is reduced
    pending: _native.Handle | None = None
    settled: bool = False  # the gradient is the reduced one, or nobody has one
    passes: int = 0  # backward passes since the last reduction


def _whole_lines(size: int) -> int:
    return (size + _LINE - 1) // _LINE * _LINE


def _names(optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.Tensor]] | None) -> dict[int, str]:
    """The name of every parameter of the optimizer, by id."""
    if named_parameters is None:
        return {
            id(parameter): f"{group}.{index}"
            for group, options in enumerate(optimizer.param_groups)
            for index, parameter in enumerate(options["params"])
        }
    named = list(named_parameters)
    if not all(isinstance(item, tuple) and len(item) == 2 for item in named):
        raise HoraArgumentError("named_parameters should be a sequence of tuples (name, parameter), usually model.named_parameters()")
    names = [name for name, _ in named]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise HoraArgumentError(f"parameter names must be unique; these are not: {', '.join(duplicates)}")
    known = {id(parameter): name for name, parameter in named}
    unnamed = sum(id(parameter) not in known for options in optimizer.param_groups for parameter in options["params"])
    if unnamed:
        raise HoraArgumentError(f"{unnamed} parameters of the optimizer have no name; pass all of model.named_parameters()")
    return known


def _places(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    """Places for gradients, side by side in memory that the ranks of a host share; each keeps its block alive."""
    sizes: dict[torch.dtype, int] = {}
    for parameter in parameters:
        sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + _whole_lines(parameter.nbytes)
    blocks = {dtype: _job.runtime().allocate(max(size, 1)) for dtype, size in sizes.items()}
    used = dict.fromkeys(sizes, 0)
    places = []
    for parameter in parameters:
        begin = used[parameter.dtype]
        used[parameter.dtype] += _whole_lines(parameter.nbytes)
        if parameter.numel() == 0:
            places.append(torch.empty_like(parameter, requires_grad=False))
            continue
        flat = torch.frombuffer(blocks[parameter.dtype], dtype=parameter.dtype, count=parameter.numel(), offset=begin)
        dense = torch.empty_like(parameter, device="meta")  # the parameter's strides, if those leave no gaps
        places.append(flat.as_strided(parameter.shape, dense.stride()))
    return places


class _Reducer:
    """The part of a DistributedOptimizer that is the same for every class of optimizer.

    A round is what lies between two steps. In it every slot is settled once: hooks submit gradients as they come, and
    `synchronize` submits the rest and waits. A gradient that is settled and then added to again holds what all ranks
    share plus what is this rank's own; reducing it again gives the right mean, and the right sum if the shared part is
    divided by the number of ranks before.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
                 compression: type[Compressor], passes: int, op: int, predivide: float) -> None:
        names = _names(optimizer, named_parameters)
        self.number = next(_numbers)
        self.compression = compression
        self.passes = passes
        self.op = op
        self.predivide = predivide
        self.accumulating = False
        self.synchronized = False
        parameters = []
        for options in optimizer.param_groups:
            for parameter in options["params"]:
                if parameter.requires_grad:
                    native_dtype(parameter, names[id(parameter)])
                    parameters.append(parameter)
        self.slots = [_Slot(names[id(parameter)], parameter, place) for parameter, place in zip(parameters, _places(parameters), strict=True)]
        for slot in self.slots:
            slot.parameter.register_hook(self._before(slot))  # type: ignore[no-untyped-call]
            slot.parameter.register_post_accumulate_grad_hook(self._after(slot))  # type: ignore[no-untyped-call]

    def _before(self, slot: _Slot) -> Callable[[torch.Tensor], None]:
        def hook(gradient: torch.Tensor) -> None:
            if slot.pending is not None:
                self._settle(slot)
            self.synchronized = False
            self._unsettle(slot)

        return hook

    def _after(self, slot: _Slot) -> Callable[[torch.Tensor], None]:
        def hook(parameter: torch.Tensor) -> None:
            slot.passes += 1
            if not self.accumulating and slot.passes >= self.passes:
                self._submit(slot)

        return hook

    def _unsettle(self, slot: _Slot) -> None:
        if slot.settled and self.op == ops.Sum and slot.parameter.grad is not None:
            with torch.no_grad():
                slot.parameter.grad.div_(_job.size())
        slot.settled = False

    def _submit(self, slot: _Slot) -> None:
        gradient = slot.parameter.grad
        if gradient is not None and gradient.data_ptr() != slot.place.data_ptr():
            native_dtype(gradient, slot.name)
            with torch.no_grad():
                slot.place.copy_(gradient)
            slot.parameter.grad = slot.place
        slot.passes = 0
        slot.pending = _job.runtime().submit(
            _native.Operation.allreduce, f"gradient.{self.number}.{slot.name}", native_dtype(slot.place, slot.name), list(slot.place.shape),
            input=slot.place.data_ptr(), output=slot.place.data_ptr(), op=ops.native(self.op), prescale=1.0 / self.predivide,
            postscale=self.predivide, wire=self.compression.wire, absent=gradient is None)

    def _settle(self, slot: _Slot) -> None:
        handle, slot.pending = slot.pending, None
        if handle is None:
            return
        _, contributed, _ = handle.wait()
        slot.settled = True
        if contributed and slot.parameter.grad is None:
            slot.parameter.grad = slot.place

    def synchronize(self) -> None:
        if self.synchronized:
            return
        for slot in self.slots:
            if slot.pending is None:
                self._unsettle(slot)
                self._submit(slot)
        first: Exception | None = None
        for slot in self.slots:
            try:
                self._settle(slot)
            except Exception as error:  # noqa: BLE001 - all must be waited for; the first is raised below
                first = first or error
        if first is not None:
            raise first
        self.synchronized = True

    def forget(self) -> None:
        """Nothing of what was reduced counts any more: gradients are about to be cleared."""
        for slot in self.slots:
            self._settle(slot)
            slot.settled = False
            slot.passes = 0


class _DistributedOptimizer:
    """The methods that DistributedOptimizer puts before those of the wrapped optimizer's class."""

    _reducer: _Reducer

    def synchronize(self) -> None:
        """Waits until every gradient is the reduced one. Idempotent until the next backward(); `step` does not reduce
        again. For clipping: `optimizer.synchronize(); clip_grad_norm_(...); optimizer.step()`."""
        self._reducer.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """For scripts written for Horovod: `step` never reduces twice here, with or without it."""
        yield

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward() only adds up gradients on this rank; the backward() after it reduces the whole."""
        former, self._reducer.accumulating = self._reducer.accumulating, True
        try:
            yield
        finally:
            self._reducer.accumulating = former

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up before gradients are reduced."""
        self._reducer.passes = passes

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """`synchronize()`, then the optimizer's own step. With a closure: gradients are reduced each time after it."""
        if closure is None:
            self.synchronize()
            result = super().step()  # type: ignore[misc]
        else:
            inner = closure

            def reduced() -> Any:
                loss = inner()
                self.synchronize()
                return loss

            result = super().step(reduced)  # type: ignore[misc]
        self._reducer.synchronized = False
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients: None, or zeros."""
        self._reducer.forget()
        super().zero_grad(set_to_none=set_to_none)  # type: ignore[misc]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads options and state; gradients that are under way are finished first."""
        self._reducer.forget()
        super().load_state_dict(state_dict)  # type: ignore[misc]


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
) -> Any:
    """Wraps an optimizer so that gradients are reduced over all ranks, while backward() still runs.

    The result is the same object, whose class now derives from the former one: `isinstance` holds, and state, options
    and learning-rate schedulers stay. Gradients live side by side in memory that the ranks of a host share.

    - Accumulation: `no_sync()`, or `backward_passes_per_step=k` (gradients of k passes are summed, as in Horovod).
    - A parameter that this rank did not use counts as zeros; one that no rank used keeps `grad is None`.
    - Several optimizers may be used at once.

    Args:
        optimizer: any of torch.optim's, or one like them; float16, bfloat16, float32 or float64 parameters on the CPU.
        named_parameters: `model.named_parameters()`; errors then name parameters. The same on all ranks.
        compression: Compression.none, fp16 or bf16: what gradients look like on the wire.
        op: Average or Sum.
        gradient_predivide_factor: divides by it before the sum, multiplies after it. Needs op=Average.

    Raises:
        HoraArgumentError (a ValueError): names are missing or not unique, or an argument is out of range.
    """
    if op not in (ops.Average, ops.Sum):
        raise HoraArgumentError("gradients are reduced by op=Average or op=Sum")
    if gradient_predivide_factor != 1.0 and op != ops.Average:
        raise HoraArgumentError("gradient_predivide_factor needs op=Average")
    if backward_passes_per_step < 1:
        raise HoraArgumentError(f"backward_passes_per_step must be at least 1, not {backward_passes_per_step}")
    reducer = _Reducer(optimizer, named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor)
    former = optimizer.__class__
    optimizer.__class__ = type(former.__name__, (_DistributedOptimizer, former), {"__doc__": former.__doc__})
    optimizer.__dict__.pop("step", None)  # a scheduler's wrapper around the former class's step would hide the new one
    optimizer._reducer = reducer  # type: ignore[attr-defined]
    return optimizer
