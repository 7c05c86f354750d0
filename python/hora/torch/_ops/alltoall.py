# SPDX-License-Identifier: Apache-2.0
"""alltoall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import torch

from hora import _job, _operations
from hora._errors import HoraArgumentError
from hora._job import Handle
from hora._naming import Naming
from hora._rows import checked_splits
from hora._submission import start
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.arguments import documented
from hora.torch._ops.lending import Loan, tracked

Splits = Sequence[int] | torch.Tensor | None


def split_counts(splits: Splits, rows: int, size: int, name: str) -> list[int]:
    """How many rows go to each rank of the set. Raises HoraArgumentError."""
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1:
            raise HoraArgumentError(f"'{name}': splits must have 1 dimension, not {splits.dim()}")
        if splits.dtype != torch.int32:
            raise HoraArgumentError(
                f"'{name}': splits must have 32-bit integer elements, not {splits.dtype}; use "
                ".to(torch.int32)"
            )
        return checked_splits(splits.tolist(), rows, size, name)
    return checked_splits(splits, rows, size, name)


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: torch.Tensor | None = None,
) -> Handle:
    """Starts `alltoall`, without autograd; the handle is for `poll` and `synchronize`, which returns (output,
    received splits), also without `splits`."""
    device = splits.device if isinstance(splits, torch.Tensor) else torch.device("cpu")

    def with_counts(result: tuple[torch.Tensor, list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        return result[0], torch.tensor(result[1], dtype=torch.int32, device=device)

    with Naming("alltoall", name, process_set) as named:
        submitted = _operations.alltoall(Loan(tensor, named.full), named, splits, split_counts, out)
        return start(submitted.then(with_counts))


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Splits, name: str | None, process_set: ProcessSet
    ) -> tuple[torch.Tensor, torch.Tensor]:
        output: torch.Tensor
        counts: torch.Tensor
        output, counts = _job.run(alltoall_async, tensor, splits, name, process_set)
        ctx.mark_non_differentiable(counts)
        ctx.received = counts.tolist()
        ctx.rows = tensor.shape[0]
        ctx.process_set = process_set
        return output, counts

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        back, _ = alltoall(gradients[0], ctx.received, process_set=ctx.process_set)
        unsent = back.new_zeros(ctx.rows - back.shape[0], *back.shape[1:])
        return torch.cat([back, unsent]), None, None, None


@overload
def alltoall(
    tensor: torch.Tensor,
    splits: None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: torch.Tensor | None = None,
) -> torch.Tensor: ...


@overload
def alltoall(
    tensor: torch.Tensor,
    splits: Sequence[int] | torch.Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]: ...


@documented
def alltoall(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Sends rows to each rank of the set, and receives rows from each: in rank order, both. Differentiable:
    gradients travel back to where the rows came from; rows that were not sent get zeros.

    Args:
        tensor: at least 1-dimensional; any dtype that `broadcast` takes; dense, on the CPU or a GPU. The
            first dimension may differ from rank to rank; the others and the dtype are the same.
        splits: how many rows go to each rank of the set: a sequence of numbers, or a 1-dimensional int32
            tensor on any device. Equal parts without it. Rows beyond their sum are not sent.
        out: where the received rows go, in place of a new tensor: contiguous, of the same dtype, on the same
            device. Then the result is not differentiable.

    Returns:
        Without `splits` the received rows, a new tensor or `out`. With `splits` a pair: that tensor, and how
        many rows came from each rank of the set, an int32 tensor on the device of `splits` if that is a
        tensor.

    Raises:
        HoraShapeError (a ValueError and a RuntimeError): the tensor is a scalar.
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, this rank
            is no member of the process set; `splits` has another length, dtype or number of dimensions, is
            negative somewhere or more than there are rows; or there is none and the rows cannot be divided
            evenly; or `out` cannot take the result as it is.
        HoraInternalError (a RuntimeError): the ranks disagree about dtype or the other dimensions, or one has
            joined; or, on this rank alone, the others send another number of rows than `out` has.
    """
    if out is None and tracked(tensor):
        output, counts = _Alltoall.apply(tensor, splits, name, process_set)  # type: ignore[no-untyped-call, unused-ignore]
    else:
        output, counts = _job.run(alltoall_async, tensor, splits, name, process_set, out)
    return output if splits is None else (output, counts)
