# SPDX-License-Identifier: Apache-2.0
"""Pickles of functions and of what belongs to them, also of those that only this process knows, by
cloudpickle."""

from __future__ import annotations

import collections
import io
import types
from collections.abc import Callable
from typing import Any

import cloudpickle

_Made = tuple[Callable[..., types.CodeType], tuple[Any, ...]]  # a function that makes code, and its arguments

_made_from: Callable[[types.CodeType], _Made] = cloudpickle.CloudPickler.dispatch_table[types.CodeType]


def _code(make: Callable[..., types.CodeType], arguments: tuple[Any, ...], file: str) -> types.CodeType:
    return make(*arguments).replace(co_filename=file)


def _code_with_file(code: types.CodeType) -> tuple[Any, ...]:
    return _code, (*_made_from(code), code.co_filename)


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]  # cloudpickle has no types
    """Code keeps the name of its file, so that tracebacks show its lines. cloudpickle 3.1.3 leaves it out."""

    dispatch_table = collections.ChainMap(
        {types.CodeType: _code_with_file}, cloudpickle.CloudPickler.dispatch_table
    )


def dumps(obj: object) -> bytes:
    """For pickle.loads of a process that has this Hora. Raises whatever the object raises, and TypeError or
    PicklingError."""
    pickle = io.BytesIO()
    _Pickler(pickle).dump(obj)
    return pickle.getvalue()
