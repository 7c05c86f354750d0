# SPDX-License-Identifier: Apache-2.0
"""The state of a training on its way from the ranks that have it to others."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import torch

from hora import _arrays, _job, _native
from hora._objects import broadcast_object
from hora.torch._state.broadcast import broadcast_parameters, described
from hora.torch._state.structure import empty_tensors, with_tensors
from hora.torch.elastic.buffers import as_real
from hora.torch.elastic.progress import Progress
from hora.torch.elastic.tensors import memory_of, numbered, of_model, of_optimizers, tensors, units
from hora.torch.elastic.trained import Trained


@dataclasses.dataclass
class _Outline:
    """The state but for the values of its tensors."""

    progress: Progress
    optimizers: list[Any]  # their states, as `without_tensors` makes them
    others: dict[str, Any]  # the states of scheduler and scaler
    tensors: dict[str, str]  # what each one is, by name, if the state may come in parts
    #: The names of those that are sent while the ranks compute: a parameter, and what belongs to it.
    units: list[list[str]]


class Overlap(enum.Enum):
    """How large parameters and states of the optimizer, in host memory, are sent while the ranks compute."""

    NONE = enum.auto()  #: before that
    AT_ONCE = enum.auto()  #: during one step
    IN_PARTS = enum.auto()  #: during several steps, if it is much


class Handover:
    """Gives the state to the ranks that need it. All ranks make one.

    All that is not sent while the ranks compute is there when this has been made. In the steps meanwhile,
    ranks that have the state share the samples, and the others get microbatches that do not count. A small
    state is there before the first of these (`await_state`), and complete when the first step counts. A large
    one comes in parts, one in each step (`give_more`). Parts that have come follow the steps, as the rank
    gets the gradients of all. With the last part comes the rest once more, and all compare the large tensors
    before they vote (`confirm`). Buffers change within a step, so they belong to the rest.

    Args:
        root: a rank that has the state.
        needs: whether this rank gets it.

    Attributes:
        progress: that of the state.
        sources: the ranks that have the state.
        outcome: of the part that was confirmed last; None: the part under way is not confirmed.

    Raises HoraError, as its methods do, such as HoraRanksChangedError.
    """

    def __init__(
        self, trained: Trained, progress: Progress, root: int, needs: bool, overlap: Overlap
    ) -> None:
        self._trained = trained
        self._needs = needs
        self._overlap = overlap
        self._root = root
        every = _arrays.allgather([int(needs)], "elastic.training.needs").tolist()
        self.sources = [rank for rank, each in enumerate(every) if not each]
        self._outline = outline = self._outline_of_root(progress)
        self.progress = outline.progress
        names = [name for unit in outline.units for name in unit]
        own = of_optimizers(trained)[1]
        states = empty_tensors(outline.optimizers, trained.optimizers) if needs else list(own.values())
        #: Where they arrive on a rank that needs them.
        self._places = {**of_model(trained), **numbered(each.contiguous() for each in states)}
        self._give(self._places)
        if needs:
            for name, each in numbered(states).items():
                if name in names:
                    each.zero_()  # the optimizer makes steps with it before the values come
            _load(trained, outline, states)
        self.outcome: _native.TransferOutcome | None = None
        self._sent = 0  # units, with the part under way
        self._transfer: _native.StateTransfer | None = None
        #: Tensors of this rank that are elsewhere than where their values arrive, and these places.
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        if names:
            self._places.update({name: memory_of(self._places[name]) for name in names})
            self._transfer = _native.StateTransfer(_job.runtime(), [bool(each) for each in every])
            self._begin_part(rest=overlap == Overlap.AT_ONCE)

    def _outline_of_root(self, progress: Progress) -> _Outline:
        """All ranks call it."""
        outline: _Outline | None = None
        if _job.rank() == self._root:
            outline = _Outline(
                progress,
                of_optimizers(self._trained)[0],
                self._trained.others_state(),
                _descriptions(self._trained) if self._overlap == Overlap.IN_PARTS else {},
                units(self._trained) if self._overlap != Overlap.NONE else [],
            )
        outline = broadcast_object(outline, self._root, "elastic.training.outline")
        assert outline is not None
        return outline

    def _give(self, named: dict[str, torch.Tensor]) -> None:
        """Gives those of these tensors that are in no unit. All ranks call it."""
        apart = {name for unit in self._outline.units for name in unit}
        rest = {name: as_real(each) for name, each in named.items() if name not in apart}
        broadcast_parameters(rest, self._root)

    @property
    def has_last_part(self) -> bool:
        """Whether the whole state is there when the part under way is."""
        return self._sent == len(self._outline.units)

    def give_more(self, rest: bool) -> bool:
        """Begins to give the next part, where a step begins. `rest`: all parts that are left, as one. Returns
        whether that makes sense: no, if other tensors than before belong to the state by now."""
        self._begin_part(rest)
        return not self.has_last_part or self._give_rest_again()

    def _give_rest_again(self) -> bool:
        outline = self._outline_of_root(self.progress)
        root_is_same = outline.units == self._outline.units and outline.tensors == self._outline.tensors
        fits = root_is_same and _descriptions(self._trained) == outline.tensors
        if not _arrays.allgather([int(fits)], "elastic.training.fits").all():
            return False
        if self._needs:
            _load(self._trained, outline, list(of_optimizers(self._trained)[1].values()))
        self._give(tensors(self._trained))
        return True

    def _begin_part(self, rest: bool) -> None:
        assert self._transfer is not None
        first = self._sent
        own = tensors(self._trained)
        memory = [
            [
                memory_of(own[name])
                if name in own and (not self._needs or number < first)
                else self._places[name]
                for name in unit
            ]
            for number, unit in enumerate(self._outline.units)
        ]
        places = [[(each.data_ptr(), each.nbytes) for each in unit] for unit in memory]
        self.outcome = None
        self._sent = self._transfer.begin_part(places, rest, memory)
        if self._needs:
            self._copies = [
                (own[name], self._places[name])
                for unit in self._outline.units[first : self._sent]
                for name in unit
                if name in own and own[name].data_ptr() != self._places[name].data_ptr()
            ]

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


def _descriptions(trained: Trained) -> dict[str, str]:
    return {name: described(each) for name, each in tensors(trained).items()}


def _load(trained: Trained, outline: _Outline, tensors: list[torch.Tensor]) -> None:
    """Gives the optimizers, the scheduler and the scaler the states of the source. The optimizers keep these
    very tensors, unless they make others of them."""
    states = with_tensors(outline.optimizers, tensors)
    for optimizer, state in zip(trained.optimizers, states, strict=True):
        optimizer.load_state_dict(state)
    trained.load_others(outline.others)
