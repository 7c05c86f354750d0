# SPDX-License-Identifier: Apache-2.0
"""The samples of a step that each rank gets."""

from __future__ import annotations

import itertools
from typing import NamedTuple


class Piece(NamedTuple):
    """Samples that go through the model together: places in the order of an epoch."""

    epoch: int
    first: int
    last: int  #: one more than the last place

    @property
    def size(self) -> int:
        return self.last - self.first


def _cut(first: int, last: int, parts: int) -> list[tuple[int, int]]:
    """Parts in order, of which none has two samples more than another. The first one has the most."""
    size = last - first
    ends = [last - size * (parts - each) // parts for each in range(parts + 1)]
    return list(itertools.pairwise(ends))


def microbatches(step: Piece, microbatch: int, rank: int, ranks: int) -> list[Piece]:
    """The samples of a step that this rank gets, in pieces of `microbatch` samples. Only the last piece of
    the step may have fewer. The pieces are the same for any number of ranks, and those of a rank are
    neighbours. No rank has two more than another. With more ranks than pieces the last ranks get none."""
    pieces = -(-step.size // microbatch)
    begin, end = _cut(0, pieces, ranks)[rank]
    return [
        Piece(step.epoch, first, min(first + microbatch, step.last))
        for first in range(step.first + begin * microbatch, step.first + end * microbatch, microbatch)
    ]


def share(step: Piece, rank: int, ranks: int) -> Piece:
    """The samples of a step that this rank gets, in one piece. No rank gets two more than another."""
    return Piece(step.epoch, *_cut(step.first, step.last, ranks)[rank])
