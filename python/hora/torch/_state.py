# SPDX-License-Identifier: Apache-2.0
"""Making all ranks start alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hora import _job
from hora._errors import HoraArgumentError
from hora._objects import broadcast_object
from hora.torch._ops import broadcast_async_


def _named(params: Mapping[str, Any] | Iterable[Any]) -> list[tuple[str, torch.Tensor]]:
    if isinstance(params, Mapping):
        named = sorted(params.items())
        if named and not any(isinstance(value, torch.Tensor) for _, value in named):
            kind = type(named[0][1]).__name__
            raise HoraArgumentError(f"invalid params: no value is a torch.Tensor, but {kind}; for an optimizer use broadcast_optimizer_state(optimizer, root_rank)")
        return named
    items: list[Any] = list(params) if isinstance(params, Iterable) else [params]
    if all(isinstance(item, tuple) and len(item) == 2 for item in items):
        return items
    if all(isinstance(item, torch.Tensor) for item in items):
        return [(str(number), tensor) for number, tensor in enumerate(items)]
    raise HoraArgumentError("invalid params: expected a state_dict(), named_parameters(), or a list of tensors")


def broadcast_parameters(params: Mapping[str, Any] | Iterable[Any], root_rank: int) -> None:
    """Gives every rank the values of rank `root_rank`, in place.

    Args:
        params: `model.state_dict()`, `model.named_parameters()`, or a list of tensors; the same names and shapes on all
            ranks. Entries of a state_dict that are no tensors are left alone.
        root_rank: whose values.

    Raises:
        HoraArgumentError (a ValueError): `params` is something else, or a tensor cannot be sent.
        HoraInternalError (a RuntimeError): the ranks' tensors differ in shape or dtype; the text names the tensor.
    """
    handles = []
    copies = []
    with torch.no_grad():
        for name, tensor in _named(params):
            if not isinstance(tensor, torch.Tensor):
                continue
            target = tensor.detach()
            if not target.is_contiguous():
                copies.append((target, target.contiguous()))
                target = copies[-1][1]
            handles.append(broadcast_async_(target, root_rank, f"parameters.{name}"))
        for handle in handles:
            _job.synchronize(handle)
        for target, copy in copies:
            target.copy_(copy)


def _without_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    """The structure with tensors replaced by their place in the list, their shape and dtype."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1, tuple(value.shape), value.dtype)
    if isinstance(value, dict):
        return {key: _without_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_without_tensors(item, tensors) for item in value)
    return value


def _with_tensors(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, _Place):
        return tensors[value.number]
    if isinstance(value, dict):
        return {key: _with_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(item, tensors) for item in value)
    return value


class _Place:
    """Where a tensor stood in an optimizer's state."""

    def __init__(self, number: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.number = number
        self.shape = shape
        self.dtype = dtype


def _places(value: Any) -> list[_Place]:
    if isinstance(value, _Place):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [place for item in value for place in _places(item)]
    return []


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Gives every rank the state (momentum, step counts, ...) and the options (learning rate, ...) of rank `root_rank`'s
    optimizer. The other ranks need not have any state yet, and no step is made. Every optimizer of torch.optim.

    Raises:
        HoraArgumentError (a ValueError): a tensor of the state cannot be sent.
        HoraInternalError (a RuntimeError): the job has failed.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise HoraArgumentError(f"expected an optimizer, not {type(optimizer).__name__}; for a model use broadcast_parameters(model.state_dict(), root_rank)")
    own: list[torch.Tensor] = []
    structure = _without_tensors(optimizer.state_dict(), own) if _job.rank() == root_rank else None
    structure = broadcast_object(structure, root_rank, "optimizer_state")
    if _job.rank() == root_rank:
        tensors = [tensor.detach().contiguous() for tensor in own]
    else:
        tensors = [torch.empty(place.shape, dtype=place.dtype) for place in sorted(_places(structure), key=lambda p: p.number)]
    broadcast_parameters([(f"optimizer_state.{number}", tensor) for number, tensor in enumerate(tensors)], root_rank)
    if _job.rank() != root_rank:
        optimizer.load_state_dict(_with_tensors(structure, tensors))
