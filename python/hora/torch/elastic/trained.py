# SPDX-License-Identifier: Apache-2.0
"""Everything whose state a training changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch

from hora._errors import HoraArgumentError, HoraInternalError
from hora.process_sets import global_process_set
from hora.torch._state.broadcast import described

#: Shape and dtype of each buffer, by the path of its module and its name; None: it is None.
Layout: TypeAlias = dict[tuple[str, str], tuple[tuple[int, ...], torch.dtype] | None]


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
            **self.others_state(),
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
        self.load_others(state)

    def description(self) -> list[tuple[str, str]]:
        """Names with texts that are the same on two processes only if one can take the state of the other."""
        return [
            *((f"model.{name}", described(each)) for name, each in self.model.named_parameters()),
            *self.description_of_optimizers(),
        ]

    def description_of_optimizers(self) -> list[tuple[str, str]]:
        """The part of `description` that is not about the model."""
        return [
            *(
                (f"optimizers[{number}]", _described(optimizer))
                for number, optimizer in enumerate(self.optimizers)
            ),
            *((name, type(each).__name__) for name, each in self._others.items()),
        ]

    def layout(self) -> Layout:
        """The buffers of the model, which may change their shapes, or come and go, while it trains."""
        return {
            place: None if buffer is None else (tuple(buffer.shape), buffer.dtype)
            for place, _, buffer in self._buffers()
        }

    def adopt(self, layout: Layout) -> None:
        """Gives the model buffers like those of another process, with any values."""
        device = next((each.device for each in self.model.parameters()), None)
        modules = dict(self.model.named_modules())
        for (path, name), module, _ in list(self._buffers()):
            if (path, name) not in layout:
                delattr(module, name)
        for (path, name), wanted in layout.items():
            if path not in modules:
                raise HoraInternalError(
                    f"this process cannot join the job: the model of the others has a module {path}, and "
                    "this one has not"
                )
            buffers = modules[path]._buffers
            if name not in buffers:
                modules[path].register_buffer(name, None)
            buffer = buffers[name]
            if wanted is None:
                buffers[name] = None
            elif buffer is None or (tuple(buffer.shape), buffer.dtype) != wanted:
                buffers[name] = torch.zeros(wanted[0], dtype=wanted[1], device=device)

    def _buffers(self) -> Iterator[tuple[tuple[str, str], torch.nn.Module, torch.Tensor | None]]:
        for path, module in self.model.named_modules():
            for name, buffer in module._buffers.items():
                yield (path, name), module, buffer

    def others_state(self) -> dict[str, Any]:
        """The states of scheduler and scaler, by what they are."""
        return {name: each.state_dict() for name, each in self._others.items()}

    def load_others(self, states: dict[str, Any]) -> None:
        for name, each in self._others.items():
            each.load_state_dict(states[name])


def _described(optimizer: Any) -> str:
    """A text that differs if two optimizers cannot reduce their gradients together. Those of a process set
    have other names where the set was added before this process has joined."""
    text = f"{type(optimizer).__name__} of {_sizes(optimizer)} parameters"
    if optimizer.process_set is not global_process_set:
        return text
    return f"{text}, which are reduced as {optimizer._reducer.label}"


def _sizes(optimizer: torch.optim.Optimizer) -> str:
    """How many parameters each of its groups has: "3", or "2 and 1"."""
    return " and ".join(str(len(group["params"])) for group in optimizer.param_groups)
