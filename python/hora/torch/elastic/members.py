# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training, which change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hora import _job, _membership
from hora._errors import HoraBackwardError, HoraRanksChangedError, HoraUsageError
from hora._objects import broadcast_object
from hora.torch._ops.devices import await_sound
from hora.torch.elastic.audit import who
from hora.torch.elastic.batches import Batches
from hora.torch.elastic.progress import Progress
from hora.torch.elastic.step import Maker
from hora.torch.elastic.trained import Trained

_Result = TypeVar("_Result")

_REFUSAL = "this process cannot join the job, which trains something else"

#: The errors of something that the ranks do again, after a change.
TOLD = (HoraRanksChangedError, HoraBackwardError)


class Members:
    """The ranks of a training. When they change, those that have joined get the state from one that has it,
    and all share the samples anew.

    A process that hrun has started while the job runs is alone at first, as rank 0 of 1. It prepares itself,
    and then joins the others at the same place of the program: before a step.
    """

    def __init__(self, batches: Batches, trained: Trained, maker: Maker, progress: Progress) -> None:
        self._batches = batches
        self._trained = trained
        self._maker = maker
        self._progress = progress
        self._joins = _job.is_alone()  # whether the others, which train, give the state to this process
        self._who = who()  # as of the last change that this training knows

    def begin(self) -> None:
        """Gives the state of rank 0 to all.

        Raises:
            HoraInternalError: the models, optimizers, data or arguments of the ranks differ.
        """
        _job.runtime().set_takes_in(False)
        self.retry(self._batches.require_alike)
        self.give_to_all()

    def give_to_all(self) -> None:
        """Gives the state of rank 0 to all. All ranks call it."""
        self.retry(self._give_to_all)

    def join(self) -> None:
        """Joins the others, if this process is alone."""
        if _job.is_alone():
            _job.runtime().set_takes_in(True)
            self.change(_membership.next_generation)

    def begin_step(self) -> None:
        """Before a step: takes in those that wait to join, and lets those go that are to leave."""
        runtime = _job.runtime()
        self._follow()  # another training may have changed the ranks
        if self._joins:
            raise HoraUsageError(
                "this process has joined the job while another Training trained, and has no state of this "
                "one: make a Training when the one before it has ended"
            )
        runtime.set_takes_in(True)
        if runtime.change_is_due:
            self.change(_membership.next_generation)

    def end_steps(self) -> None:
        """No step follows here: processes that join wait until one does."""
        _job.runtime().set_takes_in(False)

    def end_step(self, make: Callable[[], None], take_back: Callable[[], None], is_void: bool) -> bool:
        """Votes for a step, unless it is void. Makes it if it counts, and else takes it back. Returns whether
        it counts."""
        runtime = _job.runtime()

        def end() -> bool:
            if is_void:
                _membership.next_generation()
            counts = not is_void and _membership.commit(make)
            if not counts:
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
            self._maker.begin_generation()
            if _job.runtime().state_root < 0 or self._share_state():
                self._batches.read_ahead(self._progress.epoch, self._progress.place)

    def retry(self, function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
        """Calls a function until a call has ended on all ranks without a change. Returns the result."""
        while True:
            try:
                result = function(*args, **kwargs)
                await_sound(self._trained.model.parameters())
            except TOLD:
                if not _job.runtime().is_elastic:
                    raise
                self.change(_membership.next_generation)
            else:
                if self.change(_membership.commit):
                    return result

    def _share_state(self) -> bool:
        """Gives the state to the ranks that have just joined. They have it when all ranks have voted. Returns
        whether they have, or are left out of the next generation."""
        own = self._batches.description() + self._trained.description()
        try:
            root = _job.state_root()
            _job.runtime().require_like("elastic.training.joins", _REFUSAL, own, root, self._joins)
            layout = broadcast_object(self._trained.layout(), root, "elastic.training.layout")
            self._trained.adopt(layout)  # also here a first step may have made buffers that do not count
            self._give_to_all()
            counts = _membership.commit()
        except TOLD:
            _membership.next_generation()
            return False
        self._joins = self._joins and not counts
        return counts

    def _give_to_all(self) -> None:
        self._progress.become(self._trained.give_to_all(self._progress))
