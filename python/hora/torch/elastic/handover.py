# SPDX-License-Identifier: Apache-2.0
"""The state of a training on its way from the ranks that have it to others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch

from hora import _arrays, _job, _native
from hora._objects import broadcast_object
from hora.torch._ops.lending import PLAIN
from hora.torch._state.broadcast import broadcast_parameters
from hora.torch._state.structure import empty_tensors, with_tensors, without_tensors
from hora.torch.elastic.buffers import as_real
from hora.torch.elastic.progress import Progress
from hora.torch.elastic.trained import Trained

_LEAST_BYTES = 64 * 1024  # smaller tensors go together


@dataclasses.dataclass
class _Outline:
    """The state but for the values of its tensors."""

    progress: Progress
    optimizers: list[Any]  # their states, as `without_tensors` makes them
    others: dict[str, Any]  # the states of scheduler and scaler
    later: list[str]  # the names of the tensors that are sent while the ranks compute


class Handover:
    """Gives the state to the ranks that need it. All ranks make one.

    With `overlaps`, large parameters and states of the optimizer, in host memory, are on their way when it
    has been made, and all the rest is there. They do not change until the next step counts, so the ranks
    compute that step meanwhile: those that have the state share its samples, and the others get a microbatch
    that does not count, when the state is there (`await_state`). All compare the state before they vote for
    the step (`confirm`). Buffers change within a step, so they do not wait.

    Args:
        needs: whether this rank gets the state.

    Attributes:
        progress: that of the state.
        sources: the ranks that have the state.

    Raises HoraError, as its methods do, such as HoraRanksChangedError.
    """

    def __init__(self, trained: Trained, progress: Progress, needs: bool, overlaps: bool) -> None:
        root = _job.state_root()
        every = _arrays.allgather([int(needs)], "elastic.training.needs").tolist()
        self.sources = [rank for rank, each in enumerate(every) if not each]
        model = _of_model(trained)
        states, own = _of_optimizers(trained)
        outline: _Outline | None = None
        if _job.rank() == root:
            later = _large(trained, {**model, **own}) if overlaps else []
            outline = _Outline(progress, states, trained.others_state(), later)
        outline = broadcast_object(outline, root, "elastic.training.outline")
        assert outline is not None
        self.progress = outline.progress
        received = empty_tensors(outline.optimizers, trained.optimizers) if needs else own.values()
        tensors = {**model, **_numbered(each.contiguous() for each in received)}
        broadcast_parameters(
            {name: as_real(each) for name, each in tensors.items() if name not in outline.later}, root
        )
        memory = [_memory(tensors[name]) for name in outline.later]
        if needs:
            _load(trained, outline, list(received))
            tensors = {**model, **_of_optimizers(trained)[1]}
        #: The tensors that are something else than the memory in which they arrive, and that.
        self._copies = [
            (tensors[name], each)
            for name, each in zip(outline.later, memory, strict=True)
            if needs and name in tensors and tensors[name].data_ptr() != each.data_ptr()
        ]
        self._transfer: _native.StateTransfer | None = None
        if memory:
            joins = [bool(each) for each in every]
            places = [(each.data_ptr(), each.nbytes) for each in memory]
            self._transfer = _native.StateTransfer(_job.runtime(), joins, places, memory)
        self._has_state = not needs

    def await_state(self) -> None:
        """Returns when this rank has the state."""
        if self._has_state:
            return
        if self._transfer is not None:
            self._transfer.await_state()
        for tensor, memory in self._copies:
            tensor.copy_(memory)
        self._has_state = True

    def confirm(self) -> None:
        """Compares the states of the ranks. All call it once, before they vote.

        Raises:
            HoraInternalError: this rank needed the state and has another one; or the job has failed.
        """
        self.await_state()
        if self._transfer is not None:
            self._transfer.confirm()


def _large(trained: Trained, tensors: dict[str, torch.Tensor]) -> list[str]:
    """The names of the tensors that are worth to be sent apart, and that a step does not change."""
    others = {*dict(trained.model.named_buffers()), *_sharing(tensors)}
    return [name for name, each in tensors.items() if name not in others and _is_large(each)]


def _sharing(tensors: dict[str, torch.Tensor]) -> set[str]:
    """The names of tensors that may share memory with another one."""
    storages: dict[int, list[str]] = {}
    for name, each in tensors.items():
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


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if its elements lie side by side on the host; else a copy for which that is so."""
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        return tensor
    return tensor.to("cpu", memory_format=torch.contiguous_format, copy=True)


def _of_model(trained: Trained) -> dict[str, torch.Tensor]:
    """Parameters and buffers, also buffers that are in no state_dict."""
    named = {**trained.model.state_dict(), **dict(trained.model.named_buffers())}
    return {name: each.detach() for name, each in named.items() if isinstance(each, torch.Tensor)}


def _of_optimizers(trained: Trained) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """The states of the optimizers without their tensors, and these."""
    tensors: list[torch.Tensor] = []
    states = without_tensors([each.state_dict() for each in trained.optimizers], tensors)
    return states, _numbered(each.detach() for each in tensors)


def _numbered(tensors: Iterable[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"optimizers.{number}": each for number, each in enumerate(tensors)}


def _load(trained: Trained, outline: _Outline, tensors: list[torch.Tensor]) -> None:
    """Gives the optimizers, the scheduler and the scaler the states of the source. The optimizers keep these
    very tensors, unless they make others of them."""
    states = with_tensors(outline.optimizers, tensors)
    for optimizer, state in zip(trained.optimizers, states, strict=True):
        optimizer.load_state_dict(state)
    trained.load_others(outline.others)
