# SPDX-License-Identifier: Apache-2.0
"""How rows (what lies along the first dimension) are divided among the ranks of a process set."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from hora._errors import HoraArgumentError, HoraShapeError


def check_rows(shape: Sequence[int], name: str) -> None:
    """Raises HoraShapeError for a scalar, which has no rows."""
    if len(shape) == 0:
        raise HoraShapeError(
            f"'{name}': a scalar (a rank-zero tensor) has no first dimension; use .reshape(1)"
        )


def check_given(array: Any, name: str, nothing: str) -> None:
    """Raises HoraArgumentError for None in place of what a rank passes to scatter. `nothing`: an example of
    what will do."""
    if array is None:
        raise HoraArgumentError(
            f"'{name}': None has no dtype and shape; ranks other than the root pass the root's without rows, "
            f"such as {nothing}. scatter_object takes None"
        )


def refuse_output(name: str, why: str) -> NoReturn:
    """Raises HoraArgumentError about an argument `out`."""
    raise HoraArgumentError(f"'{name}': out {why}; give a contiguous one that fits, or leave it out")


def check_output(
    shape: Sequence[int], dtype: Any, rows: int | None, row: Sequence[int], expected: Any, name: str
) -> None:
    """Raises HoraArgumentError for an argument `out` of this shape and dtype that cannot take a result of the
    dtype `expected` and so many rows (None: any number) of the shape `row`."""
    if dtype != expected:
        refuse_output(name, f"has elements of type {dtype}, and the result has {expected}")
    if len(shape) == 0 or tuple(shape[1:]) != tuple(row) or (rows is not None and shape[0] != rows):
        extents = ", ".join(["any" if rows is None else str(rows), *map(str, row)])
        expected_shape = f"({extents})" if row else f"({extents},)"
        refuse_output(name, f"has the shape {tuple(shape)}, and the result has {expected_shape}")


def share(rows: int, rank: int, size: int) -> int:
    """How many of `rows` rows a rank of the set gets by reducescatter: the first `rows % size` ranks get one
    more."""
    return rows // size + (rank < rows % size)


def checked_splits(splits: Any, rows: int, size: int, name: str) -> list[int]:
    """How many rows alltoall sends to each rank of the set. Equal parts if `splits` is None. Raises
    HoraArgumentError."""
    if splits is None:
        if rows % size != 0:
            raise HoraArgumentError(
                f"'{name}': {rows} rows cannot be divided evenly among {size} ranks; give splits= with the "
                "number of rows for each of them"
            )
        return [rows // size] * size
    try:
        counts = [operator.index(count) for count in splits] if isinstance(splits, Iterable) else None
    except TypeError:
        counts = None
    if counts is None:
        raise HoraArgumentError(
            f"'{name}': splits must be a sequence of {size} numbers of rows, or a 1-dimensional tensor of "
            f"32-bit integer elements, not {splits!r}"
        )
    if len(counts) != size:
        raise HoraArgumentError(
            f"'{name}': splits has {len(counts)} numbers of rows, but the process set has {size} ranks"
        )
    if min(counts) < 0:
        raise HoraArgumentError(f"'{name}': splits={counts} has a negative number of rows")
    if sum(counts) > rows:
        raise HoraArgumentError(
            f"'{name}': splits={counts} are {sum(counts)} rows in sum, but the tensor has {rows}"
        )
    return counts
