# SPDX-License-Identifier: Apache-2.0
"""The order in which an epoch takes the samples of a data set."""

from __future__ import annotations

import math
import random

import numpy
import numpy.typing

_ROUNDS = 8
_FIRST = numpy.uint64(0xBF58476D1CE4E5B9)  # odd, with as many zeros as ones in no order
_SECOND = numpy.uint64(0x94D049BB133111EB)

_Numbers = numpy.typing.NDArray[numpy.uint64]


def _mixed(values: _Numbers, key: numpy.uint64) -> _Numbers:
    """Numbers in which each bit depends on all bits of a value and of the key. Products wrap around."""
    mixed = (values + key) * _FIRST
    mixed = (mixed ^ (mixed >> numpy.uint64(29))) * _SECOND
    return mixed ^ (mixed >> numpy.uint64(32))


class Permutation:
    """A random order of the numbers from 0 to size - 1, the same for the same seed and epoch. Any part of it
    is computed without the rest. It takes no memory, however many numbers there are.

    It is a Feistel network. A number is a place in a table of `rows` * `columns` >= size. Each round adds to
    one coordinate a function of the other, so the table's places change one to one. A place beyond `size` is
    mapped again until it is not beyond; so this is one to one, too.
    """

    def __init__(self, size: int, seed: int, epoch: int) -> None:
        self._size = numpy.uint64(size)
        rows = max(math.isqrt(size), 1)
        self._rows = numpy.uint64(rows)
        self._columns = numpy.uint64(-(-size // rows))
        keys = random.Random(f"{seed} {epoch}")  # a text gives the same keys in every process
        self._keys = [numpy.uint64(keys.getrandbits(64)) for _ in range(_ROUNDS)]

    def numbers(self, first: int, last: int) -> list[int]:
        """The numbers at the places from `first` to `last` - 1."""
        numbers = self._mapped(numpy.arange(first, last, dtype=numpy.uint64))
        while (beyond := numbers >= self._size).any():
            numbers[beyond] = self._mapped(numbers[beyond])
        return [int(each) for each in numbers]

    def _mapped(self, places: _Numbers) -> _Numbers:
        row, column = places // self._columns, places % self._columns
        for number, key in enumerate(self._keys):
            if number % 2 == 0:
                row = (row + _mixed(column, key) % self._rows) % self._rows
            else:
                column = (column + _mixed(row, key) % self._columns) % self._columns
        return row * self._columns + column
