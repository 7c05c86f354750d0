# SPDX-License-Identifier: Apache-2.0
"""The collective operations, for arrays and for tensors alike.

The public functions of `hora` and `hora.torch` have the signatures and the documentation. They name the
operation (`Naming`), lend the elements (`Loan`), and submit the part that a function here makes of these.
Errors of arguments are raised here, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hora import _job, _native, ops
from hora._arguments import checked_root
from hora._naming import Naming
from hora._reduction import Reduction
from hora._rows import check_rows, checked_splits, share
from hora._submission import Loan, Submission, submission

#: How many rows go to each rank: of `splits`, the rows, the number of ranks, and the operation's name.
Divide = Callable[[Any, int, int, str], list[int]]


def allreduce(loan: Loan, named: Naming, how: Reduction, suffix: str = "") -> Submission:
    """Gives a new array."""
    return submission(_native.Operation.allreduce, named, loan, loan.output(), *how.natively(), suffix=suffix)


def broadcast(loan: Loan, named: Naming, root_rank: int, suffix: str = "") -> Submission:
    """Gives a new array, also on the root."""
    root = checked_root(root_rank, named.full)
    return submission(_native.Operation.broadcast, named, loan, loan.output(), root=root, suffix=suffix)


def _sizing(
    operation: _native.Operation, named: Naming, loan: Loan, suffix: str, out: Any, **arguments: Any
) -> Submission:
    """An operation whose output has as many rows as all ranks together make it: gives the output, which is
    `out` unless that is None, and the rows of each rank."""
    if out is None:
        receive = loan.receiver()
        return submission(
            operation,
            named,
            loan,
            finish=lambda outcome: (receive(outcome), outcome.rows),
            suffix=suffix,
            **arguments,
        )
    output = loan.checked_output(out, None, named.full + suffix)
    return submission(
        operation,
        named,
        loan,
        output,
        finish=lambda outcome: (out, outcome.rows),
        suffix=suffix,
        output_rows=output.shape[0],
        **arguments,
    )


def allgather(loan: Loan, named: Naming, suffix: str = "", out: Any = None) -> Submission:
    """Gives the gathered array, and the rows of each rank."""
    check_rows(loan.shape, named.full + suffix)
    return _sizing(_native.Operation.allgather, named, loan, suffix, out)


def alltoall(
    loan: Loan, named: Naming, splits: Any, divide: Divide = checked_splits, out: Any = None
) -> Submission:
    """Gives the received rows, and how many of them came from each rank."""
    check_rows(loan.shape, named.full)
    counts = divide(splits, loan.shape[0], named.size, named.full)
    return _sizing(_native.Operation.alltoall, named, loan.first(sum(counts)), "", out, splits=counts)


def reducescatter(loan: Loan, named: Naming, how: Reduction, suffix: str = "", out: Any = None) -> Submission:
    """Gives this rank's rows of the reduced array."""
    check_rows(loan.shape, named.full + suffix)
    ops.check_scattered(how.op, named.full + suffix)
    rows = share(loan.shape[0], named.rank, named.size)
    if out is None:
        output = made = loan.output_of(rows)
    else:
        output, made = loan.checked_output(out, rows, named.full + suffix), out
    return submission(
        _native.Operation.reducescatter,
        named,
        loan,
        output,
        *how.natively(),
        finish=lambda outcome: made,
        suffix=suffix,
    )


def gather(loan: Loan, named: Naming, root_rank: int) -> Submission:
    """Gives the gathered array on the root, None on the others."""
    check_rows(loan.shape, named.full)
    root = checked_root(root_rank, named.full)
    is_root = root == _job.rank()
    receive = loan.receiver()
    return submission(
        _native.Operation.gather,
        named,
        loan,
        finish=lambda outcome: receive(outcome) if is_root else None,
        root=root,
    )


def scatter(
    loan: Loan, named: Naming, root_rank: int, splits: Any, divide: Divide = checked_splits
) -> Submission:
    """Gives this rank's rows of the root's array."""
    check_rows(loan.shape, named.full)
    root = checked_root(root_rank, named.full)
    counts = (
        divide(splits, loan.shape[0], named.size, named.full)
        if root == _job.rank() and splits is not None
        else []
    )
    return submission(
        _native.Operation.scatter, named, loan, finish=loan.receiver(), root=root, splits=counts
    )


def reduce(loan: Loan, named: Naming, root_rank: int, how: Reduction) -> Submission:
    """Gives the reduced array on the root, None on the others."""
    root = checked_root(root_rank, named.full)
    output = loan.output() if root == _job.rank() else None
    return submission(_native.Operation.reduce, named, loan, output, *how.natively(), root)


def scan(loan: Loan, named: Naming, op: int) -> Submission:
    """Gives the array reduced over this rank and those before it."""
    reduction = ops.native(ops.checked(op))
    return submission(_native.Operation.scan, named, loan, loan.output(), op=reduction)
