# SPDX-License-Identifier: Apache-2.0
"""Passes of backward(), and the rounds of communication that they end with."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

from hora import _job, _native
from hora._errors import HoraArgumentError, HoraBackwardError
from hora.process_sets import ProcessSet
from hora.torch._optimizer.failed_passes import described, ended_pass, watch_passes
from hora.torch._optimizer.finite import all_finite
from hora.torch._untraced import untraced

_MOMENT = 1e-4  # seconds between two looks at several rounds that cannot be waited for one after the other

_Item = TypeVar("_Item")


class Rounds:
    """Rounds of communication: all ranks make equally many, whichever parameters each of them uses.

    This class by itself only counts them. That is enough on a rank that has nobody to reduce with.

    A pass of backward() that is to communicate is one round; all ranks have come to its end when backward()
    returns. `synchronize` makes the round that is owed after passes that only accumulate, or if this rank's
    backward() touched no parameter at all. `state` says when; it is native, and each call of it is one step
    for other threads: the interpreter lock guards it.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        passes: int,
        process_set: ProcessSet,
        sparse_as_dense: bool = False,
    ) -> None:
        _job.let_go_of_ended()  # of an optimizer that is gone
        self.optimizer = weakref.ref(optimizer)
        self.label = _job.object_name("gradient", process_set.process_set_id)
        self.state = _native.ReducerState(self.label, passes, sparse_as_dense)
        self.units = self.state.units
        watch_passes(self)
        _job.tell_of_generations(self)

    def begin_generation(self) -> None:
        """The job goes on with other ranks. Gradients are None: some are this rank's, others reduced."""
        self.clear_gradients()
        self.state.begin_generation()

    def carry_out(self, action: _native.Action, making: _native.Round) -> None:
        """Takes one step of a round; the same one again after Ctrl-C. There is nothing to do here."""

    def check(self) -> None:
        """Raises HoraArgumentError if this optimizer cannot make a round."""

    def has_own(self) -> bool:
        """Whether this rank has something that the others do not know of yet."""
        return False

    def clear_gradients(self) -> None:
        """The gradients of a round that failed are None: some are those of this rank, others are reduced."""
        optimizer = self.optimizer()
        for options in optimizer.param_groups if optimizer is not None else ():
            for parameter in options["params"]:
                parameter.grad = None

    # --- during backward() ---

    def begin_pass(self, task: int) -> None:
        """A hook has run in autograd's pass of this number."""
        if self.state.begin(task, _job.runtime().can_overlap):
            _Pass.of(task).entered.append(self)

    @staticmethod
    def make_up(several: list[Rounds]) -> None:
        """Makes the rounds of passes that have failed. This rank knows that they have."""
        for each in several:
            each.state.abandon()
        make_rounds(several, has_failed=True)

    # --- between passes ---

    def synchronize(self) -> None:
        """Makes the round that is owed, if there is one. Raises HoraBackwardError if a rank had no gradients
        for the last one."""
        if self.state.spoiled:
            raise HoraBackwardError(self.state.spoiled)
        if self.state.owes_round() or self.has_own():
            make_rounds([self])

    def end_step(self) -> None:
        """Gradients from now on belong to the next step."""
        self.state.end_step()

    def finish(self) -> None:
        """Ends a pass that has failed or was interrupted: the other ranks wait for the rest of it."""
        if self.state.abandon():
            self.make_up([self])

    def forget(self) -> None:
        """Nothing of what was reduced counts any more: gradients are about to be cleared."""
        self.finish()
        self.state.forget()
        self.end_step()

    def gradients_finite(self) -> bool:
        """Whether no gradient has an element that is infinite or not a number."""
        optimizer = self.optimizer()
        return optimizer is None or all_finite(
            parameter.grad for options in optimizer.param_groups for parameter in options["params"]
        )

    def reduce_loss(self, loss: Any) -> Any:
        """The value of a closure, reduced over all ranks that have the same parameters."""
        return loss


class _Pass:
    """One pass of backward(), and the optimizers whose parameters it reaches. Autograd keeps it until the
    pass ends."""

    def __init__(self) -> None:
        self.entered: list[Rounds] = []

    @staticmethod
    def of(task: int) -> _Pass:
        with _passes_lock:
            known = _passes.get(task)
            if known is None:
                known = _passes[task] = _Pass()
                torch.autograd.Variable._execution_engine.queue_callback(functools.partial(known.leave, task))
            return known

    @untraced
    def leave(self, task: int) -> None:
        _passes.pop(task, None)
        with ended_pass():
            make_rounds([each for each in self.entered if each.state.leave(task)])


_passes_lock = threading.Lock()
_passes: weakref.WeakValueDictionary[int, _Pass] = weakref.WeakValueDictionary()


def make_rounds(several: list[Rounds], has_failed: bool = False) -> None:
    """Makes a round of each, at the same time. Raises the first error, once all have ended; on a rank that
    `has_failed`, and knows that it has no gradients, none that says so."""
    if len(several) > 1:
        _make_rounds(several, has_failed)
        return
    with _native.BlockingScope():  # what is submitted is waited for next
        _make_rounds(several, has_failed)


def _make_rounds(several: list[Rounds], has_failed: bool) -> None:
    first: Exception | None = None
    able = []
    for each in several:
        try:
            each.check()
            able.append(each)
        except HoraArgumentError as error:
            first = first or error
    making = _native.Round([each.state for each in able])
    while (action := making.next()) is not None:
        try:
            if action.kind == _native.Action.Kind.pause:
                time.sleep(_MOMENT)
            elif action.kind == _native.Action.Kind.spoil:
                able[action.reducer].clear_gradients()
            else:
                able[action.reducer].carry_out(action, making)
        except Exception as error:  # noqa: BLE001 - the other ranks wait for the other steps; the first is raised at the end
            elsewhere = isinstance(error, HoraBackwardError)
            making.failed(str(error) if elsewhere else described(error), elsewhere)
            if not (has_failed and elsewhere):
                first = first or error
    if first is not None:
        raise first


def for_all(items: Iterable[_Item], step: Callable[[_Item], None]) -> None:
    """Takes the step for all items, also after one has failed. Raises the first error."""
    first: Exception | None = None
    for item in items:
        try:
            step(item)
        except Exception as error:  # noqa: BLE001 - the others are taken all the same
            first = first or error
    if first is not None:
        raise first
