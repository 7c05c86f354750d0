# SPDX-License-Identifier: Apache-2.0
"""Operations on several arrays at once, of the kinds that `hora._arrays` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hora import _job, _operations, ops
from hora._arrays import documented
from hora._job import Handle
from hora._loans import lend
from hora._naming import Naming
from hora._reduction import Reduction
from hora._submission import start_group, start_members
from hora.compression import Compression, Compressor
from hora.process_sets import ProcessSet, global_process_set


def grouped_allreduce_async(
    arrays: Sequence[Any],
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `grouped_allreduce`; the handle is for `poll` and `synchronize`, which returns a tuple."""
    how = Reduction(ops.chosen(None, op), prescale_factor, postscale_factor, process_set, compression)
    with Naming("grouped_allreduce", name, process_set) as named:
        return start_members(
            arrays,
            named,
            lambda array, suffix: _operations.allreduce(lend(array, named.full + suffix), named, how, suffix),
        )


@documented
def grouped_allreduce(
    arrays: Sequence[Any],
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """`allreduce` of several arrays at once: all are reduced together, or, if the ranks disagree about one,
    none.

    Args:
        arrays: one array or more, of any shapes and dtypes, as many on all ranks.
        op: as for `allreduce`.

    Returns:
        A list of new arrays.

    Raises:
        HoraShapeError: there are no arrays.
        HoraArgumentError, HoraInternalError: as `allreduce`.
    """
    return list(
        _job.run(
            grouped_allreduce_async,
            arrays,
            name,
            op,
            prescale_factor,
            postscale_factor,
            compression,
            process_set,
        )
    )


def start_broadcasts(
    arrays: Mapping[str, Any], operation: str, name: str | None, root_rank: int, process_set: ProcessSet
) -> Handle:
    """Starts `broadcast` of several arrays, all or none. Their keys are the ends of their names."""
    with Naming(operation, name, process_set) as named:
        return start_group(
            [
                _operations.broadcast(lend(array, f"{named.full}.{key}"), named, root_rank, f".{key}")
                for key, array in arrays.items()
            ]
        )


def grouped_allgather_async(
    arrays: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts `grouped_allgather`; the handle is for `poll` and `synchronize`, which returns a tuple."""
    with Naming("grouped_allgather", name, process_set) as named:
        return start_members(
            arrays,
            named,
            lambda array, suffix: _operations.allgather(lend(array, named.full + suffix), named, suffix).then(
                lambda result: result[0]
            ),
        )


@documented
def grouped_allgather(
    arrays: Sequence[Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> tuple[Any, ...]:
    """`allgather` of several arrays at once: all are gathered, or, if the ranks disagree about one, none.

    Args:
        arrays: one array or more, as many on all ranks; each as for `allgather`, so at least 1-dimensional.

    Returns:
        A tuple of new arrays.

    Raises:
        HoraShapeError: there are no arrays, or one is a scalar.
        HoraArgumentError, HoraInternalError: as `allgather`.
    """
    gathered: tuple[Any, ...] = _job.run(grouped_allgather_async, arrays, name, process_set)
    return gathered


def grouped_reducescatter_async(
    arrays: Sequence[Any],
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `grouped_reducescatter`; the handle is for `poll` and `synchronize`, which returns a tuple."""
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    with Naming("grouped_reducescatter", name, process_set) as named:
        return start_members(
            arrays,
            named,
            lambda array, suffix: _operations.reducescatter(
                lend(array, named.full + suffix), named, how, suffix
            ),
        )


@documented
def grouped_reducescatter(
    arrays: Sequence[Any],
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> list[Any]:
    """`reducescatter` of several arrays at once: all are reduced together, or, if the ranks disagree about
    one, none.

    Args:
        arrays: one array or more, as many on all ranks; each as for `reducescatter`, at least 1-dimensional.
        op: as for `reducescatter`.

    Returns:
        A list of new arrays.

    Raises:
        HoraShapeError: there are no arrays, or one is a scalar.
        HoraUnsupportedError, HoraArgumentError, HoraInternalError: as `reducescatter`.
    """
    return list(
        _job.run(
            grouped_reducescatter_async,
            arrays,
            name,
            op,
            process_set,
            prescale_factor,
            postscale_factor,
            compression,
        )
    )
