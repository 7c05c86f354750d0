# SPDX-License-Identifier: Apache-2.0
"""The steps of an epoch, and the samples of each rank in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from hora import _job
from hora._errors import HoraArgumentError
from hora.torch.elastic import shares
from hora.torch.elastic.samples import samples_of
from hora.torch.elastic.shares import Piece, mixed_seed


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
        self._sharers: list[int] | None = None  # the ranks that share the next steps; None: all
        self._only_next = True  # whether all ranks share the step after the next one

    def require_alike(self, more: list[tuple[str, str]]) -> None:
        """Raises HoraInternalError on all ranks, with what differs, if the ranks do not take the same samples
        from data that looks the same, or differ in `more`: names with texts."""
        items = [*self.description(), *more]
        _job.runtime().require_alike("elastic.training.alike", "the arguments of Training", items, 0)

    def description(self) -> list[tuple[str, str]]:
        """Names with texts that are the same on two ranks only if they take the same samples."""
        arguments = {
            "batch": self._batch,
            "microbatch": self._microbatch,
            "seed": self._seed,
            "data": self._samples.description(),
        }
        return [(name, str(value)) for name, value in arguments.items()]

    def begin(self, epoch: int, place: int) -> None:
        """Goes to a place of an epoch. Raises HoraArgumentError if the epoch has no step."""
        self._require_one_each()
        self._samples.begin_epoch(epoch, place)
        if place == 0 and self.step_from(epoch, place) is None:
            least = self._batch if self._drops_last else _job.size()
            raise HoraArgumentError(f"epoch {epoch} has no step: data has fewer than {least} samples")
        self.read_ahead(epoch, place)

    def _require_one_each(self) -> None:
        """Raises HoraArgumentError if a rank would have no sample of a step."""
        if self._one_piece and self._batch < _job.size():
            raise HoraArgumentError(
                f"batch={self._batch} has fewer samples than there are ranks ({_job.size()}), and each needs "
                "one: choose a larger batch, or at most as many ranks (-np, --max-np, and --spares N:hot)"
            )

    def step_from(self, epoch: int, place: int) -> Piece | None:
        """The samples of the step that begins there; None: the epoch is over."""
        end = self._samples.end_from(place, self._batch)
        if self._one_piece:
            self._require_one_each()
            rest = self._samples.end_from(end, _job.size())
            end = rest if rest - end < _job.size() else end
            if end - place < _job.size():
                return None
        if end == place or (self._drops_last and end - place < self._batch):
            return None
        return Piece(epoch, place, end)

    def may_begin_with_others(self, epoch: int, place: int) -> bool:
        """Whether a step begins there that has samples for further ranks, too."""
        step = self.step_from(epoch, place)
        return step is not None and (not self._one_piece or step.size >= self._batch)

    def share_steps_among(self, ranks: list[int] | None, only_next: bool = True) -> None:
        """These ranks share the samples of the next steps, until this is called again. None: all do.
        `only_next`: it will be called after the next step."""
        self._sharers = ranks
        self._only_next = only_next

    def share_of(self, step: Piece) -> list[Piece]:
        """The samples of the next step that this rank gets; none if there are more ranks than microbatches,
        if others share it, or if this rank is a hot spare."""
        return self._share_among(self._sharers, step)

    def _share_among(self, ranks: list[int] | None, step: Piece) -> list[Piece]:
        if self._one_piece:
            return [shares.share(step, _job.rank(), _job.size())]
        training = range(_job.size() - _job.runtime().hot_spares)
        ranks = [rank for rank in training if ranks is None or rank in ranks]
        if _job.rank() not in ranks:
            return []
        return shares.microbatches(step, self._microbatch, ranks.index(_job.rank()), len(ranks))

    def given_for(self, share: list[Piece], step: Piece) -> list[Piece]:
        """The pieces that the program gets: those of its share. Without any it gets the first one of the
        step, so that all ranks run the program alike."""
        return share or shares.microbatches(step, self._microbatch, 0, 1)[:1]

    def read_ahead(self, epoch: int, place: int) -> None:
        """Reads ahead what the program gets from there on."""
        self._samples.expect(self._from(epoch, place, self._sharers))

    def _from(self, epoch: int, place: int, sharers: list[int] | None) -> Iterator[Piece]:
        """The pieces of the program. `sharers`: those of the next steps."""
        while (step := self.step_from(epoch, place)) is not None:
            yield from self.given_for(self._share_among(sharers, step), step)
            place, sharers = step.last, None if self._only_next else sharers

    def load(self, piece: Piece) -> Any:
        """The samples of a piece as a batch. torch's random numbers then depend on the piece alone, for a
        data set that is read in this process, and for the model."""
        self.seed(piece.epoch, piece.first)
        batch = self._samples.load(piece)
        self.seed(piece.epoch, piece.first)
        return batch

    def seed(self, epoch: int, place: int) -> None:
        """Makes torch's random numbers depend on the place alone. `torch.manual_seed` does the same, with a
        stack trace that takes 0.2 ms."""
        seed = mixed_seed(self._seed, epoch, place)
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(seed)

    def forget(self, place: int) -> None:
        """The samples before this place are not needed any more."""
        self._samples.forget(place)
