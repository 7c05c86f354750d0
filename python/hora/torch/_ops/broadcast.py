# SPDX-License-Identifier: Apache-2.0
"""broadcast."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Any

import torch

from hora import _job, _native, _operations, ops
from hora._arguments import checked_root
from hora._job import Handle
from hora._naming import Naming
from hora._submission import Submission, start, start_group, submission
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.allreduce import allreduce
from hora.torch._ops.arguments import documented
from hora.torch._ops.lending import Loan, lent_in_place, start_at_once, tracked, written


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `broadcast`, without autograd; the handle is for `poll` and `synchronize`, which returns the new
    tensor."""
    with Naming("broadcast", name, process_set) as named:
        return start(_operations.broadcast(Loan(tensor, named.full), named, root_rank))


def _in_place(loan: Loan, root_rank: int, named: Naming) -> Submission:
    """The result is the tensor itself."""
    return submission(
        _native.Operation.broadcast,
        named,
        loan,
        loan.memory,
        finish=lambda outcome: loan.written_back(),
        root=checked_root(root_rank, named.full),
    )


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `broadcast_`; the handle is for `poll` and `synchronize`, which returns the tensor. A tensor
    whose elements do not lie side by side has its new values once `synchronize` has returned."""
    with Naming("broadcast", name, process_set) as named:
        started = start_at_once(
            _native.Operation.broadcast, named, tensor, tensor, root=checked_root(root_rank, named.full)
        )
        if started is not None:
            return started
        return start(_in_place(lent_in_place(tensor, named.full), root_rank, named))


def _is_among(tensor: torch.Tensor, ranges: list[tuple[int, int]]) -> bool:
    """Whether memory of a contiguous tensor is in one of these ranges, which are in order and do not overlap;
    else adds its own."""
    begin = tensor.data_ptr()
    end = begin + tensor.nbytes
    place = bisect.bisect_left(ranges, (end, 0))
    if begin == end or (place > 0 and ranges[place - 1][1] > begin):
        return begin != end
    ranges.insert(place, (begin, end))
    return False


def _apart(tensor: torch.Tensor, root_rank: int, named: Naming) -> Submission:
    """In a copy that is written back."""
    copied = _in_place(Loan(tensor.clone(), named.full), root_rank, named)
    return copied.then(lambda result: written(tensor, result))


def broadcast_all_(
    tensors: Iterable[tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet
) -> None:
    """`broadcast_` of tensors with their names, all together or none. Several may share memory, as tied
    parameters do."""
    submissions = []
    lent: list[tuple[int, int]] = []
    for name, tensor in tensors:
        named = Naming("broadcast", name, process_set)
        loan = lent_in_place(tensor, named.full)
        if _is_among(loan.memory, lent):
            submissions.append(_apart(tensor, root_rank, named))
        else:
            submissions.append(_in_place(loan, root_rank, named))
    if submissions:
        _job.synchronize(start_group(submissions))


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """`broadcast` in place, without autograd; returns the tensor itself.

    Raises:
        HoraArgumentError (a ValueError): as `broadcast`; or the tensor is an expanded one.
        HoraInternalError (a RuntimeError): as `broadcast`.
    """
    result: torch.Tensor = _job.run(broadcast_async_, tensor, root_rank, name, process_set)
    return result


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.root_rank = root_rank
        ctx.process_set = process_set
        result: torch.Tensor = _job.run(broadcast_async, tensor, root_rank, name, process_set)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        mean = allreduce(gradients[0], op=ops.Average, process_set=ctx.process_set)
        return mean if _job.rank() == ctx.root_rank else torch.zeros_like(mean), None, None, None


@documented
def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor of the root. Differentiable: the root gets the average of all ranks' gradients, as
    in Horovod, the others zeros.

    Args:
        tensor: any shape, the same on all ranks; dtype an integer or a float of 8 to 64 bits (float8_e4m3fn
            and its like, too), complex64, complex128 or bool; dense, on the CPU or a GPU.

    Returns:
        A new tensor on every rank, also on the root.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, its name is under way already, the root
            is no rank of the process set, or this rank is none.
        HoraInternalError (a RuntimeError): the ranks disagree about shape, dtype or root, or one has joined.
    """
    if tracked(tensor):
        differentiable: torch.Tensor = _Broadcast.apply(tensor, root_rank, name, process_set)  # type: ignore[no-untyped-call, unused-ignore]
        return differentiable
    result: torch.Tensor = _job.run(broadcast_async, tensor, root_rank, name, process_set)
    return result
