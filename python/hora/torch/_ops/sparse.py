# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors: indices and values of all ranks, one after the other, are the sparse form of the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hora import _job, _native, _operations, ops
from hora._errors import HoraArgumentError, HoraUnsupportedError
from hora._job import Handle
from hora._naming import Naming
from hora._submission import Submission, start_group, submission
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.arguments import documented
from hora.torch._ops.lending import Loan, check_tensor, is_floating, written
from hora.torch._ops.reduction import Reduction


def is_sparse(tensor: Any) -> bool:
    """Whether it is a tensor that is not dense."""
    return isinstance(tensor, torch.Tensor) and tensor.layout != torch.strided


def _gathered(tensor: torch.Tensor, named: Naming, suffix: str) -> Submission:
    return _operations.allgather(Loan(tensor, named.full + suffix), named, suffix).then(
        lambda result: result[0]
    )


def _shape_compared(tensor: torch.Tensor, named: Naming) -> Submission:
    """No elements, but a shape that the ranks must agree about; of what is gathered the number of rows may
    differ."""
    loan = Loan(
        torch.empty(*tensor.shape, 0, dtype=tensor.dtype, device=tensor.device), f"{named.full}.shape"
    )
    return submission(
        _native.Operation.allreduce, named, loan, loan.memory, finish=lambda outcome: None, suffix=".shape"
    )


def _scaled(whole: torch.Tensor, factor: float, divisor: int) -> torch.Tensor:
    """The tensor times `factor`, divided by `divisor`; integers are truncated toward zero, once."""
    if factor == 1 and divisor == 1:
        return whole
    if is_floating(whole):
        return whole * (factor / divisor)
    whole = whole.coalesce()
    if factor == 1:
        return whole.div(divisor, rounding_mode="trunc")
    return (whole.to(torch.float64) * (factor / divisor)).to(whole.dtype)


def _start(
    tensor: torch.Tensor, named: Naming, how: Reduction, make: Callable[[torch.Tensor], Any]
) -> Handle:
    """`make` gets the reduced tensor: all ranks' elements, several with the same indices if it is so."""
    check_tensor(tensor, named.full)
    if tensor.layout != torch.sparse_coo:
        raise HoraArgumentError(
            f"'{named.full}': expected a sparse COO tensor, not one of layout {tensor.layout}; convert with "
            ".to_sparse_coo()"
        )
    if how.op not in (ops.Average, ops.Sum):
        raise HoraUnsupportedError(
            f"'{named.full}': sparse tensors are reduced by op=Average or op=Sum; for the others make it "
            "dense with .to_dense()"
        )
    tensor = tensor.detach()
    factor = how.prescale * how.postscale
    divisor = named.size if how.op == ops.Average else 1

    def finish(parts: tuple[Any, ...]) -> Any:
        with torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]  # others have sent them
            whole = torch.sparse_coo_tensor(parts[1].t(), parts[2], tensor.shape)
        return make(_scaled(whole, factor, divisor))

    gathered = [
        _gathered(tensor._indices().t(), named, ".indices"),
        _gathered(tensor._values(), named, ".values"),
    ]
    return start_group([_shape_compared(tensor, named), *gathered], finish)


def start_allreduce(tensor: torch.Tensor, named: Naming, how: Reduction) -> Handle:
    """Starts an allreduce; its result is a new coalesced tensor."""
    return _start(tensor, named, how, lambda whole: whole.coalesce())


def start_allreduce_in_place(tensor: torch.Tensor, named: Naming, how: Reduction) -> Handle:
    """Starts an allreduce; its result is the tensor itself."""
    return _start(tensor, named, how, lambda whole: written(tensor, whole.coalesce()))


@documented
def sparse_allreduce_async(
    tensor: torch.Tensor, name: str | None, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    """Starts a reduction of a sparse COO tensor, without autograd: the indices and values of all ranks are
    gathered.

    Args:
        tensor: sparse COO, the same shape and dtype on all ranks, with any number of elements on each, or
            none.
        op: Average or Sum. Averages divide by the size of the set.

    Returns:
        A function without arguments, not a handle. It waits, and returns a new sparse tensor, not coalesced:
        elements with the same indices count together.

    Raises:
        HoraArgumentError (a ValueError): the tensor is not sparse or cannot be sent, its name is under way
            already, or this rank is no member of the process set.
        HoraUnsupportedError (a ValueError): another op.
        HoraInternalError (a RuntimeError), by the function: the ranks disagree about shape or dtype.
    """
    how = Reduction(op, 1.0, 1.0, process_set)
    with Naming("sparse_allreduce", name, process_set) as named:
        handle = _start(tensor, named, how, lambda whole: whole)

    def finish() -> torch.Tensor:
        result: torch.Tensor = _job.synchronize(handle)
        return result

    return finish
