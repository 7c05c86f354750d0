# SPDX-License-Identifier: Apache-2.0
"""The state of an optimizer apart from its tensors, for another rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class Place:
    """Where a tensor stood in an optimizer's state."""

    def __init__(self, number: int, shape: tuple[int, ...], dtype: torch.dtype, kind: str) -> None:
        self.number = number
        self.shape = shape
        self.dtype = dtype
        self.kind = kind  # of device

    def empty(self, devices: dict[str, torch.device]) -> torch.Tensor:
        """Such a tensor, on this rank's device of that kind."""
        return torch.empty(self.shape, dtype=self.dtype, device=devices.get(self.kind, self.kind))


def without_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """The structure with tensors replaced by their place in the list, their shape and dtype."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return Place(len(tensors) - 1, tuple(value.shape), value.dtype, value.device.type)
    if isinstance(value, dict):
        return {key: without_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(without_tensors(item, tensors) for item in value)
    return value


def with_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """The structure with tensors in their places."""
    if isinstance(value, Place):
        return tensors[value.number]
    if isinstance(value, dict):
        return {key: with_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(with_tensors(item, tensors) for item in value)
    return value


def empty_tensors(structure: Any, optimizers: Iterable[torch.optim.Optimizer]) -> list[torch.Tensor]:
    """Tensors with any values for the places in the structure of another rank's optimizers, on the devices of
    these."""
    devices = {
        parameter.device.type: parameter.device
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    return [place.empty(devices) for place in sorted(_places(structure), key=lambda place: place.number)]


def _places(value: Any) -> list[Place]:
    if isinstance(value, Place):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [place for item in value for place in _places(item)]
    return []
