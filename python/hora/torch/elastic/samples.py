# SPDX-License-Identifier: Apache-2.0
"""Where training takes its samples from: a data set, a DataLoader, or anything to iterate over."""

from __future__ import annotations

import abc
import collections
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from hora import _native
from hora._errors import HoraArgumentError, HoraUnsupportedError
from hora.torch.elastic.shares import Piece, mixed_seed

_COPIED = (
    "num_workers",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "prefetch_factor",
    "persistent_workers",
)


class Samples(abc.ABC):
    """The samples of an epoch, by their places in its order. All ranks have the same.

    `expect` tells which pieces `load` is going to ask for, in this order, so that they are read ahead.
    """

    @abc.abstractmethod
    def description(self) -> str:
        """A text that must be the same on all ranks."""

    @abc.abstractmethod
    def begin_epoch(self, epoch: int, place: int) -> None:
        """Goes to a place of an epoch."""

    @abc.abstractmethod
    def end_from(self, first: int, most: int) -> int:
        """One more than the last place of the samples from `first` on, up to `most` of them."""

    @abc.abstractmethod
    def expect(self, pieces: Iterable[Piece]) -> None:
        """Reads these ahead from now on, and not those that were expected before."""

    @abc.abstractmethod
    def load(self, piece: Piece) -> Any:
        """The samples of a piece as a batch. It may be asked for again until `forget`."""

    @abc.abstractmethod
    def forget(self, place: int) -> None:
        """The samples before this place are not needed any more."""


class _ReadAhead:
    """A batch sampler for DataLoader. It notes which pieces were given to the loader, whose batches come in
    the same order."""

    def __init__(self, indices: Callable[[Piece], list[int]]) -> None:
        self.pieces: Iterator[Piece] = iter(())
        self.under_way: collections.deque[Piece] = collections.deque()
        self._indices = indices

    def __iter__(self) -> Iterator[list[int]]:
        while (piece := next(self.pieces, None)) is not None:
            self.under_way.append(piece)
            yield self._indices(piece)


class IndexedSamples(Samples):
    """Samples of a data set with a length, read by a DataLoader."""

    def __init__(self, data: Any, shuffle: bool, seed: int, options: dict[str, Any]) -> None:
        self._size = len(data)
        self._shuffle = shuffle
        self._seed = seed
        self._epoch = -1
        self._order = _native.Permutation(1, 0, 0)
        self._ahead = _ReadAhead(self._indices)
        own = torch.Generator()  # else the loader takes a number from the generator that dropout uses
        self._loader = DataLoader(data, batch_sampler=self._ahead, generator=own.manual_seed(seed), **options)
        self._batches: Iterator[Any] | None = None

    def _indices(self, piece: Piece) -> list[int]:
        if not self._shuffle:
            return list(range(piece.first, piece.last))
        if piece.epoch != self._epoch:
            seed = mixed_seed(self._seed)
            self._epoch, self._order = piece.epoch, _native.Permutation(self._size, seed, piece.epoch)
        return self._order.numbers(piece.first, piece.last)

    def description(self) -> str:
        return f"{self._size} samples{', shuffled' if self._shuffle else ''}"

    def begin_epoch(self, epoch: int, place: int) -> None:
        """Nothing is to be done: `expect` says where to go."""

    def end_from(self, first: int, most: int) -> int:
        return min(first + most, self._size)

    def expect(self, pieces: Iterable[Piece]) -> None:
        self._ahead.pieces = iter(pieces)

    def load(self, piece: Piece) -> Any:
        """Batches that were read ahead before ranks changed, and that another rank has now, are dropped. One
        that this rank has again is taken. Then the first ones that are expected may be done already."""
        for batches in (self._batches, None):
            self._batches = iter(self._loader) if batches is None else batches
            while (batch := next(self._batches, self)) is not self:
                if self._ahead.under_way.popleft() == piece:
                    return batch
            # The sampler had ended, as nothing more was expected.
        raise AssertionError(f"{piece} is not expected")

    def forget(self, place: int) -> None:
        """Nothing is kept."""


class StreamedSamples(Samples):
    """Samples that come one after the other. Each rank reads all of them, and keeps those of the step under
    way. They are read with random numbers of their own, the same on all ranks."""

    def __init__(self, data: Iterable[Any], seed: int, collate: Callable[[list[Any]], Any]) -> None:
        self._data = data
        self._seed = seed
        self._collate = collate
        self._stream: Iterator[Any] = iter(())
        self._random = torch.get_rng_state()
        self._kept: collections.deque[Any] = collections.deque()
        self._first = 0  # the place of the first one that is kept

    def description(self) -> str:
        return "a stream"

    def begin_epoch(self, epoch: int, place: int) -> None:
        self._random = torch.Generator().manual_seed(mixed_seed(self._seed, epoch)).get_state()
        with self._own_random():
            self._stream = iter(self._data)
        self._kept.clear()
        self._first = 0
        if self.end_from(0, 1) == 0:
            raise HoraArgumentError(
                f"data gave no samples in epoch {epoch}: a generator can be read only once; give an object "
                "whose __iter__ begins anew each time"
            )
        while self._first < place and self.end_from(self._first, 1) > self._first:
            self.forget(self._first + 1)

    def end_from(self, first: int, most: int) -> int:
        missing = first + most - self._first - len(self._kept)
        if missing > 0:
            with self._own_random():
                self._kept.extend(itertools.islice(self._stream, missing))
        return min(first + most, self._first + len(self._kept))

    @contextlib.contextmanager
    def _own_random(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random)
            yield
            self._random = torch.get_rng_state()

    def expect(self, pieces: Iterable[Piece]) -> None:
        """Nothing is to be done: samples come in one order."""

    def load(self, piece: Piece) -> Any:
        first = piece.first - self._first
        return self._collate(list(itertools.islice(self._kept, first, first + piece.size)))

    def forget(self, place: int) -> None:
        while self._first < place:
            self._kept.popleft()
            self._first += 1


def _is_shuffled(loader: DataLoader[Any]) -> bool:
    """Raises HoraUnsupportedError if the loader takes samples in an order that is not known."""
    sampler = loader.sampler
    if loader.batch_sampler is None or type(loader.batch_sampler) is BatchSampler:
        data_set: Any = loader.dataset
        if type(sampler) is SequentialSampler and sampler.data_source is data_set:
            return False
        whole = type(sampler) is RandomSampler and sampler.num_samples == len(data_set)
        if whole and not sampler.replacement:  # type: ignore[attr-defined]
            return True
        chosen_by = type(sampler).__name__
    else:
        chosen_by = type(loader.batch_sampler).__name__
    raise HoraUnsupportedError(
        f"the DataLoader has a {chosen_by} of its own, and Training itself chooses the samples of each rank: "
        "make the DataLoader with shuffle=True or shuffle=False, and without a sampler"
    )


class _EachThenTogether:
    """The collate function where the loader's own is for single samples."""

    def __init__(self, each: Callable[[Any], Any]) -> None:
        self._each = each

    def __call__(self, samples: list[Any]) -> Any:
        return torch.utils.data.default_collate([self._each(sample) for sample in samples])


def _collate_of(loader: DataLoader[Any]) -> Callable[[list[Any]], Any]:
    return loader.collate_fn if loader.batch_size is not None else _EachThenTogether(loader.collate_fn)


def _identity(sample: Any) -> Any:
    return sample


def samples_of(data: Any, shuffle: bool, seed: int) -> Samples:
    """The samples of what users give as data.

    Raises:
        HoraArgumentError (a ValueError): there are none, or it is nothing to take samples from.
        HoraUnsupportedError: a DataLoader has a sampler of its own.
    """
    loader = data if isinstance(data, DataLoader) else None
    data_set = data if loader is None else loader.dataset
    collate = torch.utils.data.default_collate if loader is None else _collate_of(loader)
    options = {} if loader is None else {name: getattr(loader, name) for name in _COPIED}
    if loader is not None and isinstance(data_set, IterableDataset):
        stream: Any = DataLoader(data_set, batch_size=None, collate_fn=_identity, **options)
        return StreamedSamples(stream, seed, collate)
    if hasattr(data_set, "__getitem__") and hasattr(data_set, "__len__"):
        if len(data_set) == 0:
            raise HoraArgumentError("data has no samples")
        shuffle = shuffle if loader is None else _is_shuffled(loader)
        return IndexedSamples(data_set, shuffle, seed, {**options, "collate_fn": collate})
    if isinstance(data_set, Iterable):
        return StreamedSamples(data_set, seed, collate)
    raise HoraArgumentError(
        f"data must be a data set, a DataLoader, or something to iterate over, not {type(data).__name__}"
    )
