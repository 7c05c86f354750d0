# SPDX-License-Identifier: Apache-2.0
"""This process's seat in the job: one current Runtime, and operations by handle numbers."""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import operator
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from hora import _native, _torchrun
from hora._errors import HoraArgumentError, HoraError, HoraInternalError


@dataclasses.dataclass
class _Pending:
    handle: _native.Handle
    finish: Callable[[_native.Outcome], Any]
    keep: tuple[Any, ...]


_lock = threading.Lock()
_runtime: _native.Runtime | None = None
_owner = 0
_pending: dict[int, _Pending] = {}
_handles = itertools.count(1)
_numbers: dict[str, int] = {}
_failure = ""


def init() -> None:
    """Joins the job that the environment describes (`hrun` sets it, or torchrun, on one host), or a job of one rank. Does
    nothing if this process has joined already. May be called again after `shutdown`.

    Raises:
        HoraTimeoutError: the other ranks did not come within HORA_START_TIMEOUT seconds; it names them.
        HoraArgumentError: a variable of the environment makes no sense; it names it.
    """
    global _runtime, _owner
    with _lock:
        if _runtime is not None and _owner == os.getpid():
            return
        _torchrun.adopt()
        _runtime = _native.Runtime()
        _owner = os.getpid()
        _numbers.clear()


def shutdown() -> None:
    """Leaves the job: waits until every rank does. Operations that are still under way end with HoraInternalError.
    Does nothing if this process is in no job."""
    global _runtime
    with _lock:
        runtime, _runtime = _runtime, None
    if runtime is not None and _owner == os.getpid():
        runtime.shutdown(_failure)


def is_initialized() -> bool:
    """Whether this process is in a job. False in a forked child: only the rank itself is."""
    return _runtime is not None and _owner == os.getpid()


def runtime() -> _native.Runtime:
    """The current Runtime. Raises HoraInternalError if there is none."""
    current = _runtime
    if current is None:
        raise HoraInternalError("Hora is not initialised: call init() first")
    return current


def rank() -> int:
    """This process's number, from 0 to size() - 1."""
    return runtime().rank


def size() -> int:
    """How many ranks the job has."""
    return runtime().size


def local_rank() -> int:
    """This process's number among those on its host."""
    return runtime().local_rank


def local_size() -> int:
    """How many ranks are on this host."""
    return runtime().local_size


def cross_rank() -> int:
    """This host's number among those that have a process with this local rank."""
    return runtime().cross_rank


def cross_size() -> int:
    """How many hosts have a process with this local rank."""
    return runtime().cross_size


def checked_root(root_rank: Any, name: str) -> int:
    """A root rank as a number. Whether there is such a rank is checked when the operation is submitted."""
    try:
        return operator.index(root_rank)
    except TypeError:
        raise HoraArgumentError(f"'{name}': root_rank must be the number of a rank, not {root_rank!r}") from None


def name_or_number(operation: str, name: str | None) -> str:
    """ "allreduce.x", or "allreduce.noname.3": unnamed operations are matched by the order in which ranks issue them."""
    if name is not None:
        return f"{operation}.{name}"
    with _lock:
        _numbers[operation] = _numbers.get(operation, 0) + 1
        return f"{operation}.noname.{_numbers[operation]}"


def track(handle: _native.Handle, finish: Callable[[_native.Outcome], Any], *keep: Any) -> int:
    """Gives an operation a number. `finish` makes its result of how it ended; `keep` lives until then."""
    with _lock:
        number = next(_handles)
        _pending[number] = _Pending(handle, finish, keep)
        return number


def poll(handle: int) -> bool:
    """Whether `synchronize(handle)` would return at once.

    Raises:
        HoraArgumentError: there is no such operation, or it has been synchronised already.
    """
    pending = _pending.get(handle)
    if pending is None:
        raise HoraArgumentError(f"there is no operation under way with handle {handle}")
    return pending.handle.poll()


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result: the output tensor, or None for a barrier. Returns None if the
    handle is unknown or was synchronised before. Ctrl-C interrupts the wait, not the operation: its memory stays lent,
    and the handle may be synchronised again.

    Raises:
        HoraInternalError: the ranks disagreed, or the job failed; the text names the tensor and the ranks.
    """
    with _lock:
        pending = _pending.get(handle)
    if pending is None:
        return None
    try:
        outcome = pending.handle.wait()
    except HoraError:
        _forget(handle)
        raise
    _forget(handle)
    return pending.finish(outcome)


def _forget(handle: int) -> None:
    with _lock:
        _pending.pop(handle, None)


def barrier() -> None:
    """Returns when every rank has called it."""
    handle = runtime().submit(_native.Entry(_native.Operation.barrier, name_or_number("barrier", None), _native.DType.uint8, []))
    handle.wait()


def _remember_failure(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    global _failure
    if not hasattr(sys, "ps1"):  # an interactive session goes on
        _failure = f"{kind.__name__}: {value}"
    _former_hook(kind, value, trace)


# The other ranks are told why this one leaves, if it is an exception that nobody caught.
_former_hook = sys.excepthook
sys.excepthook = _remember_failure
atexit.register(shutdown)
