# SPDX-License-Identifier: Apache-2.0
"""The reductions. The first six have Horovod's numbers. Note that Average is 0, and so is false.

BitAnd, BitOr and BitXor take integers and bool. LogicalAnd and LogicalOr take integers, floats and bool: an
element that is not zero is true, and the result is 0 or 1. None of these has factors."""

from __future__ import annotations

import warnings

from hora import _native
from hora._errors import HoraArgumentError, HoraUnsupportedError

Average = 0
Sum = 1
Adasum = 2
Min = 3
Max = 4
Product = 5
BitAnd = 6
BitOr = 7
BitXor = 8
LogicalAnd = 9
LogicalOr = 10

_NATIVE = {
    Average: _native.ReduceOp.average,
    Sum: _native.ReduceOp.sum,
    Adasum: _native.ReduceOp.adasum,
    Min: _native.ReduceOp.min,
    Max: _native.ReduceOp.max,
    Product: _native.ReduceOp.product,
    BitAnd: _native.ReduceOp.bit_and,
    BitOr: _native.ReduceOp.bit_or,
    BitXor: _native.ReduceOp.bit_xor,
    LogicalAnd: _native.ReduceOp.logical_and,
    LogicalOr: _native.ReduceOp.logical_or,
}


def chosen(average: bool | None, op: int | None) -> int:
    """The reduction that `average=` (deprecated) and `op=` mean together: Average if neither is given."""
    if average is not None:
        if op is not None:
            raise HoraArgumentError("give either op= or average=, not both; average= is deprecated")
        if not isinstance(average, bool):
            raise HoraArgumentError(
                f"average={average!r} is neither True nor False; the second argument is average=, write "
                "op=... or name=..."
            )
        warnings.warn(
            "average= is deprecated; use op=hvd.Average or op=hvd.Sum", DeprecationWarning, stacklevel=3
        )
        return Average if average else Sum
    return Average if op is None else checked(op)


def checked(op: int) -> int:
    """The reduction. Raises HoraArgumentError if it is none."""
    if not isinstance(op, int) or op not in _NATIVE:
        raise HoraArgumentError(
            f"op={op!r} is no reduction: use Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor, "
            "LogicalAnd or LogicalOr"
        )
    return op


def native(op: int) -> _native.ReduceOp:
    """The reduction as the native module names it."""
    return _NATIVE[op]


def check_scattered(op: int, name: str) -> None:
    """Raises HoraUnsupportedError for a reduction that reducescatter lacks."""
    if checked(op) == Adasum:
        raise HoraUnsupportedError(
            f"'{name}': reducescatter does not take op=Adasum; use allreduce, and take this rank's rows of "
            "the result"
        )
