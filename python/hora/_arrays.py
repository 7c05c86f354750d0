# SPDX-License-Identifier: Apache-2.0
"""Operations on NumPy arrays, and on whatever NumPy can look at without a copy (DLPack, the buffer protocol)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hora import _job, _native, ops
from hora._errors import HoraArgumentError
from hora.compression import Compression, Compressor, wire_of

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


def _view(array: Any, name: str) -> Array:
    """The array's memory as NumPy sees it. Raises HoraArgumentError for what cannot be sent."""
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
    if not view.flags.c_contiguous:
        raise HoraArgumentError(f"'{name}': the array is not contiguous; use numpy.ascontiguousarray()")
    return view


def allreduce_async(
    array: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> int:
    """Starts `allreduce`; the handle is for `poll` and `synchronize`."""
    full = _job.name_or_number("allreduce", name)
    view = _view(array, full)
    chosen = ops.chosen(None, op)
    output = np.empty_like(view)
    handle = _job.runtime().submit(
        _native.Entry(
            _native.Operation.allreduce,
            full,
            _DTYPES[view.dtype.name],
            list(view.shape),
            input=view.ctypes.data,
            output=output.ctypes.data,
            op=ops.native(chosen),
            prescale=prescale_factor,
            postscale=postscale_factor,
            wire=wire_of(compression),
        )
    )
    return _job.track(handle, lambda outcome: output, view)


def allreduce(
    array: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Array:
    """The array reduced over all ranks: postscale_factor * op(prescale_factor * array of every rank).

    Args:
        array: any shape, the same on all ranks; dtype uint8, int8, int16, int32, int64, float16, bfloat16, float32,
            float64 or bool; contiguous, on the CPU.
        name: the same on all ranks; without one, operations are matched by the order in which ranks issue them.
        op: Average (default), Sum, Min, Max or Product. 16-bit floats are summed in float32; averages of integers are
            truncated toward zero; bool has no average.
        compression: Compression.none, fp16 or bf16: what float32 and float64 elements look like on the wire.

    Returns:
        A new array of the same shape and dtype, the same bits on every rank.

    Raises:
        HoraArgumentError: the array cannot be sent, or its name is under way already.
        HoraInternalError: the ranks disagree about shape, dtype or op; the text is the same on all.
    """
    result: Array = _job.synchronize(allreduce_async(array, name, op, prescale_factor, postscale_factor, compression))
    return result


def broadcast_async(array: Any, root_rank: int, name: str | None = None) -> int:
    """Starts `broadcast`; the handle is for `poll` and `synchronize`."""
    full = _job.name_or_number("broadcast", name)
    view = _view(array, full)
    output = np.empty_like(view)
    handle = _job.runtime().submit(
        _native.Entry(
            _native.Operation.broadcast,
            full,
            _DTYPES[view.dtype.name],
            list(view.shape),
            input=view.ctypes.data,
            output=output.ctypes.data,
            root=_job.checked_root(root_rank, full),
        )
    )
    return _job.track(handle, lambda outcome: output, view)


def broadcast(array: Any, root_rank: int, name: str | None = None) -> Array:
    """What rank `root_rank` has: a new array on every rank. Shape and dtype must be the same on all.

    Raises:
        HoraArgumentError: the array cannot be sent, or there is no such rank.
        HoraInternalError: the ranks disagree about shape, dtype or root.
    """
    result: Array = _job.synchronize(broadcast_async(array, root_rank, name))
    return result


def _submit_allgather(array: Array, full: str, finish: Callable[[Array, list[int]], Any]) -> int:
    """`finish` gets the gathered array and the rows of each rank."""
    dtype = array.dtype
    handle = _job.runtime().submit(_native.Entry(_native.Operation.allgather, full, _DTYPES[dtype.name], list(array.shape), input=array.ctypes.data))

    def finish_memory(outcome: _native.Outcome) -> Any:
        whole = np.frombuffer(outcome.memory, dtype, int(np.prod(outcome.shape))).reshape(outcome.shape)  # type: ignore[call-overload]
        return finish(whole, outcome.rows)

    return _job.track(handle, finish_memory, array)


def allgather_async(array: Any, name: str | None = None) -> int:
    """Starts `allgather`; the handle is for `poll` and `synchronize`."""
    full = _job.name_or_number("allgather", name)
    return _submit_allgather(_view(array, full), full, lambda whole, rows: whole)


def gather_parts(array: Array, full: str) -> list[Array]:
    """What each rank brought, in rank order."""
    parts: list[Array] = _job.synchronize(_submit_allgather(array, full, lambda whole, rows: np.split(whole, np.cumsum(rows)[:-1])))
    return parts


def allgather(array: Any, name: str | None = None) -> Array:
    """The arrays of all ranks, one after the other along the first dimension, in rank order. The first dimension may
    differ from rank to rank (0 rows, too); the others and the dtype may not.

    Raises:
        HoraArgumentError: the array cannot be sent, or is a scalar.
        HoraInternalError: the ranks disagree about dtype or the other dimensions.
    """
    result: Array = _job.synchronize(allgather_async(array, name))
    return result
