# SPDX-License-Identifier: Apache-2.0
"""All gradients of a model, which are there: each by itself, or in buckets as DistributedDataParallel makes
them."""

from collections.abc import Callable
from typing import Any

import torch

from .libraries import Library
from .tensors import fill, wrong_in
from .timing import Turn, brought, expected, time_calls


class Reducer:
    """Reduces tensors that become ready one by one, the last first."""

    def __init__(self, library: Library, tensors: list[torch.Tensor]) -> None:
        self.library = library
        self.tensors = tensors
        self._under_way: list[Callable[[], None]] = []

    def ready(self, number: int) -> None:
        self.begin(f"gradient.{number}", self.tensors[number])

    def begin(self, name: str, tensor: torch.Tensor) -> None:
        self._under_way.append(self.library.start(name, tensor))

    def finish(self) -> None:
        for wait in self._under_way:
            wait()
        self._under_way.clear()


class Buckets(Reducer):
    """Copies tensors into buckets and back, or, if they are views of them, does not."""

    def __init__(self, library: Library, tensors: list[torch.Tensor], bucket_bytes: int, views: bool) -> None:
        super().__init__(library, tensors)
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []  # tensor, and its place
        self._bucket_of: dict[int, int] = {}
        self._buckets: list[torch.Tensor] = []
        self._last: dict[int, int] = {}  # bucket: the tensor that completes it
        for members in self._divided(bucket_bytes):
            bucket = torch.zeros(sum(tensors[number].numel() for number in members))
            begin = 0
            for number in members:
                place = bucket[begin : begin + tensors[number].numel()]
                begin += place.numel()
                self._copies.append((tensors[number], place))
                if views:
                    tensors[number] = place
                self._bucket_of[number] = len(self._buckets)
            self._last[len(self._buckets)] = members[-1]
            self._buckets.append(bucket)
        self._place = {
            number: place
            for number, (_, place) in zip(reversed(range(len(tensors))), self._copies, strict=True)
        }
        self._views = views

    def _divided(self, bucket_bytes: int) -> list[list[int]]:
        divided: list[list[int]] = [[]]
        filled = 0
        for number in reversed(range(len(self.tensors))):
            if divided[-1] and filled + self.tensors[number].nbytes > bucket_bytes:
                divided.append([])
                filled = 0
            divided[-1].append(number)
            filled += self.tensors[number].nbytes
        return divided

    def ready(self, number: int) -> None:
        if not self._views:
            self._place[number].copy_(self.tensors[number])
        bucket = self._bucket_of[number]
        if self._last[bucket] == number:
            self.begin(f"bucket.{bucket}", self._buckets[bucket])

    def finish(self) -> None:
        super().finish()
        if not self._views:
            for number, place in self._place.items():
                self.tensors[number].copy_(place)


def reducer(library: Library, counts: list[int], form: str, bucket_mib: float) -> Reducer:
    """form: each, arena, copies or views."""
    tensors = [torch.zeros(count) for count in counts]
    if form == "arena":
        return Reducer(library, library.lists(tensors))
    if form == "each":
        return Reducer(library, tensors)
    return Buckets(library, tensors, round(bucket_mib * (1 << 20)), form == "views")


def reduce_all(reducing: Reducer) -> None:
    for number in reversed(range(len(reducing.tensors))):
        reducing.ready(number)
    reducing.finish()


def turn_of(library: Library, reducing: Reducer, call: Callable[[], None]) -> Turn:
    def prepare(iteration: int) -> None:
        for tensor in reducing.tensors:
            fill(tensor, brought(library.rank, iteration))

    def wrong(iteration: int) -> int:
        return sum(wrong_in(tensor, expected(library.size, iteration)) for tensor in reducing.tensors)

    return Turn(prepare, call, wrong)


def work(
    library: Library,
    case: str,
    counts: list[int],
    iterations: int,
    form: str = "each",
    bucket_mib: float = 25.0,
) -> dict[str, Any]:
    reducing = reducer(library, counts, form, bucket_mib)
    return {case: time_calls(library, turn_of(library, reducing, lambda: reduce_all(reducing)), iterations)}
