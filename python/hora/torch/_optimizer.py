# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: gradients reduced over all ranks while backward() still runs."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import itertools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hora import _job, _native, ops
from hora._errors import HoraArgumentError, HoraError
from hora.compression import Compression, Compressor, wire_of
from hora.torch._ops import allreduce, native_dtype

_LINE = 64
_MOST_NUMBERS = 8  # names of a gradient's rounds, which then repeat
_numbers = itertools.count()


@dataclasses.dataclass(eq=False)
class _Slot:
    """One parameter, and how far its gradient is."""

    name: str
    parameter: torch.Tensor
    place: torch.Tensor  # where its gradient lies while it is reduced
    pending: _native.Handle | None = None
    absent: bool = False  # what is pending has nothing from this rank
    base: torch.Tensor | None = None  # what was reduced before and is to be added to
    settled: bool = False  # the gradient, if there is one, is the same on all ranks
    version: int = 0  # of a settled gradient, when the last step ended
    rounds: int = 0  # since the last step or zero_grad
    accumulate: Any = None  # autograd's node that adds to the gradient; alive, so that its hook is
    hooks: list[Any] = dataclasses.field(default_factory=list)
    released: bool = False  # to another DistributedOptimizer

    def release(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.released = True

    def in_place(self) -> bool:
        gradient = self.parameter.grad
        return gradient is not None and gradient.layout == torch.strided and gradient.data_ptr() == self.place.data_ptr()


# Of every parameter, by id: the last that took it. A slot keeps its parameter, so that no other gets that id.
_slots: weakref.WeakValueDictionary[int, _Slot] = weakref.WeakValueDictionary()


def _whole_lines(size: int) -> int:
    return (size + _LINE - 1) // _LINE * _LINE


def _names(optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.Tensor]] | None) -> dict[int, str]:
    """The name of every parameter of the optimizer, by id."""
    if named_parameters is None:
        return {id(parameter): f"{group}.{index}" for group, options in enumerate(optimizer.param_groups) for index, parameter in enumerate(options["params"])}
    named = list(named_parameters)
    if not all(isinstance(item, tuple) and len(item) == 2 for item in named):
        raise HoraArgumentError("named_parameters should be a sequence of tuples (name, parameter), usually model.named_parameters()")
    names = [name for name, _ in named]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise HoraArgumentError(f"parameter names must be unique; these are not: {', '.join(duplicates)}")
    known = {id(parameter): name for name, parameter in named}
    unnamed = [
        f"parameter {index} of group {group} {list(parameter.shape)}"
        for group, options in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(options["params"])
        if id(parameter) not in known
    ]
    if unnamed:
        raise HoraArgumentError(f"{len(unnamed)} parameters of the optimizer have no name, the first is {unnamed[0]}; pass all of model.named_parameters()")
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

    A round reduces what every rank has gathered in its gradients since the round before, each gradient once. A pass of
    backward() that is to reduce is one round: hooks submit gradients as they come; when the pass ends, before backward()
    returns, the rest is submitted, too, and all is waited for. So gradients are the reduced ones whenever the user can
    see them, and all ranks make the same rounds, whichever parameters each of them uses. `synchronize` makes the round
    that is owed after passes that only accumulate, or if this rank's backward() touched no parameter at all.

    A gradient that is added to after it was reduced (another pass before `step`) is set aside as the slot's `base`,
    and the reduced addition is added to it: only what is this rank's own is ever reduced.

    Rounds since the last `step` or `zero_grad` are numbered in the tensors' names. Ranks that get out of step with each
    other wait, and are named by the stall warning, instead of adding up gradients of different passes.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
        compression: type[Compressor],
        passes: int,
        op: int,
        predivide: float,
    ) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.names = _names(optimizer, named_parameters)
        self.slots: list[_Slot] = []
        self.known: set[int] = set()
        self.number = next(_numbers)
        self.wire = wire_of(compression)
        self.passes_per_round = passes
        self.op = op
        self.predivide = predivide
        self.accumulating = False  # under no_sync
        self.passes = 0  # since the last round
        self.rounds = 0  # since the last step or zero_grad
        self.task = -1  # autograd's number of the pass under way
        self.reducing = False  # that pass ends with a round
        self.owed = False  # a pass has only accumulated, on every rank
        self._adopt_new()

    def _adopt_new(self) -> None:
        """Takes in the parameters that get gradients, also those that were added or unfrozen since; on all ranks alike."""
        optimizer = self.optimizer()
        parameters = []
        for group, options in enumerate(optimizer.param_groups if optimizer is not None else ()):
            for index, parameter in enumerate(options["params"]):
                if parameter.requires_grad and id(parameter) not in self.known:
                    native_dtype(parameter, self.names.setdefault(id(parameter), f"{group}.{index}"))
                    parameters.append(parameter)
        for parameter, place in zip(parameters, _places(parameters), strict=True):
            # Elements are added up as they lie in memory. Ranks whose parameters lie differently must not meet.
            layout = "" if place.is_contiguous() else f" (strides {', '.join(map(str, place.stride()))})"
            slot = _Slot(self.names[id(parameter)] + layout, parameter, place)
            self.slots.append(slot)
            self.known.add(id(parameter))
            self._adopt(slot)

    def _adopt(self, slot: _Slot) -> None:
        """Takes over a parameter, from another reducer if that had it. The hooks do nothing once this one is gone."""
        former = _slots.get(id(slot.parameter))
        if former is not None:
            former.release()
        _slots[id(slot.parameter)] = slot
        with torch.enable_grad():
            slot.accumulate = slot.parameter.expand_as(slot.parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        this = weakref.ref(self)

        def before(gradients: tuple[torch.Tensor, ...]) -> None:
            reducer = this()
            if reducer is not None:
                reducer._before(slot)

        def after(parameter: torch.Tensor) -> None:
            reducer = this()
            if reducer is not None:
                reducer._after(slot)

        slot.hooks = [
            slot.accumulate.register_prehook(before),  # a hook of the tensor's would run in torch.autograd.grad, too
            slot.parameter.register_post_accumulate_grad_hook(after),  # type: ignore[no-untyped-call]
        ]

    # --- during backward() ---

    def _before(self, slot: _Slot) -> None:
        """backward() is about to add to this gradient."""
        self._enter_pass()
        self._settle(slot)  # twice in one pass, as under reentrant checkpointing; or the last pass was interrupted
        if slot.settled:
            if self._is_shared(slot):
                slot.base = self._set_aside(slot)
                slot.parameter.grad = None
            slot.settled = False

    def _after(self, slot: _Slot) -> None:
        self._enter_pass()
        if slot.settled:
            raise HoraArgumentError(f"'{slot.name}' was converted or moved after its DistributedOptimizer was made; make that afterwards")
        if self.reducing:
            self._submit(slot)

    def _enter_pass(self) -> None:
        task: int = torch._C._current_graph_task_id()
        if task == self.task:
            return
        self.task = task
        self.reducing = not self.accumulating and self.passes + 1 >= self.passes_per_round
        torch.autograd.Variable._execution_engine.queue_callback(lambda: self._leave_pass(task))

    def _leave_pass(self, task: int) -> None:
        if task != self.task:
            return
        self.task = -1
        self.passes += 1
        if self.reducing:
            self._round()
        else:
            self.owed = True

    # --- a round ---

    def _is_shared(self, slot: _Slot) -> bool:
        """Whether a settled gradient still is what it was: nobody has written to it after the step."""
        gradient = slot.parameter.grad
        return self.rounds > 0 or gradient is None or (slot.in_place() and gradient._version == slot.version)

    @staticmethod
    def _set_aside(slot: _Slot) -> torch.Tensor | None:
        """The gradient, where a reduction does not overwrite it."""
        gradient = slot.parameter.grad
        return gradient.clone() if gradient is not None and slot.in_place() else gradient

    def _submit(self, slot: _Slot) -> None:
        gradient = slot.parameter.grad
        if slot.settled and self._is_shared(slot):
            slot.base, gradient = self._set_aside(slot), None
        elif gradient is not None and not slot.in_place():
            native_dtype(gradient, slot.name)
            if gradient.dtype != slot.place.dtype or gradient.shape != slot.place.shape:
                raise HoraArgumentError(
                    f"'{slot.name}': the gradient is {gradient.dtype} {list(gradient.shape)}, the parameter was {slot.place.dtype} "
                    f"{list(slot.place.shape)} when its DistributedOptimizer was made; make that after converting the model"
                )
            with torch.no_grad():
                slot.place.copy_(gradient)
            slot.parameter.grad = slot.place
        name = f"gradient.{self.number}.{slot.name}" + (f" (pass {slot.rounds % _MOST_NUMBERS + 1})" if slot.rounds else "")
        slot.absent = gradient is None
        slot.pending = _job.runtime().submit(
            _native.Entry(
                _native.Operation.allreduce,
                name,
                native_dtype(slot.place, slot.name),
                list(slot.place.shape),
                input=slot.place.data_ptr(),
                output=slot.place.data_ptr(),
                op=ops.native(self.op),
                prescale=1.0 / self.predivide,
                postscale=self.predivide,
                wire=self.wire,
                absent=slot.absent,
            )
        )
        slot.rounds += 1

    def _settle(self, slot: _Slot) -> None:
        if slot.pending is None:
            return
        try:
            contributed = slot.pending.wait().contributed
        except HoraError:
            slot.pending = slot.base = None
            raise
        slot.pending = None  # not after Ctrl-C: the operation is under way still
        slot.settled = True
        base, slot.base = slot.base, None
        cleared = not slot.absent and slot.parameter.grad is None  # by the user, after backward() was interrupted
        if not contributed or cleared:
            return
        slot.parameter.grad = slot.place
        if base is not None:
            with torch.no_grad():
                slot.place.add_(base)

    def _round(self) -> None:
        """Reduces everything once, and waits for it."""
        self._adopt_new()
        taken = [slot.name for slot in self.slots if slot.released]
        if taken:
            raise HoraArgumentError(f"'{taken[0]}' belongs to a DistributedOptimizer that was made later; use that one")
        for slot in self.slots:
            if slot.pending is None:
                self._submit(slot)
        first: Exception | None = None
        for slot in self.slots:
            try:
                self._settle(slot)
            except Exception as error:  # noqa: BLE001 - all must be waited for; the first is raised below
                first = first or error
        self.passes = 0
        self.owed = False
        self.rounds += 1
        if first is not None:
            raise first

    # --- between passes ---

    def synchronize(self) -> None:
        self._adopt_new()
        own = any(slot.pending is not None or (not slot.settled and slot.parameter.grad is not None) for slot in self.slots)
        if self.rounds == 0 or self.owed or own:
            self._round()

    def reduce_loss(self, loss: Any) -> Any:
        """What a closure returned, over all ranks."""
        if isinstance(loss, torch.Tensor):
            return allreduce(loss.detach().contiguous(), name=f"loss.{self.number}", op=self.op)
        if isinstance(loss, float):
            return allreduce(torch.tensor(loss, dtype=torch.float64), name=f"loss.{self.number}", op=self.op).item()
        return loss

    def end_step(self) -> None:
        """What comes now belongs to the next step."""
        self.rounds = 0
        for slot in self.slots:
            slot.rounds = 0
            gradient = slot.parameter.grad
            slot.version = 0 if gradient is None else gradient._version

    def forget(self) -> None:
        """Nothing of what was reduced counts any more: gradients are about to be cleared."""
        if any(slot.pending is not None for slot in self.slots):
            self._round()  # backward() failed or was interrupted; the other ranks wait for the rest
        self.task = -1
        self.passes = 0
        self.owed = False
        for slot in self.slots:
            slot.settled = False
        self.end_step()


class _DistributedOptimizer:
    """The methods that DistributedOptimizer puts before those of the wrapped optimizer's class."""

    _reducer: _Reducer

    def synchronize(self) -> None:
        """Makes every gradient the reduced one, if backward() has not done so already. Idempotent; `step` does not reduce
        again. For clipping in scripts written for Horovod: `optimizer.synchronize(); clip_grad_norm_(...);
        optimizer.step()`."""
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
        self._reducer.passes_per_round = passes

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """`synchronize()`, then the optimizer's own step. With a closure: each time after it gradients are reduced, and
        so is the loss that it returns, so that all ranks take the same decisions (LBFGS searches along a line)."""
        if closure is None:
            self.synchronize()
            result = super().step()  # type: ignore[misc]
        else:
            inner = closure

            def reduced() -> Any:
                loss = inner()
                self.synchronize()
                return self._reducer.reduce_loss(loss)

            result = super().step(reduced)  # type: ignore[misc]
        self._reducer.end_step()
        self._opt_called = True
        return result

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # schedulers need not wrap it to see that it was called

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients: None, or zeros."""
        self._reducer.forget()
        super().zero_grad(set_to_none=set_to_none)  # type: ignore[misc]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles are plain optimizers, of the class that was wrapped."""
        warnings.warn("a copy of a DistributedOptimizer is a plain optimizer: wrap it, too, before you train with it", stacklevel=2)
        return copyreg._reconstructor, (type(self).__bases__[1], object, None), self.__getstate__()  # type: ignore[attr-defined]

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

    - When backward() returns, gradients are the reduced ones: clip them, look at them, give them to a GradScaler.
    - Accumulation: `no_sync()`, or `backward_passes_per_step=k` (gradients of k passes are summed, as in Horovod).
      Without either, each backward() before a step reduces what it has added.
    - A parameter that this rank did not use counts as zeros; one that no rank used keeps `grad is None`.
    - Parameters that are unfrozen or added later are taken in; on all ranks alike.
    - Several optimizers may be used at once, each with parameters of its own. Wrapping parameters again, in a new
      optimizer, takes them from the old one.

    Args:
        optimizer: any of torch.optim's, or one like them; float16, bfloat16, float32 or float64 parameters on the CPU.
        named_parameters: `model.named_parameters()`; errors then name parameters. The same on all ranks.
        compression: Compression.none, fp16 or bf16: what gradients look like on the wire.
        op: Average or Sum.
        gradient_predivide_factor: divides by it before the sum, multiplies after it. Needs op=Average.

    Raises:
        HoraArgumentError (a ValueError): names are missing or not unique, or an argument is out of range.
    """
    if isinstance(optimizer, _DistributedOptimizer):
        raise HoraArgumentError("this optimizer already is a DistributedOptimizer")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise HoraArgumentError(f"expected an optimizer, such as torch.optim.SGD(model.parameters(), 0.1), not {type(optimizer).__name__}")
    if op not in (ops.Average, ops.Sum):
        raise HoraArgumentError("gradients are reduced by op=Average or op=Sum")
    if gradient_predivide_factor != 1.0 and op != ops.Average:
        raise HoraArgumentError("gradient_predivide_factor needs op=Average")
    if not isinstance(backward_passes_per_step, int) or backward_passes_per_step < 1:
        raise HoraArgumentError(f"backward_passes_per_step must be a number from 1 up, not {backward_passes_per_step!r}")
    reducer = _Reducer(optimizer, named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor)
    former = optimizer.__class__
    optimizer.__class__ = type(former.__name__, (_DistributedOptimizer, former), {"__doc__": former.__doc__})
    optimizer.__dict__.pop("step", None)  # a scheduler's wrapper around the former class's step would hide the new one
    optimizer._reducer = reducer  # type: ignore[attr-defined]
    return optimizer
