# SPDX-License-Identifier: Apache-2.0
"""Operations on the arrays of any backend. The results are NumPy arrays."""

from __future__ import annotations

from typing import Any

import keras

from hora import _arrays, ops
from hora.compression import Compression
from hora.process_sets import ProcessSet, global_process_set


@_arrays.documented
def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The array reduced over all ranks: postscale_factor * op(prescale_factor * array of every rank).

    Args:
        value: a number, or an array or tensor of NumPy or of the backend, the same shape on all ranks.
        average: deprecated, use `op`.
        op: as for `hora.allreduce`; Average by default.

    Returns:
        A new NumPy array of the same shape and dtype, the same bits on every rank.

    Raises:
        HoraArgumentError (a ValueError), HoraInternalError (a RuntimeError): as `hora.allreduce`.
    """
    reduction = ops.chosen(average, op)
    return _arrays.allreduce(
        keras.ops.convert_to_numpy(value),
        name,
        reduction,
        prescale_factor,
        postscale_factor,
        compression,
        process_set,
    )


@_arrays.documented
def allgather(value: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """The arrays of all ranks of the set, one after the other along the first dimension, in rank order.

    Args:
        value: as for `allreduce`, at least 1-dimensional. The first dimension may differ from rank to rank.

    Returns:
        A new NumPy array.

    Raises:
        HoraArgumentError (a ValueError), HoraInternalError (a RuntimeError): as `hora.allgather`.
    """
    return _arrays.allgather(keras.ops.convert_to_numpy(value), name, process_set)


@_arrays.documented
def broadcast(
    value: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The array of the root: a new NumPy array on every rank of the set.

    Args:
        value: as for `allreduce`.

    Raises:
        HoraArgumentError (a ValueError), HoraInternalError (a RuntimeError): as `hora.broadcast`.
    """
    return _arrays.broadcast(keras.ops.convert_to_numpy(value), root_rank, name, process_set)
