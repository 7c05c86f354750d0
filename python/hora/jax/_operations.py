# SPDX-License-Identifier: Apache-2.0
"""Operations on arrays and on trees of arrays: outside of jit, and under jit, grad and vmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from hora import _synchronization, ops
from hora._arguments import checked_root, documents
from hora._errors import HoraArgumentError, HoraUsageError
from hora._job import size
from hora._reduction import Reduction
from hora.compression import Compression, Compressor
from hora.jax import _call, _primitive
from hora.jax._call import Call
from hora.jax._given import Given, first_dimension, is_traced
from hora.process_sets import ProcessSet, global_process_set

_documented = documents(
    name="the same on all ranks. Operations without one are matched by their program and their place in it.",
    compression="one of Compression: the form in which floats travel.",
)


@_documented
def allreduce(
    tree: Any,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The reduction of each array over all ranks. All arrays of the tree are reduced together.

    Args:
        tree: an array or a tree of arrays, with the same structure, shapes and dtypes on all ranks.
        op: Average (also if it is left out), Sum, Min, Max, Product, Adasum, BitAnd, BitOr, BitXor,
            LogicalAnd or LogicalOr.

    Returns:
        A tree of new arrays.

    Raises:
        HoraArgumentError (a ValueError): a leaf is no array, or there is no such op.
        HoraUnsupportedError: Hora has no such dtype.
        HoraNotInitializedError: this process is in no job.
        jax.errors.JaxRuntimeError: while a program runs, the ranks disagree, or the job fails. JAX raises
            ValueError in its place when a program runs that has run before.
    """
    how = Reduction(ops.chosen(None, op), prescale_factor, postscale_factor, process_set, compression)
    given = Given("allreduce", tree, name, process_set)
    return given.together(Call(_call.ALLREDUCE, **given.names(), **_call.reduction(how)))


@_documented
def broadcast(
    tree: Any, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The arrays of the root. All arrays of the tree travel together.

    Args:
        tree: an array or a tree of arrays, with the same structure, shapes and dtypes on all ranks.

    Returns:
        A tree of new arrays.

    Raises:
        HoraArgumentError, HoraUnsupportedError, HoraNotInitializedError, jax.errors.JaxRuntimeError: as
            `allreduce`.
    """
    given = Given("broadcast", tree, name, process_set)
    root = checked_root(root_rank, given.what)
    if not 0 <= root < size():
        raise HoraArgumentError(f"'{given.what}': there is no root rank {root}: ranks are 0 to {size() - 1}")
    return given.together(Call(_call.BROADCAST, **given.names(), root=root))


@_documented
def allgather(
    tree: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    rows: Sequence[int] | None = None,
) -> Any:
    """The arrays of all ranks, one below the other: those of rank 0 come first.

    Args:
        tree: an array or a tree of arrays, at least 1-dimensional, alike but for the first dimension.
        rows: the first dimension on each rank of the process set. Without it the ranks ask each other. Under
            jit, grad and vmap they cannot, and it is the same on all ranks.

    Returns:
        A tree of new arrays.

    Raises:
        HoraShapeError: an array is a scalar.
        HoraArgumentError: `rows` does not fit the array of this rank.
        HoraUnsupportedError, HoraNotInitializedError, jax.errors.JaxRuntimeError: as `allreduce`.
    """
    given = Given("allgather", tree, name, process_set)

    def described(array: jax.Array, what: str) -> Call:
        own = first_dimension(array, what)
        parts = given.parts(rows, "rows", what)
        if parts is None:
            parts = (own,) * given.size if is_traced(array) else given.told_by_all(own)
        if parts[given.rank] != own:
            raise HoraArgumentError(
                f"'{what}': rows={list(parts)} says {parts[given.rank]} rows of this rank, and it has {own}"
            )
        return Call(_call.ALLGATHER, (), rows=sum(parts), parts=parts, place=given.rank)

    return given.each(described)


@_documented
def reducescatter(
    tree: Any,
    name: str | None = None,
    op: int = ops.Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """This rank's rows of the reduction of each array over all ranks.

    Args:
        tree: an array or a tree of arrays, at least 1-dimensional, with the same structure, shapes and dtypes
            on all ranks. Where the ranks do not divide the rows, the first ranks get one more.
        op: as for `allreduce`, but Adasum.

    Returns:
        A tree of new arrays.

    Raises:
        HoraShapeError: an array is a scalar.
        HoraArgumentError, HoraUnsupportedError, HoraNotInitializedError, jax.errors.JaxRuntimeError: as
            `allreduce`.
    """
    given = Given("reducescatter", tree, name, process_set)
    ops.check_scattered(op, given.what)
    reduction = _call.reduction(Reduction(op, prescale_factor, postscale_factor, process_set, compression))

    def described(array: jax.Array, what: str) -> Call:
        parts = given.even(first_dimension(array, what))
        return Call(
            _call.REDUCESCATTER, (), rows=parts[given.rank], parts=parts, place=given.rank, **reduction
        )

    return given.each(described)


@_documented
def alltoall(
    tree: Any,
    splits: Sequence[int] | None = None,
    received_splits: Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The rows that all ranks have sent to this one: those of rank 0 come first.

    Args:
        tree: an array or a tree of arrays, at least 1-dimensional, alike but for the first dimension.
        splits: how many rows go to each rank of the process set. Without it, all get as many.
        received_splits: how many rows come from each rank. Without it the ranks ask each other. Under jit,
            grad and vmap they cannot, and it is `splits`.

    Returns:
        A tree of new arrays.

    Raises:
        HoraShapeError: an array is a scalar.
        HoraArgumentError: `splits` does not fit the array or the process set.
        HoraUnsupportedError, HoraNotInitializedError, jax.errors.JaxRuntimeError: as `allreduce`.
    """
    given = Given("alltoall", tree, name, process_set)

    def described(array: jax.Array, what: str) -> Call:
        own = first_dimension(array, what)
        sent = given.parts(splits, "splits", what)
        if sent is None:
            sent = given.even(own)
            if sent[0] != sent[-1]:
                raise HoraArgumentError(
                    f"'{what}': {own} rows for {given.size} ranks: give splits=, the rows for each rank"
                )
        if sum(sent) != own:
            raise HoraArgumentError(
                f"'{what}': splits={list(sent)} takes {sum(sent)} rows, and there are {own}"
            )
        received = given.parts(received_splits, "received_splits", what)
        if received is None:
            received = sent if splits is None or is_traced(array) else given.exchanged(sent)
        return Call(_call.ALLTOALL, (), splits=sent, rows=sum(received), parts=received, place=given.rank)

    return given.each(described)


@_documented
def barrier(tree: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """Waits until all ranks have come here.

    Args:
        tree: an array or a tree of arrays. The barrier comes after they are computed, and before the result
            is used. That gives it a place in a program, so it is needed under jit.

    Returns:
        The tree.

    Raises:
        HoraUsageError: there is no tree under jit.
        HoraNotInitializedError, jax.errors.JaxRuntimeError: as `allreduce`.
    """
    zero = jax.numpy.zeros((), np.uint8)
    if tree is None:
        if is_traced(zero):
            raise HoraUsageError(
                "barrier() under jit needs arrays, as they give it a place in the program: x = hvd.barrier(x)"
            )
        return _synchronization.barrier(process_set)
    given = Given("barrier", zero, name, process_set)
    zero, before = jax.lax.optimization_barrier((zero, tree))
    met = _primitive.call([zero], Call(_call.ALLREDUCE, **given.names(), op=_call.SUM))
    return jax.lax.optimization_barrier((met, before))[1]
