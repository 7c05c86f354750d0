# SPDX-License-Identifier: Apache-2.0
"""Operations that are ready to be submitted, whatever lends the elements: an array or a tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from hora import _job, _native
from hora._errors import HoraArgumentError, HoraShapeError
from hora._job import Handle
from hora._naming import Naming

Finish = Callable[[_native.Outcome], Any]  # makes an operation's result of how it ended


class Place(NamedTuple):
    """Where elements are, as an Entry takes it."""

    address: int
    gpu: int | None  # None: in the host's memory
    stream: int  # a cudaStream_t: what makes the elements is on it


class Loan(Protocol):
    """Elements that an operation reads in the memory of their array or tensor, or in a contiguous copy."""

    native: _native.DType
    place: Place

    @property
    def shape(self) -> Sequence[int]:
        """Elements per dimension."""

    def output(self) -> Any:
        """Memory for a result of the same shape."""

    def output_of(self, rows: int) -> Any:
        """Memory for a result of as many rows."""

    def address_of(self, output: Any) -> int:
        """Where the elements of an output are."""

    def checked_output(self, out: Any, rows: int | None, name: str) -> Any:
        """Memory of the caller's for a result of so many rows, or of any number if None. Raises
        HoraArgumentError if it cannot take it as it is."""

    def first(self, rows: int) -> Loan:
        """The first rows."""

    def receiver(self) -> Finish:
        """Gives the output that the runtime allocated. On the host it keeps no elements: a handle that nobody
        synchronises keeps it."""

    def under_way(self, handle: _native.Handle, output: Any) -> _job.UnderWay:
        """The operation to wait for. It keeps the elements and the output."""


@dataclasses.dataclass(slots=True)
class Submission:
    """One array's part in an operation that is to be submitted. A value."""

    entry: _native.Entry
    finish: Finish
    loan: Loan
    output: Any = None  # None: the runtime allocates it, or there is none

    def then(self, change: Callable[[Any], Any]) -> Submission:
        """The same, but `change` makes the result of the former one."""
        finish = self.finish
        return Submission(self.entry, lambda outcome: change(finish(outcome)), self.loan, self.output)

    def under_way(self, handle: _native.Handle) -> _job.UnderWay:
        """The operation to wait for."""
        return self.loan.under_way(handle, self.output)


def submission(
    operation: _native.Operation,
    named: Naming,
    loan: Loan,
    output: Any = None,
    op: _native.ReduceOp = _native.ReduceOp.sum,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: _native.DType = _native.DType.float32,
    root: int = 0,
    *,
    finish: Finish | None = None,
    suffix: str = "",
    **arguments: Any,
) -> Submission:
    """An operation on what is lent.

    Args:
        output: where the result is to be; None: the runtime allocates it, or there is none on this rank.
        op, prescale, postscale, wire, root, arguments: as an Entry takes them.
        finish: makes the result; without one it is `output`.
        suffix: tells the members of a group apart.
    """
    place = loan.place
    entry = _native.Entry(
        operation,
        named.full + suffix,
        loan.native,
        loan.shape,
        place.address,
        0 if output is None else loan.address_of(output),
        named.process_set,
        place.gpu,
        place.stream,
        op,
        prescale,
        postscale,
        wire,
        root,
        **arguments,
    )
    return Submission(entry, finish or (lambda outcome: output), loan, output)


def start(submitted: Submission) -> Handle:
    """Submits an operation; the handle gives its result."""
    handle = _job.runtime().submit(submitted.entry)
    return _job.under_way(submitted.under_way(handle), submitted.finish, submitted)


def start_group(submissions: list[Submission], make: Callable[[tuple[Any, ...]], Any] = tuple) -> Handle:
    """Submits operations, all or none; the handle gives what `make` makes of their results."""
    finishes = [each.finish for each in submissions]

    def finish(outcomes: list[_native.Outcome]) -> Any:
        return make(tuple(each(outcome) for each, outcome in zip(finishes, outcomes, strict=True)))

    handles = _job.runtime().submit_group([each.entry for each in submissions])
    return _job.group_under_way(
        [each.under_way(handle) for each, handle in zip(submissions, handles, strict=True)],
        finish,
        submissions,
    )


def members(items: Any, name: str) -> list[Any]:
    """The arrays or tensors of a group. Raises HoraShapeError if there are none, HoraArgumentError if it is
    no group."""
    if hasattr(items, "dtype") or not isinstance(items, Iterable):
        raise HoraArgumentError(f"'{name}': expected a list of arrays or tensors, not {type(items).__name__}")
    listed = list(items)
    if not listed:
        raise HoraShapeError(f"'{name}': a group needs one array or tensor at least")
    return listed


def start_members(items: Any, named: Naming, part: Callable[[Any, str], Submission]) -> Handle:
    """Submits an operation on each member of a group, all or none; the handle gives the tuple of the results.
    `part` makes a member's part, of the array or tensor and the end of its name."""
    listed = members(items, named.full)
    return start_group([part(item, f"_{number}of{len(listed)}") for number, item in enumerate(listed, 1)])
