# SPDX-License-Identifier: Apache-2.0
"""Operations on NumPy arrays, on whatever NumPy can look at without a copy (DLPack, the buffer protocol), and
on arrays on a GPU that speak DLPack. Of such the results are `DeviceArray`s on the same GPU, in place of new
NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from hora import _job, _operations, ops
from hora._arguments import documents
from hora._job import Handle
from hora._loans import Array, lend
from hora._naming import Naming
from hora._reduction import Reduction
from hora._submission import start
from hora.compression import Compression, Compressor
from hora.process_sets import ProcessSet, global_process_set

documented = documents(compression="one of Compression: how floats travel.")


def allreduce_async(
    array: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `allreduce`; the handle is for `poll` and `synchronize`."""
    how = Reduction(ops.chosen(None, op), prescale_factor, postscale_factor, process_set, compression)
    with Naming("allreduce", name, process_set) as named:
        return start(_operations.allreduce(lend(array, named.full), named, how))


@documented
def allreduce(
    array: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The array reduced over all ranks: postscale_factor * op(prescale_factor * array of every rank).

    Args:
        array: any shape, the same on all ranks; dtype an integer of 8 to 64 bits, float16, bfloat16, float32,
            float64, complex64, complex128 or bool; on the CPU or a GPU.
        op: Average (default), Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor, LogicalAnd or LogicalOr.
            16-bit floats are summed in float32; averages of integers are exact and then truncated toward
            zero, so 1 and 2 give 1; bool has no average; Adasum is for floating-point elements; complex
            numbers have Average and Sum. The bitwise ones are for integers and bool; they and the logical
            ones, whose result is 0 or 1, take no factors.

    Returns:
        A new array of the same shape and dtype, the same bits on every rank.

    Raises:
        HoraArgumentError: the array cannot be sent, its name is under way already, or this rank is no member
            of the set.
        HoraInternalError: the ranks disagree about shape, dtype or op; the text is the same on all.
    """
    return _job.run(
        allreduce_async, array, name, op, prescale_factor, postscale_factor, compression, process_set
    )


def broadcast_async(
    array: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts `broadcast`; the handle is for `poll` and `synchronize`."""
    with Naming("broadcast", name, process_set) as named:
        return start(_operations.broadcast(lend(array, named.full), named, root_rank))


@documented
def broadcast(
    array: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The array of the root: a new array on every rank of the set.

    Args:
        array: any shape, the same on all ranks; dtypes as for `allreduce`, and the floats of 8 bits of
            ml_dtypes; on the CPU or a GPU.

    Raises:
        HoraArgumentError: the array cannot be sent, there is no such rank, or this one is no member of the
            set.
        HoraInternalError: the ranks disagree about shape, dtype or root.
    """
    return _job.run(broadcast_async, array, root_rank, name, process_set)


def allgather_async(
    array: Any, name: str | None = None, process_set: ProcessSet = global_process_set, out: Any = None
) -> Handle:
    """Starts `allgather`; the handle is for `poll` and `synchronize`."""
    with Naming("allgather", name, process_set) as named:
        submitted = _operations.allgather(lend(array, named.full), named, out=out)
        return start(submitted.then(lambda result: result[0]))


def gather_parts(array: Array, name: str, process_set: ProcessSet) -> list[Array]:
    """The arrays of all ranks, in rank order."""
    with Naming("allgather", name, process_set) as named:
        handle = start(_operations.allgather(lend(array, named.full), named))
    whole, rows = _job.synchronize(handle)
    parts: list[Array] = np.split(whole, np.cumsum(rows)[:-1])
    return parts


@documented
def allgather(
    array: Any, name: str | None = None, process_set: ProcessSet = global_process_set, out: Any = None
) -> Any:
    """The arrays of all ranks of the set, one after the other along the first dimension, in rank order.

    Args:
        array: at least 1-dimensional; dtypes as for `broadcast`; on the CPU or a GPU. The first dimension may
            differ from rank to rank (0 rows, too); the others and the dtype may not.

    Raises:
        HoraArgumentError: the array cannot be sent, or is a scalar, or this rank is no member of the set; or
            `out` cannot take the result as it is.
        HoraInternalError: the ranks disagree about dtype or the other dimensions; or, on this rank alone, all
            ranks bring another number of rows than `out` has.
    """
    return _job.run(allgather_async, array, name, process_set, out)


def alltoall_async(
    array: Any,
    splits: Sequence[int] | Array | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: Any = None,
) -> Handle:
    """Starts `alltoall`; the handle is for `poll` and `synchronize`, which returns (output, received
    splits)."""
    with Naming("alltoall", name, process_set) as named:
        submitted = _operations.alltoall(lend(array, named.full), named, splits, out=out)
        return start(submitted.then(lambda result: (result[0], np.array(result[1], np.int32))))


@overload
def alltoall(
    array: Any,
    splits: None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: Any = None,
) -> Any: ...


@overload
def alltoall(
    array: Any,
    splits: Sequence[int] | Array,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: Any = None,
) -> tuple[Any, Array]: ...


@documented
def alltoall(
    array: Any,
    splits: Sequence[int] | Array | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: Any = None,
) -> Any:
    """Sends rows to each rank of the set, and receives rows from each: in rank order, both.

    Args:
        array: at least 1-dimensional; the dtype and all dimensions but the first are the same on all ranks;
            dtypes as for `broadcast`; on the CPU or a GPU.
        splits: how many rows go to each rank of the set. Equal parts without it. Rows beyond their sum are
            not sent.

    Returns:
        The received rows; with `splits` also how many came from each rank (int32), as a pair.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, or cannot be divided in that way; or this
            rank is no member of the set; or `out` cannot take the result as it is.
        HoraInternalError: the ranks disagree about dtype or the other dimensions, or one has joined; or, on
            this rank alone, the others send another number of rows than `out` has.
    """
    output, received = _job.run(alltoall_async, array, splits, name, process_set, out)
    return output if splits is None else (output, received)


def reducescatter_async(
    array: Any,
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    out: Any = None,
) -> Handle:
    """Starts `reducescatter`; the handle is for `poll` and `synchronize`."""
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    with Naming("reducescatter", name, process_set) as named:
        return start(_operations.reducescatter(lend(array, named.full), named, how, out=out))


@documented
def reducescatter(
    array: Any,
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    out: Any = None,
) -> Any:
    """This rank's rows of the reduced array. Of r rows each of the n ranks of the set gets r // n, the first
    r % n ranks one more.

    Args:
        array: at least 1-dimensional; shape and dtype are the same on all ranks; dtypes as for `allreduce`;
            on the CPU or a GPU.
        op: Average (default), or any but Adasum, as for `allreduce`.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, or this rank is no member of the set; or
            `out` cannot take the result as it is.
        HoraUnsupportedError (also a HoraInternalError): op is Adasum.
        HoraInternalError: the ranks disagree about shape, dtype or op, or one has joined.
    """
    return _job.run(
        reducescatter_async, array, name, op, process_set, prescale_factor, postscale_factor, compression, out
    )
