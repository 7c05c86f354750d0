# SPDX-License-Identifier: Apache-2.0
"""Messages from one rank to another, point to point: send and recv, for arrays. The other ranks take no
part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from hora import _job, _native
from hora._arguments import checked_number, documents
from hora._errors import HoraArgumentError, HoraUnsupportedError
from hora._job import Handle
from hora._loans import Array, check_on_host, lend_on_host, native_dtype, received, viewed
from hora.process_sets import ProcessSet, global_process_set, number_of

Value = TypeVar("Value")
Dtype = TypeVar("Dtype")

#: `recv`, `probe`: from whichever rank.
ANY_SOURCE = -1
#: `recv`, `probe`: with whichever tag.
ANY_TAG = -1


_PROCESS_SET = "a set that both ranks belong to, and give alike: each set has messages of its own."

#: The documentation of functions that send, and of those that receive.
sending = documents(
    dest="the rank that receives it, by its number in the job; may be this one.",
    tag="0 or more, for the receiver to choose by. Messages of one rank with one tag arrive in the order\n"
    "sent.",
    process_set=_PROCESS_SET,
)
receiving = documents(
    source="the rank that sends it; ANY_SOURCE: whichever does.",
    tag="the tag that it is sent with; ANY_TAG: whichever it is.",
    process_set=_PROCESS_SET,
)


class Received(NamedTuple, Generic[Value]):
    """The result of `recv`: the array, tensor or object, the rank that sent it, and its tag."""

    value: Value
    source: int
    tag: int


class Envelope(NamedTuple, Generic[Dtype]):
    """The result of `probe`: the rank that sent the message, its tag, and dtype and shape of the array. Of an
    object the dtype is None, and the shape has the length of its pickle."""

    source: int
    tag: int
    dtype: Dtype | None
    shape: tuple[int, ...]


def checked_address(dest: Any, tag: Any, process_set: ProcessSet, operation: str) -> tuple[int, int, int]:
    """Where a message goes, its tag, and the number of the process set. Raises HoraArgumentError for what
    only a receiver may say, and as `number_of`."""
    rank = checked_number(dest, operation, "dest", "the number of a rank")
    checked_tag = checked_number(tag, operation, "tag", "a number")
    if checked_tag == ANY_TAG:
        raise HoraArgumentError(
            f"'{operation}': ANY_TAG (-1) is for who receives; a message is sent with a tag of 0 or more"
        )
    if rank == ANY_SOURCE:
        raise HoraArgumentError(
            f"'{operation}': dest=-1 is no rank: a message goes to one of the ranks 0 to {_job.size() - 1}"
        )
    return rank, checked_tag, number_of(process_set, operation)


def checked_choice(source: Any, tag: Any, process_set: ProcessSet, operation: str) -> tuple[int, int, int]:
    """The source, the tag and the number of the process set of the messages that are wanted."""
    return (
        checked_number(source, operation, "source", "the number of a rank, or ANY_SOURCE"),
        checked_number(tag, operation, "tag", "a number, or ANY_TAG"),
        number_of(process_set, operation),
    )


def result(value: Value, outcome: _native.Outcome) -> Received[Value]:
    return Received(value, outcome.source, outcome.tag)


def _numpy_dtype(native: _native.DType) -> np.dtype[Any]:
    try:
        return np.dtype(native.name)
    except TypeError:
        raise HoraUnsupportedError(
            f"NumPy has no {native.name} of its own: import ml_dtypes, which has it, or use the function of "
            "this name in hora.torch"
        ) from None


def _target(array: Any, operation: str) -> tuple[Array, Array]:
    """An array to receive into as NumPy sees it, and where elements are to come: there, or elsewhere if they
    do not lie side by side. Raises HoraArgumentError for what cannot be received into."""
    if isinstance(array, (bool, int, float, list, tuple, np.generic)):
        hint = "; write source= and tag= by name" if isinstance(array, int) else ""
        raise HoraArgumentError(
            f"'{operation}': {type(array).__name__} has no memory to receive into; give a "
            f"NumPy array, or none{hint}"
        )
    check_on_host(array, operation)
    view = viewed(array, operation)
    if not view.flags.writeable:
        raise HoraArgumentError(
            f"'{operation}': the array is read-only, so nothing can be received into it; give one that can "
            "be written, or none"
        )
    if view.size > 0 and any(
        stride == 0 and extent > 1 for extent, stride in zip(view.shape, view.strides, strict=True)
    ):
        raise HoraArgumentError(
            f"'{operation}': several elements of the array share one place, so nothing can be received into "
            "it; use array.copy()"
        )
    return view, view if view.flags.c_contiguous else np.empty(view.shape, view.dtype)


def isend(array: Any, dest: int, tag: int = 0, process_set: ProcessSet = global_process_set) -> Handle:
    """Starts `send`; the handle is for `poll` and `synchronize`, which returns None. Until then the array
    must not be changed."""
    address = checked_address(dest, tag, process_set, "send")
    view = lend_on_host(array, "send")
    handle = _job.runtime().send(*address, native_dtype(view), list(view.shape), view.ctypes.data)
    return _job.under_way(handle, lambda outcome: None, view)


@sending
def send(array: Any, dest: int, tag: int = 0, process_set: ProcessSet = global_process_set) -> None:
    """Sends an array to one rank, which calls `recv`. As MPI_Send.

    A small array (64 KiB and less, as a rule) has been copied when this returns, whether the receiver wants
    it yet or not; a larger one has been received. So ranks that send each other large arrays use `isend` or
    `irecv`, or one of them receives first: else each waits for the other.

    Args:
        array: any shape; any dtype that `broadcast` takes; on the CPU.

    Raises:
        HoraArgumentError: the array cannot be sent, there is no such rank, or the tag is negative; nothing
            was sent.
        HoraInternalError: the rank has left the job and not taken a large array, and the text names it; it
            cannot be reached; or the job has failed, as it does when a rank has not received a large array
            for HORA_MISSING_TIMEOUT.
    """
    _job.synchronize(isend(array, dest, tag, process_set))


def irecv(
    array: Any = None,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `recv`; the handle is for `poll` and `synchronize`, which returns what `recv` does. An array to
    receive into has its new values once `synchronize` has returned."""
    choice = checked_choice(source, tag, process_set, "recv")
    if array is None:
        handle = _job.runtime().receive(*choice)
        return _job.under_way(
            handle, lambda outcome: result(received(outcome, _numpy_dtype(outcome.dtype)), outcome)
        )
    view, memory = _target(array, "recv")

    def finish(outcome: _native.Outcome) -> Received[Any]:
        if memory is not view:
            view[...] = memory
        return result(array, outcome)

    handle = _job.runtime().receive(*choice, native_dtype(view), list(view.shape), memory.ctypes.data)
    return _job.under_way(handle, finish, view, memory)


@receiving
def recv(
    array: Any = None,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    process_set: ProcessSet = global_process_set,
) -> Received[Any]:
    """Receives an array that another rank has sent to this one, or will. As MPI_Recv.

    Args:
        array: where to receive it; the message must be of its shape and dtype. Without one, a new array of
            whatever shape and dtype the message has.

    Returns:
        `Received(value, source, tag)`: the array, who sent it, and with which tag.

    Raises:
        HoraArgumentError: the array is read-only or nothing can be received into it, or there is no such
            rank.
        HoraInternalError: the message has another shape or dtype, or is an object, and the text says both; it
            is lost then, and the job goes on. Or the rank has left the job (from ANY_SOURCE: all others have)
            and nothing is left of what it sent, and the text names it. Or the job has failed, as it does when
            nothing has been sent for HORA_MISSING_TIMEOUT.
        HoraUnsupportedError: the message has bfloat16 elements, and NumPy knows of none; it is lost.
    """
    got: Received[Any] = _job.synchronize(irecv(array, source, tag, process_set))
    return got


def seen(
    source: int, tag: int, process_set: ProcessSet, dtype_of: Callable[[_native.DType], Dtype]
) -> Envelope[Dtype] | None:
    """`probe`, with dtypes as `dtype_of` makes them."""
    envelope = _job.runtime().probe(*checked_choice(source, tag, process_set, "probe"))
    if envelope is None:
        return None
    return Envelope(
        envelope.source,
        envelope.tag,
        None if envelope.object else dtype_of(envelope.dtype),
        tuple(envelope.shape),
    )


@receiving
def probe(
    source: int = ANY_SOURCE, tag: int = ANY_TAG, process_set: ProcessSet = global_process_set
) -> Envelope[np.dtype[Any]] | None:
    """The message that `recv` with these arguments would take now: `Envelope(source, tag, dtype, shape)`;
    None if none has come yet. It does not wait, and the message stays where it is. Of an object the dtype is
    None. As MPI_Iprobe.

    Raises:
        HoraArgumentError: there is no such rank.
        HoraInternalError: the rank has left the job and nothing is left of what it sent, or the job has
            failed.
    """
    return seen(source, tag, process_set, _numpy_dtype)
