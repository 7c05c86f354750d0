# SPDX-License-Identifier: Apache-2.0
"""The operations that MPI has and Horovod has not: gather, scatter, reduce, scan. Without autograd."""

from __future__ import annotations

import torch

from hora import _job, _operations, ops
from hora._job import Handle
from hora._naming import Naming
from hora._rows import check_given
from hora._submission import start
from hora.compression import Compression, Compressor
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.alltoall import Splits, split_counts
from hora.torch._ops.arguments import documented
from hora.torch._ops.lending import Loan
from hora.torch._ops.reduction import Reduction


def gather_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `gather`; the handle is for `poll` and `synchronize`."""
    with Naming("gather", name, process_set) as named:
        return start(_operations.gather(Loan(tensor, named.full), named, root_rank))


@documented
def gather(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | None:
    """The tensors of all ranks of the set, one after the other along the first dimension, in rank order, on
    the root: a new tensor without a gradient; None on the other ranks. As MPI_Gatherv.

    Args:
        tensor: at least 1-dimensional; dtypes as for `broadcast`; dense, on the CPU or a GPU. The first
            dimension may differ from rank to rank (0 rows, too); the others and the dtype may not.

    Raises:
        HoraShapeError (a ValueError and a RuntimeError): the tensor is a scalar.
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, the root
            is no rank of the process set, or this rank is none.
        HoraInternalError (a RuntimeError): the ranks disagree about dtype, root or the other dimensions, or
            one has joined.
    """
    result: torch.Tensor | None = _job.run(gather_async, tensor, root_rank, name, process_set)
    return result


def scatter_async(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `scatter`; the handle is for `poll` and `synchronize`."""
    with Naming("scatter", name, process_set) as named:
        check_given(tensor, named.full, "torch.empty(0, 5)")
        return start(_operations.scatter(Loan(tensor, named.full), named, root_rank, splits, split_counts))


@documented
def scatter(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """This rank's rows of the tensor that the root passes: a new tensor without a gradient. As MPI_Scatterv.

    Args:
        tensor: at least 1-dimensional. Of what the other ranks pass only the dtype and all dimensions but the
            first count, which must be the root's: `torch.empty(0, 5)` will do, None will not (but for
            `scatter_object`).
        splits: on the root, how many rows go to each rank of the set; rows beyond their sum are not sent.
            Without it, of r rows each of the n ranks gets r // n, the first r % n ranks one more.

    Raises:
        HoraShapeError (a ValueError and a RuntimeError): the tensor is a scalar.
        HoraArgumentError (a ValueError): the tensor cannot be sent or divided in that way, its name is under
            way already, the root is no rank of the process set, or this rank is none.
        HoraInternalError (a RuntimeError): the ranks disagree about dtype, root or the other dimensions, or
            one has joined.
    """
    result: torch.Tensor = _job.run(scatter_async, tensor, root_rank, splits, name, process_set)
    return result


def reduce_async(
    tensor: torch.Tensor,
    root_rank: int,
    op: int = ops.Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> Handle:
    """Starts `reduce`; the handle is for `poll` and `synchronize`."""
    how = Reduction(op, prescale_factor, postscale_factor, process_set, compression)
    with Naming("reduce", name, process_set) as named:
        sent, decompressed = how.compressed(tensor)
        submitted = _operations.reduce(Loan(sent, named.full), named, root_rank, how)
        return start(submitted.then(lambda result: None if result is None else decompressed(result)))


@documented
def reduce(
    tensor: torch.Tensor,
    root_rank: int,
    op: int = ops.Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
) -> torch.Tensor | None:
    """The tensor reduced over all ranks, as by `allreduce`, on the root: a new tensor without a gradient;
    None on the other ranks. As MPI_Reduce.

    Args:
        tensor: any shape, the same on all ranks; dtypes as for `allreduce`; dense, on the CPU or a GPU.
        op: Average (default), or any but Adasum, as for `allreduce`.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, there is
            no such op, the root is no rank of the process set, or this rank is none.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype, root or op, or one has
            joined.
    """
    result: torch.Tensor | None = _job.run(
        reduce_async, tensor, root_rank, op, name, process_set, prescale_factor, postscale_factor, compression
    )
    return result


def scan_async(
    tensor: torch.Tensor,
    op: int = ops.Sum,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `scan`; the handle is for `poll` and `synchronize`."""
    with Naming("scan", name, process_set) as named:
        return start(_operations.scan(Loan(tensor, named.full), named, op))


@documented
def scan(
    tensor: torch.Tensor,
    op: int = ops.Sum,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor reduced over this rank and those before it in the process set: a new tensor without a
    gradient. As MPI_Scan.

    Args:
        tensor: any shape, the same on all ranks; dtypes as for `allreduce`; dense, on the CPU or a GPU.
        op: Sum (default), or any but Average and Adasum, as for `allreduce`. 16-bit floats are summed in
            float32 and rounded once.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, there is
            no such op, or this rank is no member of the process set.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype or op, or one has joined.
    """
    result: torch.Tensor = _job.run(scan_async, tensor, op, name, process_set)
    return result
