# SPDX-License-Identifier: Apache-2.0
"""Adasum of what an optimizer's step changes."""

from __future__ import annotations

import weakref

import torch

from hora import _native
from hora._errors import HoraError
from hora.torch._ops.reduction import Reduction
from hora.torch._optimizer.finite import all_finite
from hora.torch._optimizer.parameters import fresh_parameters
from hora.torch._optimizer.rounds import Rounds, for_all
from hora.torch._optimizer.slots import DENSE, Slot, check_not_taken, new_slot, places, take
from hora.torch._optimizer.transfers import DenseTransfer, start_on_host, submit
from hora.torch._untraced import untraced


class DeltaReducer(Rounds):
    """The part of an Adasum optimizer that is the same for every class of optimizer.

    Each rank steps for itself, with the gradients of its own batch; the changes of each parameter (deltas)
    are combined, and become the change on every rank. A round only finds out whether any rank has gradients
    that are inf or nan; then those of all ranks become so, and every rank's GradScaler skips the step.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, names: dict[int, str], reduction: Reduction, passes: int
    ) -> None:
        super().__init__(optimizer, passes, reduction.process_set)
        self.names = names
        self.reduction = reduction
        self.slots: list[Slot] = []
        self._known: set[int] = set()
        self._flag = self.state.add_parameter("overflow", self.units.add_unit(), DENSE)
        self._overflow = torch.zeros(1, dtype=torch.uint8)
        self._asked: _native.Handle | None = None
        self._adopt_new()

    def _adopt_new(self) -> None:
        """Takes in the parameters that get gradients, also those that were added or unfrozen since; on all
        ranks alike."""
        fresh = [
            new_slot(len(self.slots) + index, name, parameter)
            for index, (parameter, name) in enumerate(
                fresh_parameters(self.optimizer(), self.names, self._known)
            )
        ]
        this = weakref.ref(self)

        @untraced
        def after(parameter: torch.Tensor) -> None:
            reducer = this()
            if reducer is not None:
                reducer.begin_pass(torch._C._current_graph_task_id())

        for slot, place in zip(fresh, places(fresh), strict=True):
            slot.place = place
            take(slot)
            slot.hooks = [slot.parameter.register_post_accumulate_grad_hook(after)]  # type: ignore[no-untyped-call]
        self.slots += fresh

    def begin_generation(self) -> None:
        """Nothing is being reduced: that has ended with the former generation."""
        self._asked = None
        super().begin_generation()

    # --- a round ---

    def check(self) -> None:
        """Raises HoraArgumentError if another optimizer has taken one of the parameters."""
        check_not_taken(self.slots)

    def carry_out(self, action: _native.Action, making: _native.Round) -> None:
        """The only thing to submit is the flag."""
        kind = action.kind
        if kind == _native.Action.Kind.adopt:
            self._adopt_new()
        elif kind == _native.Action.Kind.submit:
            self._tell()
        elif kind == _native.Action.Kind.settle:
            self._hear()

    def _tell(self) -> None:
        """Tells the other ranks whether this rank's gradients are finite."""
        self._overflow.fill_(not all_finite(slot.parameter.grad for slot in self.slots))
        self._asked = start_on_host(
            self._overflow,
            self.state.name_of(self._flag),
            _native.ReduceOp.max,
            self.reduction.process_set,
            self.state.failed_with,
        )
        self.state.submitted([self._flag])

    def _hear(self) -> None:
        """Hears whether all gradients are finite."""
        asked = self._asked
        if asked is None:
            return
        try:
            asked.wait()
        except HoraError:
            self._asked = None
            self.state.lost(self._flag)
            raise
        if self._overflow.item():
            self._spoil()
        self._asked = None  # not after Ctrl-C: the operation is under way still
        self.state.settled(self._flag, True, True)

    def _spoil(self) -> None:
        """Makes a gradient inf, for whoever looks at all of them."""
        having = next((slot for slot in self.slots if slot.parameter.grad is not None), None)
        with torch.no_grad():
            if having is None:
                self.slots[0].parameter.grad = torch.full_like(self.slots[0].parameter, float("inf"))
                return
            gradient = having.parameter.grad
            assert gradient is not None
            (gradient if gradient.layout == torch.strided else gradient._values()).fill_(float("inf"))

    # --- a step ---

    def values(self) -> list[torch.Tensor]:
        """The parameters as they are."""
        self._adopt_new()
        return [slot.parameter.detach().clone() for slot in self.slots]

    def end_step(self) -> None:
        """Passes of a closure, which ranks may have called unequally often, do not count in the next step."""
        self.state.forget()

    def restore(self, values: list[torch.Tensor]) -> None:
        """Undoes a step."""
        with torch.no_grad():
            for slot, value in zip(self.slots, values, strict=True):
                slot.parameter.copy_(value)

    def combine(self, before: list[torch.Tensor]) -> None:
        """Makes the change of every parameter since `before` the combined one of all ranks. The parameters
        are what they were before if the ranks disagree."""
        with torch.no_grad():
            for slot, value in zip(self.slots, before, strict=True):
                assert slot.place is not None
                torch.sub(slot.parameter, value, out=slot.place)
            self.restore(before)
            for_all(self.slots, self._start)
            for_all(self.slots, self._add)

    def _start(self, slot: Slot) -> None:
        assert slot.place is not None
        slot.pending = DenseTransfer(
            slot.place, f"delta.{self.label.removeprefix('gradient.')}.{slot.name}", self.reduction
        )
        submit([slot.pending])

    @staticmethod
    def _add(slot: Slot) -> None:
        pending, slot.pending = slot.pending, None
        delta = pending.finish() if pending is not None else None
        if delta is not None:
            slot.parameter.add_(delta)
