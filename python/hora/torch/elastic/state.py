# SPDX-License-Identifier: Apache-2.0
"""The state without which PyTorch training would have to begin again."""

from __future__ import annotations

import abc
import copy
import itertools
from collections.abc import Iterable
from typing import Any

import torch

from hora import _job
from hora._objects import broadcast_object
from hora.elastic import ObjectState
from hora.torch._ops.devices import await_sound
from hora.torch._state.broadcast import broadcast_optimizer_state, broadcast_parameters
from hora.torch.elastic.sampler import ElasticSampler


class StateHandler(abc.ABC):
    """How a value of a TorchState is saved, restored, and given to all ranks. Derive from it for values of
    your own, and register it with `set_handler_registry`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @abc.abstractmethod
    def save(self) -> None:
        """Remembers how the value is."""

    @abc.abstractmethod
    def restore(self) -> None:
        """Makes the value what it was when it was last saved."""

    @abc.abstractmethod
    def sync(self) -> None:
        """Makes the value on every rank what it is on rank `hora._job.state_root()`, and remembers that."""

    def tensors(self) -> Iterable[torch.Tensor]:
        """The tensors of the value that a GPU may still be working on when it is saved. None, unless it is
        overridden."""
        return ()

    def set_value(self, value: Any) -> None:
        """Another value takes its place, and is saved."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """A module: its state_dict, in the module's own memory."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), _job.state_root())
        await_sound(self.tensors())
        self.save()

    def tensors(self) -> Iterable[torch.Tensor]:
        return itertools.chain(self.value.parameters(), self.value.buffers())


class OptimizerStateHandler(StateHandler):
    """An optimizer: its state and options."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, _job.state_root())
        await_sound(self.tensors())
        self.save()

    def tensors(self) -> Iterable[torch.Tensor]:
        return (parameter for options in self.value.param_groups for parameter in options["params"])


class SamplerStateHandler(StateHandler):
    """A sampler: how far it has come. The rest is shared among the ranks again."""

    def __init__(self, sampler: ElasticSampler) -> None:
        super().__init__(sampler)
        self.save()

    def save(self) -> None:
        self._saved = self.value.state_dict()

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        self.value.load_state_dict(
            broadcast_object(self.value.state_dict(), _job.state_root(), "elastic.sampler")
        )
        self.save()


_registry: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    """The handlers by the type of values; the first that fits counts."""
    return _registry


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """For the states that are made from then on."""
    global _registry
    _registry = registry


def _broadcast(value: Any) -> Any:
    return broadcast_object(value, _job.state_root(), "elastic.objects")


class TorchState(ObjectState):
    """State of PyTorch training: modules, optimizers and ElasticSamplers, each saved in its own way, and
    Python objects as in `hora.elastic.ObjectState`. Everything is an attribute; assigning one saves it.

    State on a GPU is saved when the GPU has done all its work, and only if the job has not failed by then.
    After a failure `save` and `commit` raise HoraInternalError, and the state that was saved before stays.

        state = TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, batch=0)

    Args:
        model, optimizer: each may be None; several models are further keywords.
        kwargs: further values by name.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        values = {"model": model, "optimizer": optimizer, **kwargs}
        self._handlers: dict[str, StateHandler] = {}
        for name, value in values.items():
            handler = next(
                (handler for kind, handler in get_handler_registry() if isinstance(value, kind)), None
            )
            if handler is not None:
                self._handlers[name] = handler(value)
        super().__init__(
            _broadcast,
            _job.rank,
            **{name: value for name, value in values.items() if name not in self._handlers},
        )

    def save(self) -> None:
        await_sound(tensor for handler in self._handlers.values() for tensor in handler.tensors())
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __getattr__(self, name: str) -> Any:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is None:
            raise AttributeError(f"this state has no {name!r}")
        return handler.value

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is None:
            super().__setattr__(name, value)
        else:
            handler.set_value(value)
