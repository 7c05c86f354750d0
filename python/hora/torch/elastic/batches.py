# SPDX-License-Identifier: Apache-2.0
"""The steps of an epoch, and the samples of each rank in them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from hora import _job
from hora._errors import HoraArgumentError
from hora.torch.elastic import shares
from hora.torch.elastic.samples import samples_of
from hora.torch.elastic.shares import Piece


class Batches:
    """The steps of an epoch, each of `batch` samples, which the ranks share as microbatches.

    With `one_piece` each rank gets its samples of a step in one piece. The last step of an epoch then takes
    in a rest of fewer samples than there are ranks.
    """

    def __init__(
        self, data: Any, batch: int, microbatch: int, shuffle: bool, seed: int, one_piece: bool
    ) -> None:
        self._samples = samples_of(data, shuffle, seed)
        self._batch = batch
        self._microbatch = microbatch
        self._seed = seed
        self._one_piece = one_piece
        self._drops_last = isinstance(data, DataLoader) and data.drop_last

    def begin(self, epoch: int, place: int) -> None:
        """Goes to a place of an epoch. Raises HoraArgumentError if no step begins there and the epoch has
        none."""
        self._samples.begin_epoch(epoch, place)
        if place == 0 and self.step_from(epoch, place) is None:
            least = _job.size() if self._one_piece and not self._drops_last else self._batch
            raise HoraArgumentError(f"epoch {epoch} has no step: data has fewer than {least} samples")
        self.read_ahead(epoch, place)

    def step_from(self, epoch: int, place: int) -> Piece | None:
        """The samples of the step that begins there; None: the epoch is over."""
        end = self._samples.end_from(place, self._batch)
        if self._one_piece:
            rest = self._samples.end_from(end, _job.size())
            end = rest if rest - end < _job.size() else end
            if end - place < _job.size():
                return None
        if end == place or (self._drops_last and end - place < self._batch):
            return None
        return Piece(epoch, place, end)

    def of_this_rank(self, step: Piece) -> list[Piece]:
        """The samples of a step that this rank gets."""
        if self._one_piece:
            return [shares.share(step, _job.rank(), _job.size())]
        return shares.microbatches(step, self._microbatch, _job.rank(), _job.size())

    def read_ahead(self, epoch: int, place: int) -> None:
        """Reads ahead what this rank gets from there on."""
        self._samples.expect(self._from(epoch, place))

    def _from(self, epoch: int, place: int) -> Iterator[Piece]:
        while (step := self.step_from(epoch, place)) is not None:
            yield from self.of_this_rank(step)
            place = step.last

    def load(self, piece: Piece) -> Any:
        """The samples of a piece as a batch. torch's random numbers then depend on the piece alone, for the
        data set in this process, and for the model."""
        seed = random.Random(f"{self._seed} {piece.epoch} {piece.first}").getrandbits(63)
        torch.manual_seed(seed)
        batch = self._samples.load(piece)
        torch.manual_seed(seed)
        return batch

    def forget(self, place: int) -> None:
        """The samples before this place are not needed any more."""
        self._samples.forget(place)
