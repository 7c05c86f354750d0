# SPDX-License-Identifier: Apache-2.0
"""The tensors that a training changes, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hora.torch._ops.lending import PLAIN
from hora.torch._state.structure import without_tensors
from hora.torch.elastic.trained import Trained

_LEAST_BYTES = 64 * 1024  # smaller tensors go together


def units(trained: Trained) -> list[list[str]]:
    """The names of the tensors that are worth to be sent apart, and that a step does not change: together
    those of a parameter and of its states."""
    named = tensors(trained)
    names = {id(parameter): name for name, parameter in trained.model.named_parameters()}
    owners: dict[int, str] = {}
    for optimizer in trained.optimizers:
        for parameter, state in optimizer.state.items():
            its: list[torch.Tensor] = []
            without_tensors(state, its)
            owners.update((each.data_ptr(), names.get(id(parameter), "")) for each in its)
    together: dict[str, list[str]] = {}
    for name in _large(trained, named):
        together.setdefault(owners.get(named[name].data_ptr(), "") or name, []).append(name)
    return list(together.values())


def _large(trained: Trained, named: dict[str, torch.Tensor]) -> list[str]:
    others = {*dict(trained.model.named_buffers()), *_sharing(named)}
    return [name for name, each in named.items() if name not in others and _is_large(each)]


def _sharing(named: dict[str, torch.Tensor]) -> set[str]:
    """The names of tensors that may share memory with another one."""
    storages: dict[int, list[str]] = {}
    for name, each in named.items():
        if type(each) in PLAIN:
            storages.setdefault(each.untyped_storage().data_ptr(), []).append(name)
    return {name for names in storages.values() if len(names) > 1 for name in names}


def _is_large(tensor: torch.Tensor) -> bool:
    """Whether it is worth to send it apart, from where it lies."""
    return (
        type(tensor) in PLAIN
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and tensor.nbytes >= _LEAST_BYTES
    )


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if its elements lie side by side on the host; else a copy for which that is so."""
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        return tensor
    return tensor.to("cpu", memory_format=torch.contiguous_format, copy=True)


def tensors(trained: Trained) -> dict[str, torch.Tensor]:
    """Those of the model and of the optimizers."""
    return {**of_model(trained), **of_optimizers(trained)[1]}


def of_model(trained: Trained) -> dict[str, torch.Tensor]:
    """Parameters and buffers, also buffers that are in no state_dict. One that has several names has the
    first one."""
    named = {**trained.model.state_dict(), **dict(trained.model.named_buffers())}
    known: set[Any] = set()
    found: dict[str, torch.Tensor] = {}
    for name, each in named.items():
        if isinstance(each, torch.Tensor):
            place = (each.data_ptr(), each.shape, each.stride(), each.dtype, each.device)
            if each.numel() == 0 or place not in known:
                found[name] = each.detach()
            known.add(place)
    return found


def of_optimizers(trained: Trained) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """The states of the optimizers without their tensors, and these."""
    found: list[torch.Tensor] = []
    states = without_tensors([each.state_dict() for each in trained.optimizers], found)
    return states, numbered(each.detach() for each in found)


def numbered(states: Iterable[torch.Tensor]) -> dict[str, torch.Tensor]:
    """States of the optimizers, by name."""
    return {f"optimizers.{number}": each for number, each in enumerate(states)}
