# SPDX-License-Identifier: Apache-2.0
"""The reduction of an optimizer's gradients."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from hora import _job, _native
from hora._errors import HoraArgumentError, HoraError, HoraRanksChangedError, HoraUsageError
from hora.compression import in_transfer
from hora.torch._ops import devices
from hora.torch._ops.allreduce import allreduce
from hora.torch._ops.reduction import Reduction
from hora.torch._optimizer.finite import all_finite
from hora.torch._optimizer.kinds import KindExchange, LastingKinds
from hora.torch._optimizer.parameters import Groups, fresh_parameters, group_numbers
from hora.torch._optimizer.rounds import Rounds, for_all
from hora.torch._optimizer.slots import DENSE, UNKNOWN, Slot, check_not_taken, give_places, new_slot, take
from hora.torch._optimizer.transfers import DenseTransfer, SparseTransfer, Transfer, submit
from hora.torch._untraced import untraced


class GradientReducer(Rounds):
    """The part of a DistributedOptimizer that is the same for every class of optimizer: hooks and copies for
    its rounds. The native ReducerState says when a gradient is submitted.

    Whether a gradient is sparse the ranks tell each other at the end of the first round in which any of them
    has it; it is reduced then, and from the next round on as soon as it comes.

    Hooks run on autograd's threads, of which there is one for each device, at a time. A slot is one hook's,
    and a unit that of its last slot.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        names: dict[int, str],
        reduction: Reduction,
        passes: int,
        groups: Groups,
        sparse_as_dense: bool,
        check_finite: bool,
    ) -> None:
        super().__init__(optimizer, passes, reduction.process_set, sparse_as_dense)
        self.names = names
        self.reduction = reduction
        self.check_finite = check_finite
        self.group_numbers = group_numbers(optimizer, groups)
        self.slots: list[Slot] = []
        self._reusable = in_transfer(reduction.compression)
        self._units: dict[int, int] = {}  # of each group
        self._known: set[int] = set()
        self._exchange: KindExchange | None = None
        self._kinds = LastingKinds(self.label, self.slots, self.units, reduction.process_set)
        self._adopt_new()

    # --- parameters ---

    def _adopt_new(self) -> None:
        """Takes in the parameters that get gradients, also those that were added or unfrozen since; on all
        ranks alike."""
        for parameter, name in fresh_parameters(self.optimizer(), self.names, self._known):
            number = self.state.add_parameter(name, self._unit_of(parameter), UNKNOWN)
            slot = new_slot(number, name, parameter)
            self.slots.append(slot)
            self._adopt(slot)

    def _unit_of(self, parameter: torch.Tensor) -> int:
        group = self.group_numbers.get(id(parameter))
        if group is None:
            return self.units.add_unit()
        if group not in self._units:
            self._units[group] = self.units.add_unit()
        return self._units[group]

    def _adopt(self, slot: Slot) -> None:
        """Takes over a parameter. The hooks do nothing once this reducer is gone."""
        take(slot)
        with torch.enable_grad():
            slot.accumulate = slot.parameter.expand_as(slot.parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        this = weakref.ref(self)

        @untraced
        def before(gradients: tuple[torch.Tensor, ...]) -> None:
            reducer = this()
            if reducer is not None:
                reducer._before(slot)

        @untraced
        def after(parameter: torch.Tensor) -> None:
            reducer = this()
            if reducer is not None:
                reducer._after(slot)

        slot.hooks = [
            slot.accumulate.register_prehook(
                before
            ),  # a hook of the tensor's would run in torch.autograd.grad, too
            slot.parameter.register_post_accumulate_grad_hook(after),  # type: ignore[no-untyped-call]
        ]

    def begin_generation(self) -> None:
        """Nothing is being reduced: that has ended with the former generation."""
        self._exchange = None
        for slot in self.slots:
            slot.pending = None
            slot.end_step()
        super().begin_generation()

    # --- during backward() ---

    def _before(self, slot: Slot) -> None:
        """backward() is about to add to this gradient. It stops if it would reduce and cannot."""
        if _job.runtime().generation_has_ended and not self.state.accumulating:
            raise HoraRanksChangedError("the generation of the job has ended while backward() ran")
        task = torch._C._current_graph_task_id()
        while (todo := self.state.before(slot.number, task)) != _native.Before.nothing:
            if todo == _native.Before.begin:
                self.begin_pass(task)
            elif todo == _native.Before.settle:
                for_all(self.state.pending_with(slot.number), self._settle)
            elif self.state.touch(slot.number, slot.parameter.grad is not None, slot.is_unchanged()):
                slot.set_aside()
                slot.parameter.grad = None

    def _after(self, slot: Slot) -> None:
        gradient = slot.parameter.grad
        if gradient is not None and gradient.requires_grad:
            raise HoraUsageError(
                f"'{slot.name}': backward(create_graph=True) cannot be reduced; use torch.autograd.grad(..., "
                "create_graph=True) for the inner gradient"
            )
        task = torch._C._current_graph_task_id()
        todo = self.state.after(slot.number, task, slot.gpu is None)
        if todo == _native.After.begin:
            self.begin_pass(task)
            todo = self.state.after(slot.number, task, slot.gpu is None)
        if todo == _native.After.submit:
            self._submit(self.units.members_with(slot.number))
        elif todo == _native.After.place and gradient is not None:
            slot.check(gradient)
            slot.put_in_place(gradient, for_later=True, is_dense=True)  # so autograd has its memory again
        elif todo == _native.After.unexpected:
            raise HoraArgumentError(
                f"'{slot.name}' was converted or moved after its DistributedOptimizer was "
                "made; make that afterwards"
            )

    # --- a round ---

    def check(self) -> None:
        """Raises HoraArgumentError if another optimizer has taken one of the parameters."""
        check_not_taken(self.slots)

    def carry_out(self, action: _native.Action, making: _native.Round) -> None:
        """Takes one step of a round."""
        kind = action.kind
        if kind == _native.Action.Kind.adopt:
            self._adopt_new()
        elif kind == _native.Action.Kind.submit:
            for_all(action.units, self._submit)
        elif kind == _native.Action.Kind.ask:
            self._ask(action.parameters)
        elif kind == _native.Action.Kind.look:
            if self._exchange is not None and self._exchange.handle.poll():
                making.answered()
        elif kind == _native.Action.Kind.learn:
            self._learn()
        elif kind == _native.Action.Kind.settle:
            for_all(action.parameters, self._settle)

    def clear_gradients(self) -> None:
        """Nor is any of them to be added to."""
        super().clear_gradients()
        for slot in self.slots:
            slot.base = None

    def _ask(self, parameters: list[int]) -> None:
        """Asks the other ranks for the kinds of gradients."""
        self._exchange = KindExchange(
            [self.slots[each] for each in parameters],
            self.state.numbered("kinds"),
            self.reduction.process_set,
            self.state.failed_with,
        )
        self.units.asked(parameters)

    def _learn(self) -> None:
        exchange = self._exchange
        assert exchange is not None
        try:
            kinds, lasting = exchange.finish()
        except HoraError:
            self._exchange = None
            raise
        give_places(exchange.slots, kinds, self.units)
        self.units.learn(kinds, lasting)
        self._exchange = None  # not after Ctrl-C: the others have learned or will

    def begin_pass(self, task: int) -> None:
        """A hook has run in autograd's pass of this number."""
        self._kinds.take_places()
        super().begin_pass(task)

    def _submit(self, parameters: list[int]) -> None:
        self._kinds.take_places()
        slots = [self.slots[each] for each in parameters]
        transfers: list[Transfer] = [self._transfer(slot) for slot in slots]
        submit(transfers)
        for slot, transfer in zip(slots, transfers, strict=True):
            slot.pending = transfer
            if self.check_finite:
                slot.look_at(transfer.handles)
        self.state.submitted(parameters)

    def _transfer(self, slot: Slot) -> Transfer:
        gradient = slot.parameter.grad
        bring = self.state.bring(slot.number, gradient is not None, slot.is_unchanged())
        if bring == _native.Bring.set_aside:
            slot.set_aside()
        if gradient is not None and bring != _native.Bring.gradient:
            gradient = None
        if gradient is not None:
            slot.check(gradient)
        name = self.state.name_of(slot.number)
        kind = self.units.kind(slot.number)
        if self.units.travels_dense(kind):
            assert slot.place is not None
            if gradient is not None and gradient is not slot.place:
                slot.put_in_place(gradient, not self.state.overlaps, kind == DENSE)
            return self._dense(slot, slot.place, name, gradient is None)
        if gradient is not None and gradient.layout != torch.sparse_coo:
            gradient = gradient.to_sparse(kind)
        return SparseTransfer(gradient, slot.parameter, kind, name, self.reduction, self.state.failed_with)

    def _dense(self, slot: Slot, place: torch.Tensor, name: str, absent: bool) -> Transfer:
        """A transfer of the slot's place; the same object for the same name, since that takes a while to
        make."""
        why = self.state.failed_with
        if why or not self._reusable:
            return DenseTransfer(place, name, self.reduction, absent, self.check_finite, why)
        stream = 0 if slot.gpu is None else devices.current_stream(slot.gpu)
        key = (name, absent, self.reduction.process_set.process_set_id, stream)
        made = slot.made.get(key)
        if made is None:
            made = slot.made[key] = DenseTransfer(place, name, self.reduction, absent, self.check_finite)
        return made

    def _settle(self, parameter: int) -> None:
        slot = self.slots[parameter]
        if slot.pending is None:
            return
        try:
            reduced = slot.pending.finish()
        except HoraError:
            slot.pending = slot.base = None
            self.state.lost(parameter)
            raise
        slot.pending = None  # not after Ctrl-C: the operation is under way still
        base, slot.base = slot.base, None
        then = self.state.settled(parameter, reduced is not None, slot.parameter.grad is not None)
        if reduced is None or then == _native.Settle.leave:
            return
        if then == _native.Settle.take:
            base = None
        kind = self.units.kind(parameter)
        if kind == DENSE:
            slot.parameter.grad = reduced
            if base is not None:
                with torch.no_grad():
                    reduced.add_(base)
                slot.unseen = reduced
            return
        whole = reduced if reduced.layout == torch.sparse_coo else reduced.to_sparse(kind)
        total = (
            whole if base is None else base + whole
        )  # dense, if only the base is: one from a pass whose kind was forgotten
        slot.gathered = slot.parameter.grad = total if total.layout == torch.strided else total.coalesce()
        slot.unseen = slot.gathered

    # --- between passes ---

    def has_own(self) -> bool:
        """Whether a gradient is this rank's own."""
        self._adopt_new()
        return any(self.slots[each].parameter.grad is not None for each in self.state.unsettled())

    def reduce_loss(self, loss: Any) -> Any:
        """The value of a closure, reduced over all ranks."""
        arguments: dict[str, Any] = {
            "name": f"loss.{self.label}",
            "op": self.reduction.op,
            "process_set": self.reduction.process_set,
        }
        if isinstance(loss, torch.Tensor):
            return allreduce(loss.detach(), **arguments)
        if isinstance(loss, float):
            return allreduce(torch.tensor(loss, dtype=torch.float64), **arguments).item()
        return loss

    def gradients_finite(self) -> bool:
        """Whether all reduced gradients are finite; the same on all ranks."""
        handles = [handle for slot in self.slots for handle in slot.looked_at]
        outcomes = [handle.wait_for_end() for handle in handles]
        return all(outcome.finite for outcome in outcomes) and all_finite(slot.unseen for slot in self.slots)

    def end_step(self) -> None:
        """Gradients that nobody writes to from now on have been reduced."""
        super().end_step()
        for slot in self.slots:
            slot.end_step()
