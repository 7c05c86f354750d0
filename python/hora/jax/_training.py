# SPDX-License-Identifier: Apache-2.0
"""Training with optax: gradients that are reduced, and parameters that begin alike."""

from __future__ import annotations

from typing import Any

import jax

from hora import _objects, ops
from hora._arguments import documents
from hora._gradients import checked_reduction
from hora._reduction import Reduction
from hora.compression import Compression, Compressor
from hora.jax._operations import allreduce, broadcast
from hora.process_sets import ProcessSet, global_process_set

_documented = documents(compression="one of Compression: the form in which gradients travel.")


@_documented
def allreduce_gradients(
    gradients: Any,
    op: int = ops.Average,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The average of the gradients of all ranks, for training loops without optax.

    Args:
        gradients: a tree of arrays, as `jax.grad` returns it.
        op: Average, Sum or Adasum.

    Returns:
        A tree of new arrays.

    Raises:
        HoraArgumentError, HoraUnsupportedError, HoraNotInitializedError, jax.errors.JaxRuntimeError: as
            `allreduce`.
    """
    checked_reduction(Reduction, op, 1.0, process_set, compression)
    return allreduce(gradients, "gradients", op, compression=compression, process_set=process_set)


@_documented
def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Any,
    op: int = ops.Average,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """An optimizer of optax that averages the gradients of all ranks before it uses them.

    Clipping belongs into `optimizer`: then it sees averaged gradients. For several batches in one step, wrap
    the result: `optax.MultiSteps(hvd.DistributedOptimizer(optimizer), 4)`.

    Args:
        optimizer: an `optax.GradientTransformation`.
        op: Average, Sum or Adasum.

    Returns:
        An `optax.GradientTransformationExtraArgs`. Its state is that of `optimizer`.

    Raises:
        HoraNotInitializedError: when it is used, this process is in no job.
    """
    import optax  # whoever has an optimizer has it

    inner = optax.with_extra_args_support(optimizer)

    def update(gradients: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        averaged = allreduce_gradients(gradients, op, compression, process_set)
        return inner.update(averaged, state, params, **extra)

    return optax.GradientTransformationExtraArgs(inner.init, update)


@_documented
def broadcast_parameters(
    params: Any, root_rank: int = 0, process_set: ProcessSet = global_process_set
) -> Any:
    """The parameters of the root, so that all ranks begin alike. It takes states of optimizers, too.

    Args:
        params: a tree with the same structure on all ranks. Arrays have the same shapes and dtypes. Keys of
            `jax.random.key` and Python's numbers may be among them.

    Returns:
        A new tree.

    Raises:
        HoraArgumentError, HoraUnsupportedError, HoraNotInitializedError, jax.errors.JaxRuntimeError: as
            `broadcast`.
    """
    leaves, structure = jax.tree_util.tree_flatten(params)
    numbers = [leaf if isinstance(leaf, (bool, int, float, complex)) else None for leaf in leaves]
    keys = [jax.random.key_impl(leaf) if _is_key(leaf) else None for leaf in leaves]
    arrays = jax.tree_util.tree_unflatten(
        structure,
        [
            None if number is not None else leaf if key is None else jax.random.key_data(leaf)
            for leaf, number, key in zip(leaves, numbers, keys, strict=True)
        ],
    )
    received = broadcast(arrays, root_rank, "parameters", process_set)
    if any(number is not None for number in numbers):
        numbers = _objects.broadcast_object(numbers, root_rank, "parameters", process_set=process_set)
    of_root = iter(jax.tree_util.tree_leaves(received))
    result = []
    for number, key in zip(numbers, keys, strict=True):
        leaf = next(of_root) if number is None else number
        result.append(leaf if key is None else jax.random.wrap_key_data(leaf, impl=key))
    return jax.tree_util.tree_unflatten(structure, result)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
