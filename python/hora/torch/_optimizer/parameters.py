# SPDX-License-Identifier: Apache-2.0
"""The parameters of an optimizer: what they are called, and which of them belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from hora._errors import HoraArgumentError
from hora.torch._ops.lending import native_dtype

Groups = int | Sequence[Sequence[torch.Tensor]] | None


def names_of(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.Tensor]] | None
) -> dict[int, str]:
    """The name of every parameter of the optimizer, by id: "group.index" if none are given. Raises
    HoraArgumentError."""
    if named_parameters is None:
        return {
            id(parameter): f"{group}.{index}"
            for group, options in enumerate(optimizer.param_groups)
            for index, parameter in enumerate(options["params"])
        }
    named = list(named_parameters)
    if not all(isinstance(item, tuple) and len(item) == 2 for item in named):
        raise HoraArgumentError(
            "named_parameters should be a sequence of tuples (name, parameter), usually "
            "model.named_parameters()"
        )
    counts: dict[str, int] = {}
    for name, _ in named:
        counts[name] = counts.get(name, 0) + 1
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise HoraArgumentError(
            f"parameter names in named_parameters must be unique; these are not: {', '.join(duplicates)}"
        )
    known = {id(parameter): name for name, parameter in named}
    unnamed = [
        f"parameter {index} of group {group} {list(parameter.shape)}"
        for group, options in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(options["params"])
        if id(parameter) not in known
    ]
    if unnamed:
        raise HoraArgumentError(
            f"{len(unnamed)} parameters of the optimizer have no name, the first is {unnamed[0]}; pass all "
            "of model.named_parameters()"
        )
    return known


def check_groups(groups: Any) -> None:
    """Raises HoraArgumentError unless this is None, a number from 1 up, or lists of tensors without
    repetition."""
    if groups is None:
        return
    if isinstance(groups, int):
        if isinstance(groups, bool) or groups < 1:
            raise HoraArgumentError(
                f"groups must be a number from 1 up, or a list of lists of parameters, not {groups!r}"
            )
        return
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, (list, tuple)) for group in groups):
        raise HoraArgumentError(
            "groups must be a number from 1 up, or a list of lists of parameters, not "
            f"{type(groups).__name__}"
        )
    listed = [parameter for group in groups for parameter in group]
    for parameter in listed:
        if not isinstance(parameter, torch.Tensor):
            raise HoraArgumentError(
                "groups must consist of torch.Tensor, in lists; there is "
                f"a {type(parameter).__name__} among them"
            )
    if len({id(parameter) for parameter in listed}) < len(listed):
        raise HoraArgumentError("a parameter can only appear once in groups")


def group_numbers(optimizer: torch.optim.Optimizer, groups: Groups) -> dict[int, int]:
    """The group of each parameter that has one, by id. A number of groups divides the parameters that get
    gradients, in their order, into parts of nearly equal length."""
    if groups is None:
        return {}
    if isinstance(groups, int):
        parameters = [
            parameter
            for options in optimizer.param_groups
            for parameter in options["params"]
            if parameter.requires_grad
        ]
        count = min(groups, len(parameters))
        return {id(parameter): index * count // len(parameters) for index, parameter in enumerate(parameters)}
    return {id(parameter): number for number, group in enumerate(groups) for parameter in group}


def fresh_parameters(
    optimizer: torch.optim.Optimizer | None, names: dict[int, str], known: set[int]
) -> list[tuple[torch.Tensor, str]]:
    """The parameters that get gradients and are not `known` yet, and their names; they are known from now on.
    Raises HoraArgumentError for one whose gradient cannot be sent."""
    fresh = []
    for group, options in enumerate(optimizer.param_groups if optimizer is not None else ()):
        for index, parameter in enumerate(options["params"]):
            if parameter.requires_grad and id(parameter) not in known:
                name = names.setdefault(id(parameter), f"{group}.{index}")
                native_dtype(parameter, name)
                fresh.append((parameter, name))
    known.update(id(parameter) for parameter, _ in fresh)
    return fresh
