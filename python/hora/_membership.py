# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving the job."""

from __future__ import annotations

import atexit
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, NoReturn

from hora import _arrays, _job, _native
from hora import process_sets as sets
from hora._errors import HoraArgumentError, HoraUnsupportedError

_homogeneous = True
_failure = ""


def init(comm: Any = None, process_sets: Iterable[sets.ProcessSet] | str | None = None) -> None:
    """Joins the job that the environment describes (as hrun, torchrun, srun, mpirun and others do: see the README,
    "Clusters"), or a job of one rank. May be called again after `shutdown`, and any number of times in between: then it only
    registers process sets.

    Args:
        comm: None, or a list of all ranks; for some of the ranks there are process sets. Or a communicator of mpi4py: its
            processes are the ranks of the job, in its order; each process passes the one that it is in, so that several
            communicators make several jobs. It must live until `shutdown`.
        process_sets: the sets to register, the same list on all ranks; None or "dynamic": none. Others may be added at any
            time with `add_process_set`.

    Raises:
        HoraTimeoutError: the other ranks did not come within HORA_START_TIMEOUT seconds; it names them.
        HoraArgumentError (a ValueError): a variable of the environment makes no sense, and it names it; or `comm` is not
            all ranks, and this process has not joined; or it is COMM_NULL, or of another MPI library than Hora's; or a
            process set has ranks that do not exist or are those of another, and this process has joined without any of
            the sets.
    """
    global _homogeneous
    communicator = _checked_communicator(comm) if hasattr(comm, "py2f") else None
    everyone = _checked_comm(comm) if communicator is None else None
    listed = sets.checked_list(process_sets)
    if _job.enter(communicator):
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
    if isinstance(comm, Iterable) and not isinstance(comm, str):
        ranks = list(comm)
        if all(isinstance(rank, int) for rank in ranks):
            return sorted(ranks)
    raise HoraArgumentError(f"comm must be None, a list of all ranks, or a communicator of mpi4py, not {comm!r}")


def _checked_communicator(comm: Any) -> int:
    """The number that a communicator of mpi4py has in MPI's Fortran interface, which every C library understands."""
    from mpi4py import MPI

    if not comm:
        raise HoraArgumentError("comm is COMM_NULL: this process is in no communicator; only those that are call init(comm=...)")
    ours = _native.mpi_library()
    if not ours:
        raise HoraUnsupportedError("init(comm=...) needs libhora_mpi.so: build Hora where CMake finds MPI (apt-get install libopenmpi-dev)")
    theirs = MPI.Get_library_version()
    if not theirs.startswith(ours):
        raise HoraArgumentError(f"comm belongs to another MPI library: mpi4py uses {theirs.splitlines()[0]}, and Hora {ours}; build both with the same")
    return int(comm.py2f())


def _gather_homogeneous() -> bool:
    """Asks the other ranks only if there are several hosts."""
    if _job.local_size() == _job.size():
        return True
    sizes = _arrays.allgather([_job.local_size()], "init.local_size")
    return bool((sizes == sizes[0]).all())


def _describe(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> str:
    """ "ValueError: bad batch (train.py:31)", named as in a traceback."""
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    text = f"{module}{kind.__qualname__}: {value}".removesuffix(": ")
    return text + _where(traceback.walk_tb(trace))


def _where(frames: Iterable[tuple[FrameType, int]]) -> str:
    """ " (train.py:31)": the innermost line that belongs to no library, if there is one; empty if there are no frames."""
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    own = [place for place in places if not place[0].startswith(_LIBRARIES)]
    if not places:
        return ""
    path, line = (own or places)[-1]
    return f" ({os.path.basename(path)}:{line})"


def _remember_failure(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    try:
        if _ends_the_program():
            _tell_at_the_end(_describe(kind, value, trace))
    finally:
        _former_hook(kind, value, trace)


def _remember_exit(status: Any = None, /) -> NoReturn:
    """Stands in for sys.exit: nothing else knows, before the interpreter is gone, that the program ends with an error."""
    if status not in (None, 0) and _ends_the_program():
        outwards = traceback.walk_stack(sys._getframe(1))
        _tell_at_the_end(f"sys.exit({status!r}){_where(reversed(list(outwards)))}")
    _former_exit(status)


def _tell_at_the_end(failure: str) -> None:
    global _failure, _teller
    _failure = failure
    if _teller is None:
        _teller = threading.Thread(target=_tell_when_the_program_ends, name="hora-last-words", daemon=True)
        _teller.start()


def _ends_the_program() -> bool:
    """Not in an interactive session, nor in a program that becomes one, nor on a thread of its own."""
    interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    return not interactive and threading.current_thread() is threading.main_thread()


def _tell_when_the_program_ends() -> None:
    """Whoever calls the hook only to print an exception goes on. And other threads, for which the interpreter waits before it
    runs what was registered with atexit, may themselves wait for ranks that are not told yet."""
    threading.main_thread().join()
    shutdown()


def _leave_at_exit() -> None:
    if _teller is not None:
        _teller.join()
    shutdown()


_LIBRARIES = ("<frozen ", os.path.dirname(__file__) + os.sep, *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")))

# The other ranks are told why this one leaves, if it is an exception that nobody caught, or an exit code.
_teller: threading.Thread | None = None
_former_hook = sys.excepthook
_former_exit = sys.exit
sys.excepthook = _remember_failure
sys.exit = _remember_exit
atexit.register(_leave_at_exit)
