# SPDX-License-Identifier: Apache-2.0
"""Operations on NumPy arrays, on whatever NumPy can look at without a copy (DLPack, the buffer protocol), and
on arrays on a GPU that speak DLPack. Of such the results are `DeviceArray`s on the same GPU, in place of new
NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from hora import _job, _native, ops
from hora._loans import Array, entry, lend, start
from hora._naming import Naming
from hora._rows import check_rows, checked_splits, share
from hora.compression import Compression, Compressor, wire_of
from hora.process_sets import ProcessSet, global_process_set


def allreduce_async(
    array: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `allreduce`; the handle is for `poll` and `synchronize`."""
    with Naming("allreduce", name, process_set) as named:
        loan = lend(array, named.full)
        output = loan.empty_like()
        submitted = entry(
            _native.Operation.allreduce,
            named,
            loan,
            output,
            **ops.arguments(ops.chosen(None, op), prescale_factor, postscale_factor, wire_of(compression)),
        )
        return start(submitted, lambda outcome: output, loan, output)


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
        array: any shape, the same on all ranks; dtype uint8, int8, int16, int32, int64, float16, bfloat16,
            float32, float64 or bool; on the CPU or a GPU.
        name: the same on all ranks; without one, operations are matched by the order in which ranks issue
            them.
        op: Average (default), Sum, Adasum, Min, Max or Product. 16-bit floats are summed in float32; averages
            of integers are exact and then truncated toward zero, so 1 and 2 give 1; bool has no average;
            Adasum is for floating-point elements.
        compression: Compression.none, fp16 or bf16: what float32 and float64 elements look like on the wire.
        process_set: whose members take part.

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
) -> int:
    """Starts `broadcast`; the handle is for `poll` and `synchronize`."""
    with Naming("broadcast", name, process_set) as named:
        loan = lend(array, named.full)
        output = loan.empty_like()
        root = _job.checked_root(root_rank, named.full)
        return start(
            entry(_native.Operation.broadcast, named, loan, output, root=root),
            lambda outcome: output,
            loan,
            output,
        )


def broadcast(
    array: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The array of rank `root_rank` (its number in the job, also within a process set): a new array on every
    rank of the set. Shape and dtype must be the same on all.

    Raises:
        HoraArgumentError: the array cannot be sent, there is no such rank, or this one is no member of the
            set.
        HoraInternalError: the ranks disagree about shape, dtype or root.
    """
    return _job.run(broadcast_async, array, root_rank, name, process_set)


def _start_allgather(array: Any, named: Naming, finish: Callable[[Any, list[int]], Any]) -> int:
    """`finish` gets the gathered array and the rows of each rank."""
    loan = lend(array, named.full)
    check_rows(loan.shape, named.full)
    return start(
        entry(_native.Operation.allgather, named, loan),
        lambda outcome: finish(loan.received(outcome), outcome.rows),
        loan,
    )


def allgather_async(array: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts `allgather`; the handle is for `poll` and `synchronize`."""
    with Naming("allgather", name, process_set) as named:
        return _start_allgather(array, named, lambda whole, rows: whole)


def gather_parts(array: Array, name: str, process_set: ProcessSet) -> list[Array]:
    """The arrays of all ranks, in rank order."""
    with Naming("allgather", name, process_set) as named:
        handle = _start_allgather(array, named, lambda whole, rows: np.split(whole, np.cumsum(rows)[:-1]))
    parts: list[Array] = _job.synchronize(handle)
    return parts


def allgather(array: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """The arrays of all ranks of the set, one after the other along the first dimension, in rank order. The
    first dimension may differ from rank to rank (0 rows, too); the others and the dtype may not.

    Raises:
        HoraArgumentError: the array cannot be sent, or is a scalar, or this rank is no member of the set.
        HoraInternalError: the ranks disagree about dtype or the other dimensions.
    """
    return _job.run(allgather_async, array, name, process_set)


def alltoall_async(
    array: Any,
    splits: Sequence[int] | Array | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts `alltoall`; the handle is for `poll` and `synchronize`, which returns (output, received
    splits)."""
    with Naming("alltoall", name, process_set) as named:
        loan = lend(array, named.full)
        check_rows(loan.shape, named.full)
        counts = checked_splits(splits, loan.shape[0], process_set.size() or 1, named.full)
        sent = loan.first(sum(counts))
        submitted = entry(_native.Operation.alltoall, named, sent, splits=counts)
        return start(
            submitted, lambda outcome: (sent.received(outcome), np.array(outcome.rows, np.int32)), sent
        )


@overload
def alltoall(
    array: Any, splits: None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any: ...


@overload
def alltoall(
    array: Any,
    splits: Sequence[int] | Array,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[Any, Array]: ...


def alltoall(
    array: Any,
    splits: Sequence[int] | Array | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends rows to each rank of the set, and receives rows from each: in rank order, both.

    Args:
        array: at least 1-dimensional; the dtype and all dimensions but the first are the same on all ranks.
        splits: how many rows go to each rank of the set. Equal parts without it. Rows beyond their sum are
            not sent.

    Returns:
        The received rows; with `splits` also how many came from each rank (int32), as a pair.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, or cannot be divided in that way; or this
            rank is no member of the set.
        HoraInternalError: the ranks disagree about dtype or the other dimensions, or one has joined.
    """
    output, received = _job.run(alltoall_async, array, splits, name, process_set)
    return output if splits is None else (output, received)


def reducescatter_async(
    array: Any,
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> int:
    """Starts `reducescatter`; the handle is for `poll` and `synchronize`."""
    with Naming("reducescatter", name, process_set) as named:
        loan = lend(array, named.full)
        check_rows(loan.shape, named.full)
        ops.check_scattered(op, named.full)
        rows = share(loan.shape[0], process_set.rank() or 0, process_set.size() or 1)
        output = loan.empty(rows)
        submitted = entry(
            _native.Operation.reducescatter,
            named,
            loan,
            output,
            **ops.arguments(op, prescale_factor, postscale_factor, wire_of(compression)),
        )
        return start(submitted, lambda outcome: output, loan, output)


def reducescatter(
    array: Any,
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """This rank's rows of the reduced array. Of r rows each of the n ranks of the set gets r // n, the first
    r % n ranks one more.

    Args:
        array: at least 1-dimensional; shape and dtype are the same on all ranks.
        op: Average (default) or Sum.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, or this rank is no member of the set.
        HoraUnsupportedError (also a HoraInternalError): another op.
        HoraInternalError: the ranks disagree about shape, dtype or op, or one has joined.
    """
    return _job.run(
        reducescatter_async, array, name, op, process_set, prescale_factor, postscale_factor, compression
    )
