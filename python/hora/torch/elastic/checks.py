# SPDX-License-Identifier: Apache-2.0
"""Checks what users give to Training."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.utils.data import DataLoader

from hora._errors import HoraArgumentError, HoraUnsupportedError
from hora.torch._batch_norm import SyncBatchNorm
from hora.torch._optimizer.optimizer import DistributedOptimizer, _DistributedOptimizer


def check_model(model: Any) -> None:
    """Raises HoraArgumentError if it is no module, HoraUnsupportedError if its forward pass communicates."""
    if not isinstance(model, torch.nn.Module):
        raise HoraArgumentError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    for name, layer in model.named_modules():
        if isinstance(layer, (SyncBatchNorm, torch.nn.SyncBatchNorm)):
            raise HoraUnsupportedError(
                f"'{name}' is a SyncBatchNorm, whose forward pass needs all ranks at once, and ranks may "
                "have different numbers of microbatches: use BatchNorm, whose running statistics Training "
                "averages over all microbatches of a step"
            )


def checked_number(name: str, number: Any) -> int:
    """Raises HoraArgumentError if it is no number from 1 up."""
    try:
        checked = operator.index(number)
    except TypeError:
        checked = 0
    if checked < 1:
        raise HoraArgumentError(f"{name} must be a number of samples from 1 up, not {number!r}")
    return checked


def checked_microbatch(microbatch: Any, data: Any, batch: int) -> int:
    """The number of samples that go through the model at once. Raises HoraArgumentError."""
    if microbatch is None and isinstance(data, DataLoader):
        microbatch = data.batch_size
    if microbatch is None:
        raise HoraArgumentError(
            "microbatch= is missing: the number of samples that go through the model at once, on one rank"
        )
    return min(checked_number("microbatch", microbatch), batch)


def check_step(scheduler: Any, clip_norm: Any, why_copies: str) -> None:
    """Raises HoraArgumentError if Training cannot make the steps of the scheduler, or clip gradients."""
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise HoraArgumentError(
            "scheduler= makes a step after each training step, and ReduceLROnPlateau needs a loss: call "
            "scheduler.step(loss) after training.batches(), with a loss that all ranks have"
        )
    if clip_norm is None:
        return
    if not isinstance(clip_norm, (int, float)) or not clip_norm > 0:
        raise HoraArgumentError(f"clip_norm must be a positive number, not {clip_norm!r}")
    if why_copies:
        raise HoraArgumentError(
            f"clip_norm= has no effect, as {why_copies}: the program makes the step, and clips the gradients "
            "itself"
        )


def wrap(model: torch.nn.Module, optimizers: list[Any], op: int) -> None:
    """Makes each a DistributedOptimizer with this `op`, if it is none yet. Raises HoraArgumentError if one is
    no optimizer, or adds up gradients itself."""
    for optimizer in optimizers:
        if not isinstance(optimizer, _DistributedOptimizer):
            DistributedOptimizer(optimizer, model.named_parameters(), op=op)
        elif optimizer.backward_passes_per_step != 1:
            raise HoraArgumentError(
                f"the optimizer has backward_passes_per_step={optimizer.backward_passes_per_step}: leave it "
                "out, as Training adds up the gradients of the microbatches of a step"
            )
