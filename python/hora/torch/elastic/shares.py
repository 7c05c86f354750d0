# SPDX-License-Identifier: Apache-2.0
"""The samples of a step that each rank gets."""

from __future__ import annotations

import operator
from typing import NamedTuple

from hora import _native


class Piece(NamedTuple):
    """Samples that go through the model together: places in the order of an epoch."""

    epoch: int
    first: int
    last: int  #: one more than the last place

    @property
    def size(self) -> int:
        return self.last - self.first


def microbatches(step: Piece, microbatch: int, rank: int, ranks: int) -> list[Piece]:
    """The samples of a step that this rank gets, in pieces of `microbatch` samples. Only the last piece of
    the step may have fewer. The pieces are the same for any number of ranks, and those of a rank are
    neighbours. No rank has two more than another. With more ranks than pieces some ranks get none."""
    places = _native.microbatches((step.first, step.last), microbatch, rank, ranks)
    return [Piece(step.epoch, *each) for each in places]


def share(step: Piece, rank: int, ranks: int) -> Piece:
    """The samples of a step that this rank gets, in one piece. No rank gets two more than another."""
    return Piece(step.epoch, *_native.share((step.first, step.last), rank, ranks))


def mixed_seed(*numbers: int) -> int:
    """A seed of 63 bits that depends on all of these, the same in every process."""
    return _native.mixed_seed([operator.index(number) % 2**64 for number in numbers])
