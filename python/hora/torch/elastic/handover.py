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
    #: The names of the tensors that are sent while the ranks compute: a parameter, and what belongs to it.
    units: list[list[str]]


class Handover:
    """Gives the state to the ranks that need it. All ranks make one.

    With `overlaps`, large parameters and states of the optimizer, in host memory, are sent while the ranks
    compute, and all the rest is there when this has been made. Those that have the state share the samples,
    and the others get microbatches that do not count. A small state is there before the first of these
    (`await_state`), and complete when the first step counts. A large one comes in parts, one in each step
    (`give_more`); what has come already follows the steps, as the rank gets the gradients of all. When the
    last part comes, so does the rest once more, and all compare the state before they vote (`confirm`).
    Buffers change within a step, so they belong to the rest.

    Args:
        needs: whether this rank gets the state.
        in_parts: whether a large state may come during several steps.

    Attributes:
        progress: that of the state.
        sources: the ranks that have the state.
        outcome: of the part that was confirmed last; None: the part under way is not confirmed.

    Raises HoraError, as its methods do, such as HoraRanksChangedError.
    """

    def __init__(
        self, trained: Trained, progress: Progress, needs: bool, overlaps: bool, in_parts: bool = True
    ) -> None:
        self._trained = trained
        self._needs = needs
        self._root = _job.state_root()
        every = _arrays.allgather([int(needs)], "elastic.training.needs").tolist()
        self.sources = [rank for rank, each in enumerate(every) if not each]
        states, own = _of_optimizers(trained)
        outline: _Outline | None = None
        if _job.rank() == self._root:
            units = _units(trained, {**_of_model(trained), **own}) if overlaps else []
            outline = _Outline(progress, states, trained.others_state(), units)
        outline = broadcast_object(outline, self._root, "elastic.training.outline")
        assert outline is not None
        self.progress = outline.progress
        self._units = outline.units
        received = empty_tensors(outline.optimizers, trained.optimizers) if needs else list(own.values())
        #: Where they arrive on a rank that needs them.
        self._places = {**_of_model(trained), **_numbered(each.contiguous() for each in received)}
        #: Tensors of this rank that are elsewhere, and where they arrive.
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._give_rest()
        if needs:
            _load(trained, outline, received)
        self.outcome: _native.TransferOutcome | None = None
        self._sent = 0  # units, with the part under way
        self._transfer: _native.StateTransfer | None = None
        if self._units:
            for name in (name for unit in self._units for name in unit):
                self._places[name] = _memory(self._places[name])
            self._transfer = _native.StateTransfer(_job.runtime(), [bool(each) for each in every])
            self._begin_part(rest=not in_parts)

    @property
    def has_last_part(self) -> bool:
        """Whether the whole state is there when the part under way is."""
        return self._sent == len(self._units)

    def confirm_unless_last(self) -> None:
        """Ends the part under way if another one follows it."""
        if not self.has_last_part:
            self.confirm()

    def give_more(self, rest: bool) -> None:
        """Begins to give the next part, where a step begins. `rest`: all parts that are left, as one."""
        self._begin_part(rest)
        if self.has_last_part:
            own = _tensors(self._trained)
            if not self._needs:
                self._places.update(own)
            self._give_rest()
            self._copy(own, self._places.keys() - self._apart())

    def _begin_part(self, rest: bool) -> None:
        assert self._transfer is not None
        first = self._sent
        own = _tensors(self._trained)
        memory = [
            [
                _memory(own[name])
                if name in own and (not self._needs or number < first)
                else self._places[name]
                for name in unit
            ]
            for number, unit in enumerate(self._units)
        ]
        places = [[(each.data_ptr(), each.nbytes) for each in unit] for unit in memory]
        self.outcome = None
        self._sent = self._transfer.begin_part(places, rest, memory)
        self._copy(own, (name for unit in self._units[first : self._sent] for name in unit))

    def _copy(self, own: dict[str, torch.Tensor], names: Iterable[str]) -> None:
        """When these have arrived, tensors of this rank that are elsewhere are copied."""
        if self._needs:
            self._copies += [
                (own[name], self._places[name])
                for name in names
                if name in own and own[name].data_ptr() != self._places[name].data_ptr()
            ]

    def _apart(self) -> set[str]:
        """The names of the tensors that are in units."""
        return {name for unit in self._units for name in unit}

    def _give_rest(self) -> None:
        """Gives what is in no unit. All ranks call it."""
        apart = self._apart()
        rest = {name: as_real(each) for name, each in self._places.items() if name not in apart}
        broadcast_parameters(rest, self._root)

    def await_state(self) -> None:
        """Returns when this rank has the state, unless parts of it come in the next steps."""
        if self.has_last_part:
            self._await_part()

    def _await_part(self) -> None:
        if self._transfer is not None:
            self._transfer.await_part()
        for tensor, memory in self._copies:
            tensor.copy_(memory)
        self._copies = []

    def confirm(self) -> None:
        """Waits for the part under way. Compares the states of the ranks if it is the last one. All call it
        before they vote, and have the same `outcome` then.

        Raises:
            HoraInternalError: this rank needed the state and has another one; or the job has failed.
        """
        if self._transfer is None:
            self.outcome = _native.TransferOutcome.IS_COMPLETE
        elif self.outcome is None:
            self._await_part()
            self.outcome = self._transfer.confirm()


def _units(trained: Trained, tensors: dict[str, torch.Tensor]) -> list[list[str]]:
    """The names of the tensors that are worth to be sent apart, and that a step does not change: together
    those of a parameter and of its states."""
    names = {id(parameter): name for name, parameter in trained.model.named_parameters()}
    owners: dict[int, str] = {}
    for optimizer in trained.optimizers:
        for parameter, state in optimizer.state.items():
            its: list[torch.Tensor] = []
            without_tensors(state, its)
            owners.update((each.data_ptr(), names.get(id(parameter), "")) for each in its)
    units: dict[str, list[str]] = {}
    for name in _large(trained, tensors):
        units.setdefault(owners.get(tensors[name].data_ptr(), "") or name, []).append(name)
    return list(units.values())


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


def _tensors(trained: Trained) -> dict[str, torch.Tensor]:
    return {**_of_model(trained), **_of_optimizers(trained)[1]}


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
