# SPDX-License-Identifier: Apache-2.0
"""Passes of backward(), and the rounds of communication that they end with."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from hora import _job, _native
from hora._errors import HoraBackwardError
from hora.process_sets import ProcessSet
from hora.torch._optimizer.failed_passes import described, ended_pass, watch_passes
from hora.torch._optimizer.finite import all_finite
from hora.torch._untraced import untraced

_MOST_NUMBERS = 8  # names of an optimizer's rounds, which then repeat
_MOMENT = 1e-4  # seconds between two looks at several rounds that cannot be waited for one after the other


class Rounds(ABC):
    """Rounds of communication: all ranks make equally many, whichever parameters each of them uses.

    A pass of backward() that is to communicate is one round; all ranks have come to its end when backward()
    returns. `synchronize` makes the round that is owed after passes that only accumulate, or if this rank's
    backward() touched no parameter at all.

    Rounds since the last `step` or `zero_grad` are numbered in the tensors' names. Ranks that get out of step
    with each other wait, and are named by the stall warning, instead of adding up gradients of different
    passes.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, passes: int, process_set: ProcessSet) -> None:
        _job.let_go_of_ended()  # of an optimizer that is gone
        self.optimizer = weakref.ref(optimizer)
        self.label = _job.object_name("gradient", process_set.process_set_id)
        self.passes_per_round = passes
        self.accumulating = False  # under no_sync
        self.passes = 0  # since the last round
        self.rounds = 0  # since the last step or zero_grad
        self.task = -1  # autograd's number of the pass under way
        self.reducing = False  # that pass ends with a round
        self.owed = False  # a pass has only accumulated, on every rank
        self.lock = (
            threading.Lock()
        )  # hooks take it: autograd has a thread for each device, and may run several at a time
        self.open = False  # a round has begun and not ended
        self.failed_with = ""  # why this rank has no gradients for the next round
        self.due = False  # that round belongs to the pass that failed, not to a later one
        self.spoiled = ""  # why the last round has failed on all ranks
        watch_passes(self)

    def set_passes_per_round(self, passes: int) -> None:
        """The count of passes begins anew; what they have accumulated is still owed."""
        self.passes_per_round = passes
        self.passes = 0

    # --- a round: opened, filled when `is_answered`, closed; each again after Ctrl-C ---

    @abstractmethod
    def open_round(self) -> None:
        """Submits what can be submitted without a word from the other ranks."""

    @abstractmethod
    def is_answered(self) -> bool:
        """Whether `fill_round` would not wait."""

    @abstractmethod
    def fill_round(self) -> None:
        """Submits the rest."""

    @abstractmethod
    def close_round(self) -> None:
        """Waits for all that was submitted. Raises the first error, once all have ended."""

    def has_own(self) -> bool:
        """Whether this rank has something that the others do not know of yet."""
        return False

    # --- during backward() ---

    def enter_pass(self) -> bool:
        """A hook has run, and has the lock. True: the first one of this pass."""
        task: int = torch._C._current_graph_task_id()
        if task == self.task:
            return False
        self.spoiled = ""
        self.task = task
        self.reducing = not self.accumulating and self.passes + 1 >= self.passes_per_round
        _Pass.of(task).entered.append(self)
        return True

    def leave_pass(self, task: int) -> bool:
        """backward() has come to its end. True: with a round."""
        if task != self.task:
            return False
        self.task = -1
        self.passes += 1
        self.owed = self.owed or not self.reducing
        return self.reducing

    def fail_pass(self, why: str) -> None:
        """backward() has failed on this rank; the other ranks do not know yet."""
        with self.lock:
            self.task = -1
            self.passes += 1
            self.failed_with = self.failed_with or why
            self.due = not self.accumulating and self.passes >= self.passes_per_round

    @staticmethod
    def make_up(several: list[Rounds]) -> None:
        """Makes the rounds of passes that have failed. This rank knows that they have."""
        for each in several:
            each.task = -1
        with contextlib.suppress(HoraBackwardError):
            make_rounds(several)

    # --- between passes ---

    def synchronize(self) -> None:
        """Makes the round that is owed, if there is one. Raises HoraBackwardError if a rank had no gradients
        for the last one."""
        if self.spoiled:
            raise HoraBackwardError(self.spoiled)
        if self.failed_with or self.open or self.rounds == 0 or self.owed or self.has_own():
            make_rounds([self])

    def end_round(self) -> None:
        """Gradients from now on belong to the next round."""
        self.passes = 0
        self.owed = False
        self.open = False
        self.failed_with = ""
        self.due = False
        self.rounds += 1

    def begin_round(self) -> None:
        """Opens it. If this rank cannot bring something, it says so, as the other ranks wait."""
        try:
            self.open_round()
        except Exception as error:
            if self.open:
                self.failed_with = self.failed_with or f"gradients could not be reduced: {described(error)}"
                self.open_round()
            raise

    def spoil(self, why: str) -> None:
        """The round that has ended had no gradients of some rank. Clears all: some are those of this rank,
        others are reduced, and not the same ones on all ranks."""
        self.spoiled = why
        optimizer = self.optimizer()
        for options in optimizer.param_groups if optimizer is not None else ():
            for parameter in options["params"]:
                parameter.grad = None

    def end_step(self) -> None:
        """Gradients from now on belong to the next step."""
        self.rounds = 0

    def finish(self) -> None:
        """Ends a pass that has failed or was interrupted: the other ranks wait for the rest of it. This rank
        knows that it failed."""
        if self.task != -1 and self.reducing:
            self.failed_with = self.failed_with or "backward() failed"
        if self.failed_with or self.open:
            self.make_up([self])

    def forget(self) -> None:
        """Nothing of what was reduced counts any more: gradients are about to be cleared."""
        self.finish()
        self.task = -1
        self.passes = 0
        self.owed = False
        self.spoiled = ""
        self.end_step()

    def numbered(self, name: str, rounds: int) -> str:
        """The name of a tensor in this round of the step."""
        suffix = f" (pass {rounds % _MOST_NUMBERS + 1})" if rounds else ""
        return f"{self.label}.{name}{suffix}"

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
            make_rounds([each for each in self.entered if each.leave_pass(task)])


_passes_lock = threading.Lock()
_passes: weakref.WeakValueDictionary[int, _Pass] = weakref.WeakValueDictionary()


class _Attempts:
    """Steps of several rounds, of which one may fail without the others' being left undone."""

    def __init__(self) -> None:
        self.first: Exception | None = None
        self.spoiled: dict[Rounds, str] = {}

    def __call__(self, step: Callable[[], None], of: Rounds | None = None) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the other ranks wait for the other rounds; the first is raised at the end
            self.first = self.first or error
            if of is not None and isinstance(error, HoraBackwardError):
                self.spoiled.setdefault(of, str(error))


def make_rounds(several: list[Rounds]) -> None:
    """Makes a round of each, at the same time. Other ranks may reach only some of them in their pass, and
    come to the rest later, so none is waited for while another could go on. Raises the first error, once all
    have ended."""
    if len(several) > 1:
        _make_rounds(several)
        return
    with _native.BlockingScope():  # what is submitted is waited for next
        _make_rounds(several)


def _make_rounds(several: list[Rounds]) -> None:
    attempt = _Attempts()
    ordered = sorted(several, key=lambda each: each.label)
    for each in ordered:
        attempt(each.begin_round)
    opened = [each for each in ordered if each.open]
    waiting = list(opened)
    while waiting:
        answered = (
            waiting[0] if len(waiting) == 1 else next((each for each in waiting if each.is_answered()), None)
        )
        if answered is None:
            time.sleep(_MOMENT)
            continue
        waiting.remove(answered)
        attempt(answered.fill_round, answered)
    for each in opened:
        attempt(each.close_round, each)
    for each, why in attempt.spoiled.items():
        each.spoil(why)
    if attempt.first is not None:
        raise attempt.first


def wait_for_all(steps: list[Callable[[], None]]) -> None:
    """Takes all steps, also after one has failed. Raises the first error."""
    attempt = _Attempts()
    for step in steps:
        attempt(step)
    if attempt.first is not None:
        raise attempt.first
