# SPDX-License-Identifier: Apache-2.0
"""Reductions of several tensors as one operation, dense tensors and IndexedSlices alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hora import _job, _operations, ops
from hora._errors import HoraUnsupportedError
from hora._job import Handle
from hora._loans import Array, lend
from hora._naming import Naming, label
from hora._reduction import Reduction
from hora._submission import Submission, start_group
from hora.compression import Compression, in_transfer
from hora.process_sets import ProcessSet
from hora.tensorflow._call import any_rows, call, name_in_graph


def reduction(
    op: int, prescale: float, postscale: float, process_set: ProcessSet, compression: Any
) -> Reduction:
    """The reduction. Raises HoraArgumentError when a graph is traced rather than when it runs."""
    in_transfer(compression)
    return Reduction(op, prescale, postscale, process_set, compression)


def check_differentiable(op: int, name: str) -> None:
    """Raises HoraUnsupportedError for a reduction without a gradient."""
    if op not in (ops.Average, ops.Sum):
        raise HoraUnsupportedError(
            f"'{name}': op={op} has no gradient, only op=Average and op=Sum have one; use tf.stop_gradient()"
        )


def reduce_together(
    items: Sequence[Any], suffixes: Sequence[str], operation: str, name: str | None, how: Reduction
) -> list[Any]:
    """The items reduced over the ranks, all or none. IndexedSlices are gathered.

    Args:
        items: tensors and IndexedSlices.
        suffixes: the ends of their names.
    """
    if not in_transfer(how.compression):
        return _compressed_by_users(items, suffixes, operation, name, how)
    named_so = name_in_graph(name)
    sparse = [isinstance(item, tf.IndexedSlices) for item in items]
    if any(sparse) and how.op not in (ops.Average, ops.Sum):
        raise HoraUnsupportedError(
            f"'{label(operation, named_so)}': IndexedSlices are reduced by op=Average or op=Sum; for the "
            "others make a tensor of them with tf.convert_to_tensor()"
        )

    def start(arrays: Sequence[Array]) -> Handle:
        left = iter(arrays)
        with Naming(operation, named_so, how.process_set) as named:
            submissions: list[Submission] = []
            for is_sparse, suffix in zip(sparse, suffixes, strict=True):
                if is_sparse:
                    submissions.append(_gathered_values(next(left), named, how, suffix))
                    submissions.append(_gathered(next(left), named, f"{suffix}.indices"))
                else:
                    loan = lend(next(left), named.full + suffix)
                    submissions.append(_operations.allreduce(loan, named, how, suffix))
            return start_group(submissions)

    inputs: list[Any] = []
    outputs: list[tuple[Any, Any]] = []
    for item, is_sparse in zip(items, sparse, strict=True):
        parts = [item.values, item.indices] if is_sparse else [item]
        inputs += parts
        outputs += [(part.dtype, any_rows(part) if is_sparse else part.shape) for part in parts]
    reduced = iter(call(lambda *arrays: _job.run(start, arrays), inputs, outputs))
    return [
        tf.IndexedSlices(next(reduced), next(reduced), item.dense_shape) if is_sparse else next(reduced)
        for item, is_sparse in zip(items, sparse, strict=True)
    ]


def _compressed_by_users(
    items: Sequence[Any], suffixes: Sequence[str], operation: str, name: str | None, how: Reduction
) -> list[Any]:
    """With a class that users wrote, which is not applied to IndexedSlices."""
    plainly = Reduction(how.op, how.prescale, how.postscale, how.process_set, Compression.none)
    sent, contexts = zip(
        *[
            (item, None) if isinstance(item, tf.IndexedSlices) else how.compression.compress(item)
            for item in items
        ],
        strict=True,
    )
    return [
        item if isinstance(item, tf.IndexedSlices) else how.compression.decompress(item, context)
        for item, context in zip(
            reduce_together(sent, suffixes, operation, name, plainly), contexts, strict=True
        )
    ]


def _gathered(array: Array, named: Naming, suffix: str) -> Submission:
    loan = lend(array, named.full + suffix)
    return _operations.allgather(loan, named, suffix).then(lambda result: result[0])


def _gathered_values(array: Array, named: Naming, how: Reduction, suffix: str) -> Submission:
    factor = how.prescale * how.postscale / (named.size if how.op == ops.Average else 1)
    gathered = _gathered(array, named, f"{suffix}.values")
    if factor == 1:
        return gathered
    return gathered.then(lambda whole: (whole * factor).astype(whole.dtype))
