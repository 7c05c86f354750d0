# SPDX-License-Identifier: Apache-2.0
"""allreduce and grouped_allreduce, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hora import ops
from hora._naming import label
from hora._reduction import Reduction
from hora._submission import members
from hora.compression import Compression
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow._arguments import public
from hora.tensorflow._together import check_differentiable, reduce_together, reduction


@public
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The tensor reduced over all ranks: postscale_factor * op(prescale_factor * tensor of every rank).

    IndexedSlices are gathered: the result has the values and the indices of all ranks, one after the other.

    The gradient of Average and Sum is the allreduce of the gradient, with the same op and factors.

    Args:
        tensor: what `tf.convert_to_tensor` takes, of any shape, the same on all ranks; dtype an integer,
            float16, bfloat16, float32, float64, complex64, complex128 or bool. Or
            IndexedSlices, of any number of rows.
        average: deprecated, use `op`.
        device_dense, device_sparse: not used; there for scripts written for Horovod.
        op: Average (default), Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor, LogicalAnd or LogicalOr;
            Average or Sum for IndexedSlices.

    Returns:
        A new tensor of the same shape and dtype, the same bits on every rank; or IndexedSlices.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, or this
            rank is no member of the set.
        HoraUnsupportedError (a ValueError): `op` is not for IndexedSlices; or it has no gradient.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype or op.
    """
    how = reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    if isinstance(tensor, tf.IndexedSlices):
        return reduce_together([tensor], [""], "allreduce", name, how)[0]
    return _differentiable([tensor], [""], "allreduce", name, how)[0]


@public
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """`allreduce` of several tensors at once: all are reduced together, or, if the ranks disagree about one,
    none.

    Args:
        tensors: one tensor or more, of any shapes and dtypes, as many on all ranks; each as for `allreduce`.
            A group with IndexedSlices has no gradient.
        average, device_dense, device_sparse, op: as for `allreduce`.

    Returns:
        A list of new tensors and IndexedSlices.

    Raises:
        HoraShapeError: there are no tensors.
        HoraArgumentError, HoraUnsupportedError, HoraInternalError: as `allreduce`.
    """
    how = reduction(ops.chosen(average, op), prescale_factor, postscale_factor, process_set, compression)
    listed = members(tensors, label("grouped_allreduce", name))
    suffixes = [f"_{number}of{len(listed)}" for number in range(1, len(listed) + 1)]
    if any(isinstance(each, tf.IndexedSlices) for each in listed):
        items = [
            each if isinstance(each, tf.IndexedSlices) else tf.convert_to_tensor(each) for each in listed
        ]
        return reduce_together(items, suffixes, "grouped_allreduce", name, how)
    return _differentiable(listed, suffixes, "grouped_allreduce", name, how)


def _differentiable(
    tensors: Sequence[Any], suffixes: Sequence[str], operation: str, name: str | None, how: Reduction
) -> list[Any]:
    def forward(*given: Any) -> tuple[list[Any], Any]:
        def gradient(*upstream: Any) -> list[Any]:
            check_differentiable(how.op, label(operation, name))
            return _differentiable(upstream, suffixes, operation, None, how)

        return reduce_together(given, suffixes, operation, name, how), gradient

    results: list[Any] = tf.custom_gradient(forward)(*[tf.convert_to_tensor(each) for each in tensors])
    return results
