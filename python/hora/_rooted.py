# SPDX-License-Identifier: Apache-2.0
"""The operations that MPI has and Horovod has not, for arrays: gather, scatter, reduce, scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hora import _job, _operations, ops
from hora._arrays import documented
from hora._job import Handle
from hora._loans import Array, lend
from hora._naming import Naming
from hora._reduction import Reduction
from hora._rows import check_given
from hora._submission import start
from hora.compression import Compression, Compressor
from hora.process_sets import ProcessSet, global_process_set


def gather_async(
    array: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts `gather`; the handle is for `poll` and `synchronize`."""
    with Naming("gather", name, process_set) as named:
        return start(_operations.gather(lend(array, named.full), named, root_rank))


@documented
def gather(
    array: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The arrays of all ranks of the set, one after the other along the first dimension, in rank order, on
    the root; None on the others. As MPI_Gatherv.

    Args:
        array: at least 1-dimensional; dtypes as for `broadcast`; on the CPU or a GPU. The first dimension may
            differ from rank to rank (0 rows, too); the others and the dtype may not.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, there is no such rank, or this one is no
            member of the set.
        HoraInternalError: the ranks disagree about dtype, root or the other dimensions, or one has joined.
    """
    return _job.run(gather_async, array, root_rank, name, process_set)


def scatter_async(
    array: Any,
    root_rank: int,
    splits: Sequence[int] | Array | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `scatter`; the handle is for `poll` and `synchronize`."""
    with Naming("scatter", name, process_set) as named:
        check_given(array, named.full, "np.empty((0, 5), np.float32)")
        return start(_operations.scatter(lend(array, named.full), named, root_rank, splits))


@documented
def scatter(
    array: Any,
    root_rank: int,
    splits: Sequence[int] | Array | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """This rank's rows of the array that the root passes. As MPI_Scatterv.

    Args:
        array: at least 1-dimensional. Of what the other ranks pass only the dtype and all dimensions but the
            first count, which must be the root's: `np.empty((0, 5), np.float32)` will do, None will not (but
            for `scatter_object`).
        splits: on the root, how many rows go to each rank of the set; rows beyond their sum are not sent.
            Without it, of r rows each of the n ranks gets r // n, the first r % n ranks one more.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, or cannot be divided in that way; there is
            no such rank, or this one is no member of the set.
        HoraInternalError: the ranks disagree about dtype, root or the other dimensions, or one has joined.
    """
    return _job.run(scatter_async, array, root_rank, splits, name, process_set)


def reduce_async(
    array: Any,
    root_rank: int,
    op: int = ops.Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `reduce`; the handle is for `poll` and `synchronize`."""
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    with Naming("reduce", name, process_set) as named:
        return start(_operations.reduce(lend(array, named.full), named, root_rank, how))


@documented
def reduce(
    array: Any,
    root_rank: int,
    op: int = ops.Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """The array reduced over all ranks, as by `allreduce`, on the root; None on the others. As MPI_Reduce.

    Args:
        array: any shape, the same on all ranks; dtypes as for `allreduce`; on the CPU or a GPU.
        op: Average (default), or any but Adasum, as for `allreduce`.

    Raises:
        HoraArgumentError: the array cannot be sent, there is no such rank or op, or this rank is no member of
            the set.
        HoraInternalError: the ranks disagree about shape, dtype, root or op, or one has joined.
    """
    return _job.run(
        reduce_async, array, root_rank, op, name, process_set, prescale_factor, postscale_factor, compression
    )


def scan_async(
    array: Any, op: int = ops.Sum, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts `scan`; the handle is for `poll` and `synchronize`."""
    with Naming("scan", name, process_set) as named:
        return start(_operations.scan(lend(array, named.full), named, op))


@documented
def scan(
    array: Any, op: int = ops.Sum, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The array reduced over this rank and those before it in the process set: a new array. As MPI_Scan.

    Args:
        array: any shape, the same on all ranks; dtypes as for `allreduce`; on the CPU or a GPU.
        op: Sum (default), or any but Average and Adasum, as for `allreduce`. 16-bit floats are summed in
            float32 and rounded once.

    Raises:
        HoraArgumentError: the array cannot be sent, there is no such op, or this rank is no member of the
            set.
        HoraInternalError: the ranks disagree about shape, dtype or op, or one has joined.
    """
    return _job.run(scan_async, array, op, name, process_set)
