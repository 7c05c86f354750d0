# SPDX-License-Identifier: Apache-2.0
"""A training step under way: how far it has come, how it is made, and how it is taken back."""

from __future__ import annotations

import abc
import contextlib
import copy
import dataclasses
from typing import Any

import torch

from hora import _job, ops
from hora._errors import HoraUsageError
from hora.process_sets import global_process_set
from hora.torch._ops.allreduce import allreduce_async_
from hora.torch._ops.devices import await_sound
from hora.torch.elastic.audit import Who
from hora.torch.elastic.buffers import Buffers
from hora.torch.elastic.shares import Piece

_EPOCH = 40  # bits of the place in an epoch


@dataclasses.dataclass
class Step:
    """A step under way."""

    whole: Piece
    share: list[Piece]  # of this rank
    pieces: list[Piece]  # that the user is given: the share, or another rank's piece if the share is empty
    made_by: Who
    taken: int = 0  # how many pieces the user was given
    passed: int = 0  # for how many the user has called backward()
    done: int = 0  # for how many the user has called step()
    is_void: bool = False  # it is to be made again
    has_ended: bool = False

    @property
    def has_last(self) -> bool:
        """Whether the user has the last piece."""
        return self.taken == len(self.pieces)


class Maker(abc.ABC):
    """The part of a step that changes model and optimizers, so that it can be taken back."""

    #: Whether a rank can take part in a step while it gets the state.
    can_wait_for_state: bool

    @abc.abstractmethod
    def begin(self) -> None:
        """Begins a step."""

    @abc.abstractmethod
    def complete(self) -> None:
        """Waits for what has to be there before the ranks vote. Raises HoraError."""

    @abc.abstractmethod
    def make(self) -> None:
        """Makes the step, which counts."""

    @abc.abstractmethod
    def take_back(self) -> None:
        """Undoes what the step has changed, which does not count."""

    @abc.abstractmethod
    def begin_generation(self) -> None:
        """The job goes on with other ranks."""


class DeferredMaker(Maker):
    """Keeps the optimizer's step until the ranks have voted. Nothing needs to be copied but buffers.

    With the gradients the ranks compare for which step they are, and tell whether other buffers have changed
    than those that they send: one allreduce of three numbers.
    """

    can_wait_for_state = True

    def __init__(
        self, model: torch.nn.Module, optimizer: Any, scheduler: Any, scaler: Any, clip_norm: float | None
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._scaler = scaler
        self._clip_norm = clip_norm
        self._buffers = Buffers(model)
        self._compared: int | None = None  # the handle of the allreduce

    def begin(self) -> None:
        self._buffers.begin_step()

    def backward(self, step: Step, loss: torch.Tensor) -> None:
        """Adds the gradients of the user's microbatch, unless it is another rank's. Reduces them if it is the
        last one. Raises HoraError."""
        piece = step.pieces[step.taken - 1]
        part = piece.size / step.whole.size
        whole = loss * (part * (_job.size() if self._optimizer.op == ops.Average else 1))
        if self._scaler is not None:
            whole = self._scaler.scale(whole)
        if step.share:
            self._buffers.add(part, is_first=piece.first == step.whole.first)
        if step.has_last:
            self._start(step.whole)
        if step.share:
            with contextlib.nullcontext() if step.has_last else self._optimizer.no_sync():
                torch.autograd.backward(whole)
        self._buffers.restore()

    def _start(self, whole: Piece) -> None:
        number = whole.epoch << _EPOCH | whole.last
        compared = torch.tensor([number, -number, self._buffers.others()])
        self._compared = allreduce_async_(compared, name="elastic.step", op=ops.Max)
        self._buffers.start()

    def complete(self) -> None:
        self._optimizer.synchronize()
        assert self._compared is not None
        compared, self._compared = self._compared, None
        last, first, others = _job.synchronize(compared).tolist()
        if last != -first:
            steps = " and ".join(
                f"up to sample {each & ((1 << _EPOCH) - 1)} of epoch {each >> _EPOCH}"
                for each in (-first, last)
            )
            raise HoraUsageError(
                f"the ranks make different steps: {steps}. All ranks leave training.batches() after the same "
                "step: where training.step() is True"
            )
        self._buffers.finish(others > 0)
        await_sound(self._model.parameters())

    def make(self) -> None:
        self._buffers.make()
        optimizer = self._optimizer
        if self._clip_norm is not None:
            if self._scaler is not None:
                self._scaler.unscale_(optimizer)
            listed = [each for options in optimizer.param_groups for each in options["params"]]
            torch.nn.utils.clip_grad_norm_(listed, self._clip_norm)
        if self._scaler is None:
            optimizer.step()
        else:
            self._scaler.step(optimizer)
            self._scaler.update()
        optimizer.zero_grad()
        if self._scheduler is not None:
            self._scheduler.step()

    def take_back(self) -> None:
        self._optimizer.zero_grad()
        self._buffers.restore()

    def begin_generation(self) -> None:
        self._compared = None
        self._buffers.begin_generation()


def why_copies(optimizers: list[Any]) -> str:
    """Why steps with these optimizers cannot be kept until the ranks have voted; empty if they can."""
    if len(optimizers) != 1:
        return "it has several optimizers"
    optimizer = optimizers[0]
    if isinstance(optimizer, torch.optim.LBFGS):
        return "LBFGS changes the model several times in a step"
    if getattr(optimizer, "op", None) == ops.Adasum:
        return "Adasum combines what the step of each rank has changed"
    if getattr(optimizer, "process_set", global_process_set) is not global_process_set:
        return "its gradients are reduced over a process set"
    return ""


class CopyingMaker(Maker):
    """Copies model, optimizers, scheduler and scaler in memory, before a step that the program makes. Where
    the ranks never change, nothing is copied."""

    can_wait_for_state = False  # each rank has samples of each step

    def __init__(self, model: torch.nn.Module, optimizers: list[Any], scheduler: Any, scaler: Any) -> None:
        self._model = model
        self._with_state = [model, *optimizers, *([scheduler] if scheduler is not None else [])]
        self._scheduler = scheduler
        self._scaler = scaler
        self._saved: list[Any] = []
        self._buffers: dict[str, torch.Tensor] = {}  # also those that are not in the state_dict
        self._scalers_own: dict[str, Any] = {}  # also for which optimizers it was called in this step

    def begin(self) -> None:
        if not _job.runtime().is_elastic:
            return
        self._saved = [copy.deepcopy(value.state_dict()) for value in self._with_state]
        self._buffers = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        if self._scaler is not None:
            self._scalers_own = copy.deepcopy(vars(self._scaler))

    def complete(self) -> None:
        await_sound(self._model.parameters())

    def make(self) -> None:
        """The program has made the step, but for that of the scheduler."""
        if self._scheduler is not None:
            self._scheduler.step()

    def take_back(self) -> None:
        if not self._saved:
            return
        for value, saved in zip(self._with_state, self._saved, strict=True):
            value.load_state_dict(copy.deepcopy(saved))
        with torch.no_grad():
            for name, buffer in self._model.named_buffers():
                if name in self._buffers and self._buffers[name].shape == buffer.shape:
                    buffer.copy_(self._buffers[name])
        if self._scaler is not None:
            vars(self._scaler).update(copy.deepcopy(self._scalers_own))

    def begin_generation(self) -> None:
        """Nothing was agreed on."""
