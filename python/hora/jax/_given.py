# SPDX-License-Identifier: Apache-2.0
"""The arguments that operations of JAX have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from hora import _arrays
from hora._arguments import checked_number
from hora._errors import HoraArgumentError, HoraShapeError, HoraUnsupportedError
from hora._job import size
from hora._naming import label
from hora._rows import share
from hora.jax import _primitive
from hora.jax._call import DTYPES, Call
from hora.process_sets import ProcessSet, number_of


class Given:
    """The arguments of an operation: a tree of arrays, a name, and the ranks that take part."""

    def __init__(self, kind: str, tree: Any, name: str | None, process_set: ProcessSet) -> None:
        self.what = label(kind, name)
        size()  # raises HoraNotInitializedError
        self._unnamed = name is None
        self._process_set = process_set
        self._number = number_of(process_set, self.what)
        self.size = process_set.size() or 1
        self.rank = process_set.rank() or 0
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(tree)
        self._names = tuple(self._name_of(path) for path, _ in leaves)
        for each in self._names:
            if "\n" in each:
                raise HoraArgumentError(f"{each!r}: a name has no line breaks")
        self._arrays = [
            _checked_array(leaf, name) for (_, leaf), name in zip(leaves, self._names, strict=True)
        ]

    def _name_of(self, path: Any) -> str:
        within = jax.tree_util.keystr(path, simple=True, separator=".")
        return f"{self.what}.{within}" if within else self.what

    def names(self) -> dict[str, Any]:
        """The attributes of a Call that say which arrays and which ranks it is about."""
        return {"names": self._names, "unnamed": self._unnamed, "process_set": self._number}

    def together(self, call: Call) -> Any:
        """The tree of the results of one custom call for all arrays."""
        results = _primitive.call(self._arrays, call) if self._arrays else []
        return jax.tree_util.tree_unflatten(self._structure, results)

    def each(self, described: Callable[[jax.Array, str], Call]) -> Any:
        """The tree of the results of a custom call for each array, as `described` says."""
        calls = [described(array, name) for array, name in zip(self._arrays, self._names, strict=True)]
        results: list[jax.Array] = []
        for array, call in zip(self._arrays, calls, strict=True):
            own = {**self.names(), "names": (self._names[len(results)],), "ranks": size()}
            results += _primitive.call([array], dataclasses.replace(call, **own))
        return jax.tree_util.tree_unflatten(self._structure, results)

    def even(self, rows: int) -> tuple[int, ...]:
        """How many of the rows each rank gets if they are shared evenly."""
        return tuple(share(rows, rank, self.size) for rank in range(self.size))

    def parts(self, parts: Sequence[int] | None, argument: str, what: str) -> tuple[int, ...] | None:
        """Rows for each rank, as the caller gives them; None: the caller gives none."""
        if parts is None:
            return None
        checked = tuple(checked_number(part, what, argument, "numbers of rows") for part in parts)
        if len(checked) != self.size or min(checked) < 0:
            raise HoraArgumentError(
                f"'{what}': {argument}={list(checked)} must have the rows of each of the {self.size} ranks"
            )
        return checked

    def told_by_all(self, rows: int) -> tuple[int, ...]:
        """The number that each rank gives here."""
        told = _arrays.allgather(np.array([rows]), name=f"{self.what}.rows", process_set=self._process_set)
        return tuple(told.tolist())

    def exchanged(self, splits: tuple[int, ...]) -> tuple[int, ...]:
        """How many rows come from each rank, of how many go to each."""
        told = _arrays.alltoall(np.array(splits), name=f"{self.what}.splits", process_set=self._process_set)
        return tuple(told.tolist())


def _checked_array(leaf: Any, what: str) -> jax.Array:
    """A leaf of a tree as an array.

    Raises:
        HoraArgumentError: it is none.
        HoraUnsupportedError: Hora has no such dtype.
    """
    try:
        array = leaf if isinstance(leaf, jax.Array) else jax.numpy.asarray(leaf)
    except (TypeError, ValueError):
        raise HoraArgumentError(
            f"'{what}': an array or a number is needed, not {type(leaf).__name__}: {leaf!r:.60}"
        ) from None
    if array.dtype.name not in DTYPES:
        hint = "; jax.random.key_data() gives its numbers" if array.dtype.name.startswith("key") else ""
        raise HoraUnsupportedError(f"'{what}': Hora has no dtype {array.dtype.name}{hint}")
    return array


def is_traced(array: jax.Array) -> bool:
    """Whether it is part of a program that is not running."""
    return isinstance(array, jax.core.Tracer)


def first_dimension(array: jax.Array, what: str) -> int:
    """How many rows it has. Raises HoraShapeError for a scalar."""
    if array.ndim == 0:
        raise HoraShapeError(f"'{what}': a scalar has no rows; reshape it to (1,)")
    return int(array.shape[0])
