# SPDX-License-Identifier: Apache-2.0
"""Calls from TensorFlow into Hora: at once, or by a node of the graph that is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hora import _job
from hora._errors import HoraArgumentError

#: The attribute of a graph for its last node of Hora's. The next one waits for it: nodes block threads of
#: TensorFlow, so another order on each rank could block all. TensorFlow itself orders the nodes of functions,
#: but not those of their gradients.
_LAST = "_hora_last_node"

#: XLA cannot compile such a node, and its error shows the name. So the name says what to do.
_NODE = "Hora_cannot_run_inside_XLA.set_jit_compile_False"


def call(function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[tuple[Any, Any]]) -> Any:
    """Calls a function with the inputs as NumPy arrays, and returns its results as a list of tensors.

    Args:
        outputs: the dtype and the shape of each result. Dimensions may be None.

    Raises:
        HoraArgumentError: an input has no numbers.
    """
    for each in inputs:
        if each.dtype in (tf.string, tf.resource, tf.variant):
            raise HoraArgumentError(f"tensors of {each.dtype.name} cannot be sent; use broadcast_object()")
    if tf.executing_eagerly():  # numpy_function fails then with bfloat16 without dimensions
        arrays = function(*[np.asarray(each.numpy()) for each in inputs])
        return [
            tf.convert_to_tensor(array, dtype)
            for array, (dtype, _) in zip(_listed(arrays), outputs, strict=True)
        ]
    unconverted = tf.autograph.experimental.do_not_convert(function)
    graph = tf.compat.v1.get_default_graph()
    with tf.control_dependencies(getattr(graph, _LAST, [])):
        results = _listed(
            tf.numpy_function(unconverted, list(inputs), [dtype for dtype, _ in outputs], name=_NODE)
        )
    setattr(graph, _LAST, [results[0].op])
    for result, (_, shape) in zip(results, outputs, strict=True):
        result.set_shape(shape)
    return results


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def name_in_graph(name: str | None) -> str | None:
    """The name of an operation. One without a name gets it when a graph is traced, so that it does not depend
    on the order in which ranks run their graphs.

    Raises:
        HoraNotInitializedError: this process is in no job.
    """
    _job.runtime()
    if name is not None or tf.executing_eagerly():
        return name
    unique: str = tf.compat.v1.get_default_graph().unique_name("graph")
    return unique


def any_rows(tensor: Any) -> Any:
    """The shape of a tensor, with any number of rows."""
    shape = tensor.shape
    return shape if shape.rank is None or shape.rank == 0 else tf.TensorShape([None]).concatenate(shape[1:])
