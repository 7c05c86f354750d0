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
from hora.process_sets import global_process_set
from hora.torch.elastic.audit import Who
from hora.torch.elastic.buffers import Buffers
from hora.torch.elastic.shares import Piece


@dataclasses.dataclass
class Step:
    """A step under way."""

    whole: Piece
    pieces: list[Piece]  # of this rank
    made_by: Who
    taken: int = 0  # how many of them the user was given
    passed: int = 0  # for how many the user has called backward()
    done: int = 0  # for how many the user has called step()
    is_void: bool = False  # it is to be made again
    has_ended: bool = False

    @property
    def piece(self) -> Piece:
        """The one that the user has."""
        return self.pieces[self.taken - 1]

    @property
    def has_last(self) -> bool:
        """Whether the user has the last piece."""
        return self.taken == len(self.pieces)


class Maker(abc.ABC):
    """The part of a step that changes model and optimizers, so that it can be taken back."""

    @abc.abstractmethod
    def begin(self) -> None:
        """Begins a step."""

    @abc.abstractmethod
    def complete(self, step: Step) -> None:
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
    """Keeps the optimizer's step until the ranks have voted. Nothing needs to be copied but buffers."""

    def __init__(
        self, model: torch.nn.Module, optimizer: Any, scheduler: Any, scaler: Any, clip_norm: float | None
    ) -> None:
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._scaler = scaler
        self._clip_norm = clip_norm
        self._buffers = Buffers(model)

    def begin(self) -> None:
        self._buffers.begin_step()

    def backward(self, step: Step, loss: torch.Tensor) -> None:
        """Adds the gradients of the user's microbatch. Reduces them if it is the last one. Raises
        HoraError."""
        part = step.piece.size / step.whole.size
        whole = loss * (part * (_job.size() if self._optimizer.op == ops.Average else 1))
        if self._scaler is not None:
            whole = self._scaler.scale(whole)
        self._buffers.add(part, is_first=step.piece.first == step.whole.first)
        if step.has_last:
            self._buffers.start()
        with contextlib.nullcontext() if step.has_last else self._optimizer.no_sync():
            torch.autograd.backward(whole)
        self._buffers.restore()

    def complete(self, step: Step) -> None:
        if not step.pieces:
            self._buffers.start()
        self._optimizer.synchronize()
        self._buffers.finish()

    def make(self) -> None:
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
    """Copies what has a `state_dict` before a step that the program makes, in memory."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._saved: list[Any] = []

    def begin(self) -> None:
        self._saved = [copy.deepcopy(value.state_dict()) for value in self._values]

    def complete(self, step: Step) -> None:
        """Nothing is under way: the program has made the step."""

    def make(self) -> None:
        """Nothing is to be done: the program has made the step."""

    def take_back(self) -> None:
        for value, saved in zip(self._values, self._saved, strict=True):
            value.load_state_dict(copy.deepcopy(saved))

    def begin_generation(self) -> None:
        """Nothing was agreed on."""
