# SPDX-License-Identifier: Apache-2.0
"""The operations that move rows between ranks, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from hora import _arrays, _job, _operations, ops
from hora._job import Handle
from hora._loans import Array, lend
from hora._naming import Naming
from hora._submission import start
from hora.compression import Compression
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow._allreduce import allreduce
from hora.tensorflow._arguments import public
from hora.tensorflow._call import any_rows, call, name_in_graph
from hora.tensorflow._together import check_differentiable


@public
def allgather(tensor: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """The tensors of all ranks of the set, one after the other along the first dimension, in rank order.

    The gradient is this rank's rows of the gradients' sum over the ranks.

    Args:
        tensor: at least 1-dimensional. The first dimension may differ from rank to rank (0 rows, too); the
            others and the dtype may not.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, or is a scalar, or this rank is no member
            of the set.
        HoraInternalError (a RuntimeError): the ranks disagree about dtype or the other dimensions.
    """
    named_so = name_in_graph(name)

    def begin(array: Array) -> Handle:
        with Naming("allgather", named_so, process_set) as named:
            place = named.rank
            return start(
                _operations.allgather(lend(array, named.full), named).then(
                    lambda result: (result[0], np.int64(sum(result[1][:place])))
                )
            )

    def forward(given: Any) -> tuple[Any, Any]:
        outputs = [(given.dtype, any_rows(given)), (tf.int64, ())]
        whole, first = call(lambda array: _job.run(begin, array), [given], outputs)

        def gradient(upstream: Any) -> Any:
            summed = allreduce(tf.convert_to_tensor(upstream), op=ops.Sum, process_set=process_set)
            return summed[first : first + tf.shape(given, tf.int64)[0]]

        return whole, gradient

    return tf.custom_gradient(forward)(tf.convert_to_tensor(tensor))


@public
def broadcast(
    tensor: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The tensor of the root: a new tensor on every rank of the set.

    The gradient is the sum of the ranks' gradients on the root, and zeros on the others.

    Args:
        tensor: any shape, the same on all ranks.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, there is no such rank, or this one is no
            member of the set.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype or root.
    """
    named_so = name_in_graph(name)

    def forward(given: Any) -> tuple[Any, Any]:
        def gradient(upstream: Any) -> Any:
            dense = tf.convert_to_tensor(upstream)
            summed = allreduce(dense, op=ops.Sum, process_set=process_set)
            with tf.control_dependencies([summed]):  # else the others' graphs would leave the sum out
                return summed if _job.rank() == root_rank else tf.zeros_like(dense)

        [result] = call(
            lambda array: _arrays.broadcast(array, root_rank, named_so, process_set),
            [given],
            [(given.dtype, given.shape)],
        )
        return result, gradient

    return tf.custom_gradient(forward)(tf.convert_to_tensor(tensor))


@overload
def alltoall(
    tensor: Any, splits: None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any: ...


@overload
def alltoall(
    tensor: Any,
    splits: Sequence[int] | Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[Any, Any]: ...


@public
def alltoall(
    tensor: Any,
    splits: Sequence[int] | Any | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends rows to each rank of the set, and receives rows from each: in rank order, both.

    The gradient sends the rows back to where they came from.

    Args:
        tensor: at least 1-dimensional; the dtype and all dimensions but the first are the same on all ranks.
        splits: how many rows go to each rank of the set, int32. Equal parts without it. Rows beyond their sum
            are not sent.

    Returns:
        The received rows; with `splits` also how many came from each rank (int32), as a pair.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, is a scalar, or cannot be divided in that
            way; or this rank is no member of the set.
        HoraInternalError (a RuntimeError): the ranks disagree about dtype or the other dimensions, or one has
            joined.
    """
    named_so = name_in_graph(name)
    divided = [] if splits is None else [tf.cast(splits, tf.int32)]

    def exchange(array: Array, *parts: Array) -> Any:
        chosen = parts[0].tolist() if parts else None
        return _job.run(_arrays.alltoall_async, array, chosen, named_so, process_set)

    def forward(given: Any) -> tuple[Any, Any]:
        outputs = [(given.dtype, any_rows(given)), (tf.int32, [None])]
        rows, received = call(exchange, [given, *divided], outputs)

        def gradient(upstream: Any, *of_received: Any) -> Any:
            returned, _ = alltoall(upstream, received, process_set=process_set)
            missing = tf.shape(given)[0] - tf.shape(returned)[0]  # rows that were not sent
            return tf.concat([returned, tf.zeros_like(given[:missing])], axis=0)

        return (rows, received), gradient

    rows, received = tf.custom_gradient(forward)(tf.convert_to_tensor(tensor))
    return rows if splits is None else (rows, received)


@public
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = ops.Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """This rank's rows of the tensor reduced over all ranks.

    The gradient of Average and Sum gathers the ranks' gradients.

    Args:
        tensor: at least 1-dimensional, the same shape on all ranks. If its rows cannot be divided evenly, the
            first ranks get one row more.
        device_dense: not used; there for scripts written for Horovod.
        compression: one of Compression: the form of floats on their way between ranks.
        op: as for `allreduce`, but for Adasum.

    Raises:
        HoraUnsupportedError (a ValueError): op is Adasum; or it has no gradient.
        HoraArgumentError (a ValueError), HoraInternalError (a RuntimeError): as `allreduce`; or the tensor is
            a scalar.
    """
    named_so = name_in_graph(name)
    how = (op, process_set, prescale_factor, postscale_factor, compression)
    ops.check_scattered(op, "reducescatter")

    def forward(given: Any) -> tuple[Any, Any]:
        def gradient(upstream: Any) -> Any:
            check_differentiable(op, "reducescatter")
            parts = (process_set.size() or 1) if op == ops.Average else 1
            factor = prescale_factor * postscale_factor / parts
            return allgather(upstream, process_set=process_set) * tf.cast(factor, given.dtype)

        [rows] = call(
            lambda array: _job.run(_arrays.reducescatter_async, array, named_so, *how),
            [given],
            [(given.dtype, any_rows(given))],
        )
        return rows, gradient

    return tf.custom_gradient(forward)(tf.convert_to_tensor(tensor))
