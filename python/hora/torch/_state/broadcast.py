# SPDX-License-Identifier: Apache-2.0
"""Making all ranks start alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hora import _job
from hora._arguments import checked_root, documented
from hora._errors import HoraArgumentError
from hora._objects import broadcast_object
from hora.process_sets import ProcessSet, global_process_set, number_of
from hora.torch._ops.broadcast import broadcast_all_
from hora.torch._ops.lending import native_dtype
from hora.torch._state.structure import empty_tensors, with_tensors, without_tensors


def _named(params: Mapping[str, Any] | Iterable[Any]) -> list[tuple[str, torch.Tensor]]:
    if isinstance(params, Mapping):
        named = sorted(params.items(), key=lambda item: str(item[0]))
        if named and not any(isinstance(value, torch.Tensor) for _, value in named):
            kind = type(named[0][1]).__name__
            raise HoraArgumentError(
                f"invalid params: no value is a torch.Tensor, but {kind}; for an optimizer use "
                "broadcast_optimizer_state(optimizer, root_rank)"
            )
        return named
    items: list[Any] = list(params) if isinstance(params, Iterable) else [params]
    if all(isinstance(item, tuple) and len(item) == 2 for item in items):
        return items
    if all(isinstance(item, torch.Tensor) for item in items):
        return [(str(number), tensor) for number, tensor in enumerate(items)]
    raise HoraArgumentError(
        "invalid params: expected a state_dict(), named_parameters(), or a list of tensors"
    )


def described(tensor: torch.Tensor) -> str:
    """ "float32[3,4]" """
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]"


@documented
def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives every rank the values of the root, in place.

    Args:
        params: `model.state_dict()`, `model.named_parameters()`, or a list of tensors; the same names, shapes
            and dtypes on all ranks, in any layout. Entries of a state_dict that are no tensors are left
            alone.

    Raises:
        HoraArgumentError (a ValueError): `params` is something else, a tensor cannot be sent, there is no
            such rank, or this rank is no member of the process set.
        HoraInternalError (a RuntimeError): the ranks' tensors differ in number, name, shape or dtype; the
            text, the same on all ranks, names them and the ranks. Nothing was sent.
    """
    tensors = [(name, tensor) for name, tensor in _named(params) if isinstance(tensor, torch.Tensor)]
    for name, tensor in tensors:
        native_dtype(tensor, f"parameters.{name}")
    root = checked_root(root_rank, "parameters")
    number = number_of(process_set, "parameters")
    _job.runtime().require_alike(
        "parameters.alike",
        "the parameters",
        [(str(name), described(tensor)) for name, tensor in tensors],
        number,
    )
    broadcast_all_(((f"parameters.{name}", tensor.detach()) for name, tensor in tensors), root, process_set)


@documented
def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives every rank the state (momentum, step counts, ...) and the options (learning rate, ...) of rank
    `root_rank`'s optimizer. The other ranks need not have any state yet, and no step is made: parameters and
    their gradients stay as they are. Every optimizer of torch.optim, LBFGS too; a DistributedOptimizer as
    well.

    Args:
        optimizer: with as many parameters on all ranks, in the same groups.
        model: not needed; there for scripts written for Horovod.

    Raises:
        HoraArgumentError (a ValueError): it is no optimizer, there is no such rank, this rank is no member of
            the process set, or (on every rank) something in the state cannot be sent.
        HoraInternalError (a RuntimeError): the job has failed.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise HoraArgumentError(
            f"expected an optimizer, not {type(optimizer).__name__}; for a model use "
            "broadcast_parameters(model.state_dict(), root_rank)"
        )
    root = _job.rank() == root_rank
    own: list[torch.Tensor] = []
    structure = _checked(without_tensors(optimizer.state_dict(), own), own) if root else None
    structure = broadcast_object(structure, root_rank, "optimizer_state", process_set)
    if isinstance(structure, str):
        raise HoraArgumentError(structure)
    tensors = (
        [tensor.detach().contiguous() for tensor in own] if root else empty_tensors(structure, [optimizer])
    )
    broadcast_parameters(
        [(f"optimizer_state.{number}", tensor) for number, tensor in enumerate(tensors)],
        root_rank,
        process_set,
    )
    if not root:
        optimizer.load_state_dict(with_tensors(structure, tensors))


def _checked(structure: Any, tensors: list[torch.Tensor]) -> Any:
    """The structure; or why one of its tensors cannot be sent, for the other ranks to hear of it, too."""
    try:
        for number, tensor in enumerate(tensors):
            native_dtype(tensor, f"optimizer_state.{number}")
    except HoraArgumentError as error:
        return str(error)
    return structure
