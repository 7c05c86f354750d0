# SPDX-License-Identifier: Apache-2.0
"""Operations on NumPy arrays, and on whatever NumPy can look at without a copy (DLPack, the buffer protocol)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from hora import _job, _native, ops
from hora._errors import HoraArgumentError
from hora._naming import Naming
from hora._rows import check_rows, checked_splits, share
from hora.compression import Compression, Compressor, wire_of
from hora.process_sets import ProcessSet, global_process_set

Array = np.ndarray[Any, Any]

_DTYPES = {
    "uint8": _native.DType.uint8,
    "int8": _native.DType.int8,
    "int16": _native.DType.int16,
    "int32": _native.DType.int32,
    "int64": _native.DType.int64,
    "float16": _native.DType.float16,
    "bfloat16": _native.DType.bfloat16,
    "float32": _native.DType.float32,
    "float64": _native.DType.float64,
    "bool": _native.DType.bool,
}


def viewed(array: Any, name: str) -> Array:
    """The array as NumPy sees it. Raises HoraArgumentError for what cannot be sent."""
    if isinstance(array, np.ma.MaskedArray):
        raise HoraArgumentError(f"'{name}': masks cannot be sent; use array.filled(...)")
    if isinstance(array, np.ndarray):
        view = array
    elif isinstance(array, (bool, int, float, list, tuple, np.generic)):
        view = np.asarray(array)
    else:
        try:
            view = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(memoryview(array))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise HoraArgumentError(
                f"'{name}': {type(array).__name__} cannot be sent: {error}; give a NumPy array, or one on the CPU that speaks DLPack; PyTorch tensors go with hora.torch"
            ) from error
    if view.dtype.name not in _DTYPES:
        raise HoraArgumentError(f"'{name}': elements of type {view.dtype} cannot be sent; convert with .astype() to one of {', '.join(_DTYPES)}")
    if not view.dtype.isnative:
        raise HoraArgumentError(f"'{name}': the elements are in foreign byte order; use array.astype(array.dtype.newbyteorder('='))")
    return view


def view_of(array: Any, name: str) -> Array:
    """The same, contiguous: a copy if it is not."""
    view = viewed(array, name)
    return view if view.flags.c_contiguous else view.copy(order="C")


def native_dtype(view: Array) -> _native.DType:
    """The dtype of what `viewed` returned."""
    return _DTYPES[view.dtype.name]


def entry(operation: _native.Operation, named: Naming, view: Array, **arguments: Any) -> _native.Entry:
    return _native.Entry(operation, named.full, native_dtype(view), list(view.shape), input=view.ctypes.data, process_set=named.process_set, **arguments)


def received(outcome: _native.Outcome, dtype: np.dtype[Any]) -> Array:
    """The output that the runtime allocated."""
    array: Array = np.frombuffer(outcome.memory, dtype, int(np.prod(outcome.shape))).reshape(outcome.shape)  # type: ignore[call-overload]
    return array


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
        view = view_of(array, named.full)
        output = np.empty_like(view)
        submitted = entry(
            _native.Operation.allreduce,
            named,
            view,
            output=output.ctypes.data,
            **ops.arguments(ops.chosen(None, op), prescale_factor, postscale_factor, wire_of(compression)),
        )
        return _job.start(submitted, lambda outcome: output, view)


def allreduce(
    array: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """The array reduced over all ranks: postscale_factor * op(prescale_factor * array of every rank).

    Args:
        array: any shape, the same on all ranks; dtype uint8, int8, int16, int32, int64, float16, bfloat16, float32,
            float64 or bool; on the CPU.
        name: the same on all ranks; without one, operations are matched by the order in which ranks issue them.
        op: Average (default), Sum, Adasum, Min, Max or Product. 16-bit floats are summed in float32; averages of integers
            are truncated toward zero; bool has no average; Adasum is for floating-point elements.
        compression: Compression.none, fp16 or bf16: what float32 and float64 elements look like on the wire.
        process_set: whose members take part.

    Returns:
        A new array of the same shape and dtype, the same bits on every rank.

    Raises:
        HoraArgumentError: the array cannot be sent, its name is under way already, or this rank is no member of the set.
        HoraInternalError: the ranks disagree about shape, dtype or op; the text is the same on all.
    """
    result: Array = _job.synchronize(allreduce_async(array, name, op, prescale_factor, postscale_factor, compression, process_set))
    return result


def broadcast_async(array: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts `broadcast`; the handle is for `poll` and `synchronize`."""
    with Naming("broadcast", name, process_set) as named:
        view = view_of(array, named.full)
        output = np.empty_like(view)
        root = _job.checked_root(root_rank, named.full)
        return _job.start(entry(_native.Operation.broadcast, named, view, output=output.ctypes.data, root=root), lambda outcome: output, view)


def broadcast(array: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Array:
    """What rank `root_rank` (its number in the job, also within a process set) has: a new array on every rank of the set.
    Shape and dtype must be the same on all.

    Raises:
        HoraArgumentError: the array cannot be sent, there is no such rank, or this one is no member of the set.
        HoraInternalError: the ranks disagree about shape, dtype or root.
    """
    result: Array = _job.synchronize(broadcast_async(array, root_rank, name, process_set))
    return result


def _start_allgather(array: Any, named: Naming, finish: Callable[[Array, list[int]], Any]) -> int:
    """`finish` gets the gathered array and the rows of each rank."""
    view = view_of(array, named.full)
    check_rows(view.shape, named.full)
    return _job.start(entry(_native.Operation.allgather, named, view), lambda outcome: finish(received(outcome, view.dtype), outcome.rows), view)


def allgather_async(array: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts `allgather`; the handle is for `poll` and `synchronize`."""
    with Naming("allgather", name, process_set) as named:
        return _start_allgather(array, named, lambda whole, rows: whole)


def gather_parts(array: Array, name: str, process_set: ProcessSet) -> list[Array]:
    """What each rank brought, in rank order."""
    with Naming("allgather", name, process_set) as named:
        handle = _start_allgather(array, named, lambda whole, rows: np.split(whole, np.cumsum(rows)[:-1]))
    parts: list[Array] = _job.synchronize(handle)
    return parts


def allgather(array: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> Array:
    """The arrays of all ranks of the set, one after the other along the first dimension, in rank order. The first dimension
    may differ from rank to rank (0 rows, too); the others and the dtype may not.

    Raises:
        HoraArgumentError: the array cannot be sent, or is a scalar, or this rank is no member of the set.
        HoraInternalError: the ranks disagree about dtype or the other dimensions.
    """
    result: Array = _job.synchronize(allgather_async(array, name, process_set))
    return result


def alltoall_async(array: Any, splits: Sequence[int] | Array | None = None, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts `alltoall`; the handle is for `poll` and `synchronize`, which returns (output, received splits)."""
    with Naming("alltoall", name, process_set) as named:
        view = view_of(array, named.full)
        check_rows(view.shape, named.full)
        counts = checked_splits(splits, view.shape[0], process_set.size() or 1, named.full)
        sent = view[: sum(counts)]
        submitted = entry(_native.Operation.alltoall, named, sent, splits=counts)
        return _job.start(submitted, lambda outcome: (received(outcome, view.dtype), np.array(outcome.rows, np.int32)), view)


@overload
def alltoall(array: Any, splits: None = None, name: str | None = None, process_set: ProcessSet = global_process_set) -> Array: ...


@overload
def alltoall(array: Any, splits: Sequence[int] | Array, name: str | None = None, process_set: ProcessSet = global_process_set) -> tuple[Array, Array]: ...


def alltoall(
    array: Any, splits: Sequence[int] | Array | None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Array | tuple[Array, Array]:
    """Sends rows to each rank of the set, and receives rows from each: in rank order, both.

    Args:
        array: at least 1-dimensional; the dtype and all dimensions but the first are the same on all ranks.
        splits: how many rows go to each rank of the set. Equal parts without it. Rows beyond their sum are not sent.

    Returns:
        The received rows; with `splits` also how many came from each rank (int32), as a pair.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, or cannot be divided in that way; or this rank is no
            member of the set.
        HoraInternalError: the ranks disagree about dtype or the other dimensions, or one has joined.
    """
    output: Array
    received: Array
    output, received = _job.synchronize(alltoall_async(array, splits, name, process_set))
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
        view = view_of(array, named.full)
        check_rows(view.shape, named.full)
        ops.check_scattered(op, named.full)
        rows = share(view.shape[0], process_set.rank() or 0, process_set.size() or 1)
        output = np.empty((rows, *view.shape[1:]), view.dtype)
        submitted = entry(
            _native.Operation.reducescatter,
            named,
            view,
            output=output.ctypes.data,
            **ops.arguments(op, prescale_factor, postscale_factor, wire_of(compression)),
        )
        return _job.start(submitted, lambda outcome: output, view)


def reducescatter(
    array: Any,
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Array:
    """This rank's rows of the reduced array. Of r rows each of the n ranks of the set gets r // n, the first r % n ranks one
    more.

    Args:
        array: at least 1-dimensional; shape and dtype are the same on all ranks.
        op: Average (default) or Sum.

    Raises:
        HoraArgumentError: the array cannot be sent, is a scalar, or this rank is no member of the set.
        HoraUnsupportedError (also a HoraInternalError): another op.
        HoraInternalError: the ranks disagree about shape, dtype or op, or one has joined.
    """
    result: Array = _job.synchronize(reducescatter_async(array, name, op, process_set, prescale_factor, postscale_factor, compression))
    return result
