# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training, which change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hora import _job, _membership, _native
from hora._errors import HoraBackwardError, HoraRanksChangedError, HoraUsageError
from hora._objects import broadcast_object
from hora.torch._ops.devices import await_sound
from hora.torch.elastic.audit import who
from hora.torch.elastic.batches import Batches
from hora.torch.elastic.handover import Handover, Overlap
from hora.torch.elastic.progress import Progress
from hora.torch.elastic.step import Maker
from hora.torch.elastic.trained import Trained

_Result = TypeVar("_Result")

_REFUSAL = "this process cannot join the job, which trains something else"

_Outcome = _native.TransferOutcome

#: The errors of something that the ranks do again, after a change.
TOLD = (HoraRanksChangedError, HoraBackwardError)


class Members:
    """The ranks of a training. When they change, those that have joined get the state from those that have
    it, and all share the samples anew.

    A process that hrun has started while the job runs is alone at first, as rank 0 of 1. It prepares itself,
    and then joins the others at the same place of the program: before a step.
    """

    def __init__(self, batches: Batches, trained: Trained, maker: Maker, progress: Progress) -> None:
        self._batches = batches
        self._trained = trained
        self._maker = maker
        self._progress = progress
        self._needs_state = _job.is_alone()  # whether the others, which train, give the state to this process
        self._handover: Handover | None = None  # of the state, until all ranks have it
        self._root = 0  # the first rank that has it
        self._who = who()  # as of the last change that this training knows

    def begin(self) -> None:
        """Gives the state of rank 0 to all.

        Raises:
            HoraInternalError: the models, optimizers, data or arguments of the ranks differ.
        """
        _job.runtime().set_takes_in(False)
        self.retry(self._batches.require_alike, self._trained.description_of_optimizers())
        self.give_to_all()

    def give_to_all(self) -> None:
        """Gives the state of rank 0 to all. All ranks call it."""
        self.retry(lambda: self._hand_over(0, _job.rank() != 0, Overlap.NONE))

    def await_state(self) -> None:
        """Returns when this process has the state, if others give it, unless parts of it come in the next
        steps. Raises HoraError."""
        if self._handover is not None:
            self._handover.await_state()

    def confirm(self) -> None:
        """Before the ranks vote for a step: see `Handover.confirm`. Raises HoraError."""
        if self._handover is not None:
            self._handover.confirm()
            if self._handover.outcome == _Outcome.IS_COMPLETE:
                self._needs_state = False  # also if the step does not count

    def join(self) -> None:
        """Joins the others, if this process is alone. Returns as `await_state`."""
        if not _job.is_alone():
            return None
        _job.runtime().set_takes_in(True)
        self.change(_membership.next_generation)
        while True:
            try:
                return self.await_state()
            except TOLD:
                self.change(_membership.next_generation)

    def begin_step(self) -> None:
        """Before a step: takes in those that wait to join, lets those go that are to leave, and gives a part
        of the state to those that have joined. These get all of it before others come or go."""
        runtime = _job.runtime()
        self._follow()  # another training may have changed the ranks
        if self._needs_state and self._handover is None:
            raise HoraUsageError(
                "this process has joined the job while another Training trained, and has no state of this "
                "one: make a Training when the one before it has ended"
            )
        if runtime.change_is_due and self._handover is not None:
            self.end_steps()
        runtime.set_takes_in(True)
        if runtime.change_is_due:
            self.change(_membership.next_generation)
        elif self._handover is not None:
            try:
                self._go_on_giving(self._handover, rest=False)
            except TOLD:
                self.change(_membership.next_generation)

    def _go_on_giving(self, handover: Handover, rest: bool) -> None:
        """Gives the next part of the state, or the rest, if there is one: in the step that begins."""
        if handover.outcome not in (_Outcome.MORE_FOLLOWS, _Outcome.DIFFERS):
            return
        if handover.outcome == _Outcome.MORE_FOLLOWS and handover.give_more(rest):
            self._share_among_sources(handover)
        else:
            self._begin_handover(in_parts=False)
        self._batches.read_ahead(self._progress.epoch, self._progress.place)

    def end_steps(self) -> None:
        """No step follows here: processes that join wait until one does, and those that have joined get the
        rest of the state. Raises HoraError."""
        _job.runtime().set_takes_in(False)
        while self._handover is not None:
            self.retry(lambda: None)

    def end_step(self, make: Callable[[], None], take_back: Callable[[], None], is_void: bool) -> bool:
        """Votes for a step, unless it is void. Makes it if it counts, and else takes it back. Returns whether
        it counts."""
        runtime = _job.runtime()

        def end() -> bool:
            if is_void:
                _membership.next_generation()
            counts = not is_void and _membership.commit(make, not self._needs_state)
            if counts:
                self._step_counts()
            else:
                take_back()  # before others get the state
            return counts

        if not is_void:
            runtime.set_takes_in(False)  # from here on to the next step, unless this one is taken back
        return self.change(end)

    def change(self, function: Callable[[], _Result]) -> _Result:
        """Calls a function after which the ranks may be others."""
        result = function()
        self._follow()
        return result

    def _follow(self) -> None:
        while who() != self._who:
            self._who = who()
            self._handover = None
            self._batches.share_steps_among(None)
            self._maker.begin_generation()
            if _job.runtime().state_root < 0 or self._share_state():
                self._batches.read_ahead(self._progress.epoch, self._progress.place)

    def retry(self, function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
        """Calls a function until a call has ended on all ranks without a change. Returns the result."""
        while True:
            try:
                while self._handover is not None and self._handover.outcome != _Outcome.IS_COMPLETE:
                    self.confirm()
                    self._go_on_giving(self._handover, rest=True)
                result = function(*args, **kwargs)
                await_sound(self._trained.model.parameters())
            except TOLD:
                if not _job.runtime().is_elastic:
                    raise
                self.change(_membership.next_generation)
            else:
                if self.change(self._commit):
                    return result

    def _commit(self) -> bool:
        counts = _membership.commit(has_state=not self._needs_state)
        if counts and self._handover is not None:
            self._step_counts()
            self._batches.read_ahead(self._progress.epoch, self._progress.place)
        return counts

    def _share_state(self) -> bool:
        """Begins to give the state to the ranks that have just joined. They have it when all ranks have voted
        for the next step, or a later one if it is large. Returns whether it has begun, or this process is
        left out of the next generation."""
        own = self._batches.description() + self._trained.description()
        try:
            self._root = root = _job.state_root()
            _job.runtime().require_like("elastic.training.joins", _REFUSAL, own, root, self._needs_state)
            self._begin_handover(in_parts=True)
            if self._maker.can_wait_for_state:
                return True
            self.confirm()
            return self._commit()
        except TOLD:
            _membership.next_generation()
            return False

    def _begin_handover(self, in_parts: bool) -> None:
        layout = broadcast_object(self._trained.layout(), self._root, "elastic.training.layout")
        self._trained.adopt(layout)  # also here a step may have made buffers that do not count
        how = Overlap.IN_PARTS if in_parts else Overlap.AT_ONCE
        if not self._maker.can_wait_for_state:
            how = Overlap.NONE
        self._handover = self._hand_over(self._root, self._needs_state, how)
        self._share_among_sources(self._handover)

    def _hand_over(self, root: int, needs: bool, overlap: Overlap) -> Handover:
        handover = Handover(self._trained, self._progress, root, needs, overlap)
        self._progress.become(handover.progress)
        return handover

    def _share_among_sources(self, handover: Handover) -> None:
        """Ranks that have not the whole state get no samples."""
        self._batches.share_steps_among(handover.sources, only_next=handover.has_last_part)

    def _step_counts(self) -> None:
        """A step counts, for which all ranks have voted."""
        if self._handover is None or self._handover.outcome == _Outcome.IS_COMPLETE:
            self._needs_state = False
            self._handover = None
            self._batches.share_steps_among(None)
