# SPDX-License-Identifier: Apache-2.0
"""The reduction of an optimizer's gradients."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch

from hora import _job
from hora._errors import HoraArgumentError, HoraError, HoraUsageError
from hora.compression import in_transfer
from hora.torch._ops import devices
from hora.torch._ops.allreduce import allreduce
from hora.torch._ops.reduction import Reduction
from hora.torch._optimizer.finite import all_finite
from hora.torch._optimizer.kinds import KindExchange
from hora.torch._optimizer.parameters import Groups, fresh_parameters, group_numbers
from hora.torch._optimizer.rounds import Rounds, wait_for_all
from hora.torch._optimizer.slots import DENSE, UNKNOWN, Slot, Unit, check_not_taken, new_slot, places, take
from hora.torch._optimizer.transfers import DenseTransfer, SparseTransfer, Transfer, submit
from hora.torch._untraced import untraced

_LARGE = 64 * 1024  # bytes of a gradient for whose copy caches matter


def _is_laid_out_as(gradient: torch.Tensor, place: torch.Tensor) -> bool:
    """Whether the bytes of one are those of the other."""
    return gradient.layout == torch.strided and gradient.stride() == place.stride() and not gradient.is_neg()


class GradientReducer(Rounds):
    """The part of a DistributedOptimizer that is the same for every class of optimizer.

    A round reduces what every rank has gathered in its gradients since the round before, each gradient once.
    Hooks submit gradients as they come, or only bring them to their places where nothing can overlap; when
    the pass ends, before backward() returns, the rest is submitted, too, and all is waited for. So gradients
    are the reduced ones whenever the user can see them.

    A gradient that is added to after it was reduced (another pass before `step`) is set aside as the slot's
    `base`, and the reduced addition is added to it: only what is this rank's own is ever reduced.

    Whether a gradient is sparse the ranks tell each other at the end of the first round in which any of them
    has it; it is reduced then, and from the next round on as soon as it comes.

    Hooks run on autograd's threads, of which there is one for each device, at a time. The state that they
    share (how far the pass and the units are) is under the lock, which nobody keeps while waiting; a slot is
    one hook's, and a unit that of its last slot.
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
        super().__init__(optimizer, passes, reduction.process_set)
        self.names = names
        self.reduction = reduction
        self.sparse_as_dense = sparse_as_dense
        self.check_finite = check_finite
        self.group_numbers = group_numbers(optimizer, groups)
        self.slots: list[Slot] = []
        self.units: list[Unit] = []
        self._reusable = in_transfer(reduction.compression)
        self._grouped: dict[int, Unit] = {}
        self._known: set[int] = set()
        self._exchange: KindExchange | None = None
        self._learned: list[Slot] = []  # in this round, and not submitted yet
        self._passing: list[Slot] = []  # whose kind is known for this round only
        self._unclaimed = 0  # units that no hook has begun to submit in this round
        self._overlaps = True  # the round of the pass under way, with that
        self._adopt_new()

    # --- parameters ---

    def _adopt_new(self) -> None:
        """Takes in the parameters that get gradients, also those that were added or unfrozen since; on all
        ranks alike."""
        for parameter, name in fresh_parameters(self.optimizer(), self.names, self._known):
            slot = new_slot(name, parameter, self._unit_of(parameter))
            self.slots.append(slot)
            self._adopt(slot)

    def _unit_of(self, parameter: torch.Tensor) -> Unit:
        number = self.group_numbers.get(id(parameter))
        if number is not None and number in self._grouped:
            return self._grouped[number]
        unit = Unit()
        self.units.append(unit)
        if number is not None:
            self._grouped[number] = unit
        return unit

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

    # --- during backward() ---

    def enter_pass(self) -> bool:
        """Members of groups that a failed pass has left ready are not ready in this one."""
        first = super().enter_pass()
        if first:
            self._overlaps = _job.runtime().can_overlap
        if first and self._grouped:
            for unit in self.units:
                unit.ready.clear()
        return first

    def _before(self, slot: Slot) -> None:
        """backward() is about to add to this gradient."""
        with self.lock:
            self.enter_pass()
        if (
            slot.pending is not None
        ):  # twice in one pass, as under reentrant checkpointing; or the last pass was interrupted
            self._settle(slot)
            with self.lock:
                slot.unit.sent = False
                self._unclaimed += 1
        if slot.settled:
            if self._is_shared(slot):
                slot.base = self._set_aside(slot)
                slot.parameter.grad = None
            slot.settled = False

    def _after(self, slot: Slot) -> None:
        gradient = slot.parameter.grad
        if gradient is not None and gradient.requires_grad:
            raise HoraUsageError(
                f"'{slot.name}': backward(create_graph=True) cannot be reduced; use torch.autograd.grad(..., "
                "create_graph=True) for the inner gradient"
            )
        if slot.settled:
            raise HoraArgumentError(
                f"'{slot.name}' was converted or moved after its DistributedOptimizer was "
                "made; make that afterwards"
            )
        if self._waits_for_end(slot):
            if slot.kind == DENSE and gradient is not None:
                self._check(slot, gradient)
                self._put_in_place(slot, gradient)  # so autograd has its memory again
        elif self._completes_unit(slot):
            self._send(slot.unit)

    def _waits_for_end(self, slot: Slot) -> bool:
        """Whether a gradient is submitted when the pass ends, as nothing would be done before."""
        with self.lock:
            self.enter_pass()
            return self.reducing and not self._overlaps and slot.gpu is None

    def _completes_unit(self, slot: Slot) -> bool:
        """Notes that a gradient has come. Whether it is the last one of those that are to be submitted now.

        The last unit waits for the end of the pass. A pass that fails, however late, has not submitted it, so
        all ranks hear of that in this round."""
        with self.lock:
            if not self.reducing or slot.kind == UNKNOWN or self.failed_with:
                return False
            slot.unit.ready.add(slot)
            if len(slot.unit.ready) != len(slot.unit.members) or self._unclaimed <= 1:
                return False
            self._unclaimed -= 1
            return True

    # --- a round ---

    def open_round(self) -> None:
        """Submits every gradient whose kind is known, and asks for the kinds of the others."""
        self._adopt_new()
        check_not_taken(self.slots)
        self.open = True
        if self._learned:  # interrupted after that
            return
        wait_for_all(
            [functools.partial(self._send, unit) for unit in self.units if unit.members and not unit.sent]
        )
        unknown = [slot for slot in self.slots if slot.kind == UNKNOWN]
        if unknown and self._exchange is None:
            self._exchange = KindExchange(
                unknown, self.numbered("kinds", self.rounds), self.reduction.process_set, self.failed_with
            )

    def is_answered(self) -> bool:
        """Whether the kinds are known."""
        return self._exchange is None or self._exchange.handle.poll()

    def fill_round(self) -> None:
        """Submits the gradients whose kind has become known."""
        if self._exchange is not None:
            self._learn(self._exchange)
        batches: dict[int, list[Slot]] = {}
        for slot in self._learned:
            batches.setdefault(id(slot.unit if self._travels_dense(slot) else slot), []).append(slot)
        wait_for_all([functools.partial(self._submit, batch) for batch in batches.values()])

    def _learn(self, exchange: KindExchange) -> None:
        try:
            kinds, lasting = exchange.finish()
        except HoraError:
            self._exchange = None
            raise
        for slot, kind in zip(exchange.slots, kinds, strict=True):
            slot.kind = kind
        learned = [slot for slot in exchange.slots if slot.kind != UNKNOWN]
        dense = [slot for slot in learned if self._travels_dense(slot) and slot.place is None]
        for slot, place in zip(dense, places(dense), strict=True):
            slot.place = place
        if lasting:
            self._make_members(learned)
        else:
            self._passing = learned
        self._learned = learned
        self._exchange = None  # not after Ctrl-C: the others have learned or will

    def _make_members(self, learned: list[Slot]) -> None:
        """From the next round on these are submitted as they come: with their group, or alone if they are
        sparse."""
        for slot in learned:
            if not self._travels_dense(slot):
                slot.unit = Unit()
                self.units.append(slot.unit)
            slot.unit.members.append(slot)
            slot.unit.sent = True

    def _travels_dense(self, slot: Slot) -> bool:
        return slot.kind == DENSE or self.sparse_as_dense

    def _send(self, unit: Unit) -> None:
        for slot in unit.members:
            self._settle(slot)
        unit.ready.clear()
        self._submit(unit.members)
        unit.sent = True

    def _submit(self, slots: list[Slot]) -> None:
        transfers: list[Transfer] = [self._transfer(slot) for slot in slots]
        submit(transfers)
        for slot, transfer in zip(slots, transfers, strict=True):
            slot.pending = transfer
            slot.rounds += 1
            if self.check_finite:
                self._look_at(slot, transfer)
        if self._learned:
            self._learned = [slot for slot in self._learned if slot not in slots]

    @staticmethod
    def _look_at(slot: Slot, transfer: Transfer) -> None:
        """Notes who will know whether the gradient is finite: what is added to one that was reduced before
        counts with it."""
        if slot.base is None:
            slot.looked_at, slot.unseen = [], None
        slot.looked_at = slot.looked_at + transfer.handles

    def _transfer(self, slot: Slot) -> Transfer:
        if self.failed_with:
            return self._stand_in(slot)
        gradient = slot.parameter.grad
        if slot.settled and self._is_shared(slot):
            slot.base, gradient = self._set_aside(slot), None
        slot.absent = gradient is None
        name = self.numbered(slot.name, slot.rounds)
        if gradient is not None:
            self._check(slot, gradient)
        if self._travels_dense(slot):
            assert slot.place is not None
            if gradient is not None:
                self._put_in_place(slot, gradient)
            return self._dense(slot, slot.place, name)
        if gradient is not None and gradient.layout != torch.sparse_coo:
            gradient = gradient.to_sparse(slot.kind)
        return SparseTransfer(gradient, slot.parameter, slot.kind, name, self.reduction)

    def _stand_in(self, slot: Slot) -> Transfer:
        """Tells the other ranks that there is no gradient, and why."""
        slot.absent = True
        name = self.numbered(slot.name, slot.rounds)
        if not self._travels_dense(slot):
            return SparseTransfer(None, slot.parameter, slot.kind, name, self.reduction, self.failed_with)
        assert slot.place is not None
        return DenseTransfer(slot.place, name, self.reduction, True, self.check_finite, self.failed_with)

    def _put_in_place(self, slot: Slot, gradient: torch.Tensor) -> None:
        """Brings a gradient to where it is reduced. One that is sparse to the user stays what it is."""
        place = slot.place
        if gradient is place or slot.in_place():
            return
        assert place is not None
        if (
            not self._overlaps
            and slot.gpu is None
            and place.nbytes >= _LARGE
            and _is_laid_out_as(gradient, place)
        ):
            _job.runtime().copy_for_later(place.data_ptr(), gradient.data_ptr(), place.nbytes)
        else:
            whole = gradient.detach() if gradient.requires_grad else gradient
            place.copy_(whole if whole.layout == torch.strided else whole.to_dense())
        if slot.kind == DENSE:
            slot.parameter.grad = place

    def _dense(self, slot: Slot, place: torch.Tensor, name: str) -> Transfer:
        """A transfer of the slot's place; the same object for the same name, since that takes a while to
        make."""
        if not self._reusable:
            return DenseTransfer(place, name, self.reduction, slot.absent, self.check_finite)
        stream = 0 if slot.gpu is None else devices.current_stream(slot.gpu)
        key = (name, slot.absent, self.reduction.process_set.process_set_id, stream)
        made = slot.made.get(key)
        if made is None:
            made = slot.made[key] = DenseTransfer(place, name, self.reduction, slot.absent, self.check_finite)
        return made

    @staticmethod
    def _check(slot: Slot, gradient: torch.Tensor) -> None:
        if (
            gradient.device != slot.device
            or gradient.dtype != slot.like.dtype
            or gradient.shape != slot.like.shape
        ):
            raise HoraArgumentError(
                f"'{slot.name}': the gradient is {gradient.dtype} {list(gradient.shape)} on "
                f"{gradient.device}, the parameter was {slot.like.dtype} "
                f"{list(slot.like.shape)} on {slot.device} when its DistributedOptimizer was made; make that "
                "after converting the model"
            )

    def _is_shared(self, slot: Slot) -> bool:
        """Whether a settled gradient still is what it was: nobody has written to it after the step."""
        gradient = slot.parameter.grad
        return (
            self.rounds > 0
            or gradient is None
            or (slot.holds_reduced() and gradient._version == slot.version)
        )

    @staticmethod
    def _set_aside(slot: Slot) -> torch.Tensor | None:
        """The gradient, where a reduction does not overwrite it."""
        gradient = slot.parameter.grad
        return gradient.clone() if gradient is not None and slot.in_place() else gradient

    def _settle(self, slot: Slot) -> None:
        if slot.pending is None:
            return
        try:
            reduced = slot.pending.finish()
        except HoraError:
            slot.pending = slot.base = None
            raise
        slot.pending = None  # not after Ctrl-C: the operation is under way still
        slot.settled = True
        base, slot.base = slot.base, None
        cleared = (
            not slot.absent and slot.parameter.grad is None
        )  # by the user, after backward() was interrupted
        if reduced is None or cleared:
            return
        if slot.kind == DENSE:
            slot.parameter.grad = reduced
            if base is not None:
                with torch.no_grad():
                    reduced.add_(base)
                slot.unseen = reduced
            return
        whole = reduced if reduced.layout == torch.sparse_coo else reduced.to_sparse(slot.kind)
        total = (
            whole if base is None else base + whole
        )  # dense, if only the base is: one from a pass whose kind was forgotten
        slot.gathered = slot.parameter.grad = total if total.layout == torch.strided else total.coalesce()
        slot.unseen = slot.gathered

    def close_round(self) -> None:
        """Waits for everything."""
        try:
            wait_for_all(
                [functools.partial(self._settle, slot) for slot in self.slots if slot.pending is not None]
            )
        finally:
            if not any(slot.pending is not None for slot in self.slots):
                self._close()

    def _close(self) -> None:
        for slot in self._passing:
            slot.kind = UNKNOWN
        self._passing = []
        self._learned = []
        for unit in self.units:
            unit.sent = False
        self._unclaimed = sum(bool(unit.members) for unit in self.units)
        self.end_round()

    def spoil(self, why: str) -> None:
        """Nor is any gradient a reduced one."""
        super().spoil(why)
        for slot in self.slots:
            slot.base = None
            slot.settled = False

    # --- between passes ---

    def has_own(self) -> bool:
        """Whether a gradient is this rank's own."""
        self._adopt_new()
        return any(
            slot.pending is not None or (not slot.settled and slot.parameter.grad is not None)
            for slot in self.slots
        )

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
            slot.rounds = 0
            slot.looked_at, slot.unseen = [], None
            gradient = slot.parameter.grad
            slot.version = 0 if gradient is None else gradient._version

    def finish(self) -> None:
        """Ends a pass that has failed or was interrupted; the other ranks wait for the rest of it."""
        self.open = self.open or any(slot.pending is not None for slot in self.slots)
        super().finish()

    def forget(self) -> None:
        """No gradient is a reduced one any more."""
        super().forget()
        for slot in self.slots:
            slot.settled = False
