# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving the job."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from hora import _arrays, _job
from hora import process_sets as sets
from hora._errors import HoraArgumentError, HoraUnsupportedError

_homogeneous = True
_failure = ""


def init(comm: Iterable[int] | None = None, process_sets: Iterable[sets.ProcessSet] | str | None = None) -> None:
    """Joins the job that the environment describes (`hrun` sets it, or torchrun, on one host), or a job of one rank. May be
    called again after `shutdown`, and any number of times in between: then it only registers process sets.

    Args:
        comm: None, or a list of all ranks. For some of the ranks there are process sets.
        process_sets: the sets to register, the same list on all ranks; None or "dynamic": none. Others may be added at any
            time with `add_process_set`.

    Raises:
        HoraTimeoutError: the other ranks did not come within HORA_START_TIMEOUT seconds; it names them.
        HoraArgumentError (a ValueError): a variable of the environment makes no sense, and it names it; or `comm` is not
            all ranks, and this process has not joined; or a process set has ranks that do not exist or are those of
            another, and this process has joined without any of the sets.
    """
    global _homogeneous
    everyone = _checked_comm(comm)
    listed = sets.checked_list(process_sets)
    if _job.enter():
        if everyone is not None and everyone != list(range(_job.size())):
            size = _job.size()
            shutdown()
            raise HoraArgumentError(f"comm={everyone} is not all ranks, 0 to {size - 1}; for some of them use init(process_sets=[ProcessSet([...])])")
        _homogeneous = _gather_homogeneous()
    sets.begin(listed)


def shutdown() -> None:
    """Leaves the job: waits until every rank does. Operations that are still under way end with HoraInternalError; handles
    and process sets are forgotten. Does nothing if this process is in no job."""
    if _job.leave(_failure):
        sets.end()


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks. Raises HoraNotInitializedError (a ValueError) before `init`."""
    _job.runtime()
    return _homogeneous


def _checked_comm(comm: Any) -> list[int] | None:
    if comm is None:
        return None
    if hasattr(comm, "Get_rank"):
        raise HoraUnsupportedError("Hora has no MPI communicators: leave comm out, and use process sets for some of the ranks")
    if isinstance(comm, Iterable) and not isinstance(comm, str):
        ranks = list(comm)
        if all(isinstance(rank, int) for rank in ranks):
            return sorted(ranks)
    raise HoraArgumentError(f"comm must be None or a list of all ranks, not {comm!r}")


def _gather_homogeneous() -> bool:
    """Asks the other ranks only if there are several hosts."""
    if _job.local_size() == _job.size():
        return True
    sizes = _arrays.allgather([_job.local_size()], "init.local_size")
    return bool((sizes == sizes[0]).all())


def _remember_failure(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    global _failure
    if not hasattr(sys, "ps1"):  # an interactive session goes on
        _failure = f"{kind.__name__}: {value}"
    _former_hook(kind, value, trace)


# The other ranks are told why this one leaves, if it is an exception that nobody caught.
_former_hook = sys.excepthook
sys.excepthook = _remember_failure
atexit.register(shutdown)
