# SPDX-License-Identifier: Apache-2.0
"""Everything whose state a training changes."""

from __future__ import annotations

from typing import Any

import torch

from hora import _job
from hora._errors import HoraArgumentError
from hora._objects import broadcast_object
from hora.torch._state.broadcast import broadcast_optimizer_state, broadcast_parameters
from hora.torch.elastic.buffers import as_real


class Trained:
    """A model, its optimizers, and a scheduler and a scaler if there are any."""

    def __init__(self, model: torch.nn.Module, optimizers: list[Any], scheduler: Any, scaler: Any) -> None:
        self.model = model
        self.optimizers = optimizers
        others = {"scheduler": scheduler, "scaler": scaler}
        self._others = {name: each for name, each in others.items() if each is not None}

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizers": [each.state_dict() for each in self.optimizers],
            **{name: each.state_dict() for name, each in self._others.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises HoraArgumentError if the state has others than these."""
        known = {"model", "optimizers", *self._others}
        missing = ", ".join(sorted(known - state.keys()))
        if missing:
            raise HoraArgumentError(
                f"the state has no {missing}: Training was made with other arguments then"
            )
        further = ", ".join(sorted(state.keys() - known))
        if further:
            raise HoraArgumentError(
                f"the state has a {further}, and this Training has none: give it {further}="
            )
        if len(state["optimizers"]) != len(self.optimizers):
            raise HoraArgumentError(
                f"the state has {len(state['optimizers'])} optimizers, and Training {len(self.optimizers)}"
            )
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for name, each in self._others.items():
            each.load_state_dict(state[name])

    def give_to_all(self, progress: Any) -> Any:
        """Gives the state to all ranks, from rank 0, or from one that has it if others do not. Returns what
        `progress` is there. Buffers that are in no state_dict are given, too."""
        root = max(_job.runtime().state_root, 0)
        tensors = {**self.model.state_dict(), **dict(self.model.named_buffers())}
        tensors = {name: each for name, each in tensors.items() if isinstance(each, torch.Tensor)}
        broadcast_parameters({name: as_real(each) for name, each in tensors.items()}, root)
        for optimizer in self.optimizers:
            broadcast_optimizer_state(optimizer, root)
        states = {name: each.state_dict() for name, each in self._others.items()}
        progress, states = broadcast_object((progress, states), root, "elastic.training")
        for name, state in states.items():
            self._others[name].load_state_dict(state)
        return progress
