# SPDX-License-Identifier: Apache-2.0
"""The names of operations."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from hora import _job
from hora._errors import HoraUnavailableError
from hora.process_sets import ProcessSet, number_of


def label(operation: str, name: str | None) -> str:
    """The name, in messages, of an operation that has no number yet."""
    return operation if name is None else f"{operation}.{name}"


def unique(names: Iterable[str]) -> list[str]:
    """The names. Where several are alike, the later ones get a number."""
    seen: collections.Counter[str] = collections.Counter()
    result = []
    for name in names:
        result.append(f"{name}#{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return result


def names_of(variables: Iterable[Any]) -> list[str]:
    """A name for each variable of Keras or TensorFlow, by which users know it."""
    return unique(getattr(each, "path", None) or getattr(each, "name", None) or "" for each in variables)


class Naming:
    """An operation that is about to be submitted: `with Naming("allreduce", name, process_set) as named:`.

    If its arguments turn out to be wrong, an operation without a name gives its number back. So ranks of
    which only some made the mistake are still in step, and the job goes on.
    """

    __slots__ = ("_ranks", "full", "operation", "process_set", "unnamed")

    def __init__(self, operation: str, name: str | None, process_set: ProcessSet) -> None:
        self.operation = operation
        self.unnamed = name is None
        self._ranks = process_set
        self.process_set = number_of(process_set, label(operation, name))
        self.full = _job.name_or_number(operation, name, self.process_set)

    @property
    def size(self) -> int:
        """How many ranks take part."""
        return self._ranks.size() or 1

    @property
    def rank(self) -> int:
        """This rank's number among them."""
        return self._ranks.rank() or 0

    def __enter__(self) -> Naming:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.unnamed and isinstance(value, (ValueError, TypeError, HoraUnavailableError)):
            _job.return_number(self.operation, self.process_set, self.full)
