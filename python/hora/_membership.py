# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving the job."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - before this module registers what runs at the end
import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hora import _arrays, _ending, _job, _mpi, _native, _traces
from hora import process_sets as sets
from hora._errors import HoraArgumentError, HoraInternalError, HoraRanksChangedError
from hora._native import JobListener
from hora._objects import broadcast_object

_homogeneous = True
_identities: list[int] = []  # of an elastic job: the number of each rank's process, which never changes


def init(
    comm: Any = None,
    process_sets: Iterable[sets.ProcessSet] | str | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    coordinator: str = "",
    secret: bytes = b"",
    listener: JobListener | None = None,
    local_rank: int | None = None,
    local_size: int | None = None,
) -> None:
    """Joins the job that the environment describes (as hrun, torchrun, srun, mpirun and others do: see
    docs/clusters.md), or a job of one rank. With `rank` and `size` it is a job that no launcher describes.
    May be called again after `shutdown`, and any number of times in between: then it only registers process
    sets. If C or C++ in this process has joined, this is that job.

    Args:
        comm: None, or a list of all ranks; for some of the ranks there are process sets. Or a communicator of
            mpi4py: its processes are the ranks of the job, in its order; each process passes the one that it
            is in, so that several communicators make several jobs. It must live until `shutdown`.
        process_sets: the sets to register, the same list on all ranks; None or "dynamic": none. Others may be
            added at any time with `add_process_set`.
        rank, size: this process is rank `rank`, from 0 to `size` - 1. The environment does not count for
            that then.
        coordinator: "host:port", the same on all ranks: rank 0 listens at this free port of its host.
        secret: 32 random bytes, the same on all ranks, such as those of `secrets.token_bytes(32)`. All who
            know them can join the job.
        listener: rank 0 may give a `JobListener` in place of both. The others get its coordinator and secret.
        local_rank, local_size: this process's number among the ranks of its host, and how many those are. The
            ranks find out by themselves without these.

    Raises:
        HoraTimeoutError: the other ranks did not come within HORA_START_TIMEOUT seconds; it names them.
        HoraArgumentError (a ValueError): a variable of the environment makes no sense, and it names it; or
            `comm` is not all ranks, and this process has not joined; or it is COMM_NULL, or of another MPI
            library than Hora's; or MPI does not know the ranks that the launcher has started (use `hrun
            --mpi` or mpirun); or a process set has ranks that do not exist or are those of another, and this
            process has joined without any of the sets; or the arguments that tell this process's place do
            not go together, or it has another place already.
    """
    communicator = _mpi.checked_communicator(comm) if hasattr(comm, "py2f") else None
    everyone = _checked_comm(comm) if communicator is None else None
    place = _checked_place(comm, rank, size, coordinator, secret, listener, local_rank, local_size)
    listed = sets.checked_list(process_sets)
    _traces.HOOK.install()  # errors of joining are printed in this way, too
    _join(communicator, everyone, place)
    sets.begin(listed)


def _join(communicator: int | None, everyone: list[int] | None, place: _native.Place | None) -> None:
    global _homogeneous
    if _job.was_left_elsewhere():
        shutdown()
    if _job.enter(communicator, place):
        _ending.watch()
        if everyone is not None and everyone != list(range(_job.size())):
            size = _job.size()
            shutdown()
            raise HoraArgumentError(
                f"comm={everyone} is not all ranks, 0 to {size - 1}; for some of them use "
                "init(process_sets=[ProcessSet([...])])"
            )
        if communicator is None:
            _mpi.tell_of_singleton()
        if _job.runtime().is_elastic:
            _begin_generation()
        else:
            _homogeneous = _gather_homogeneous()
    if place is not None and (place.rank, place.size) != (_job.rank(), _job.size()):
        raise HoraArgumentError(
            f"this process is rank {_job.rank()} of {_job.size()} already; call shutdown() before it gets "
            "another place"
        )


def next_generation() -> None:
    """Goes on with the ranks that are left, and with those that join, in an elastic job (`hrun --min-np`).
    Waits until there are enough. Handles are forgotten. Process sets lose the ranks that were lost; ranks
    that join are in none. All ranks call it.

    Raises:
        HoraInternalError: this process is not among them any more, the job is not elastic, or this rank's GPU
            does not end what it was given.
        SystemExit: this process was asked to leave, and has left in order. Exit code 0.
    """
    joins = _job.is_alone()
    with _ends_if_it_has_left():
        _job.runtime().next_generation()
    _job.give_back_kept()
    _begin_generation(joins)


def commit(make: Callable[[], None] = lambda: None, has_state: bool = True) -> bool:
    """Votes for a training step, and waits until all ranks have voted. The step counts on all ranks, or on
    none: returns whether it does, and then has called `make`. If a rank was lost, this rank is in the next
    generation afterwards, as after `next_generation`, whether the step counts or not. If processes wait to
    join, `Runtime.change_is_due` says so afterwards, on all ranks. In a job that is not elastic every step
    counts, and nothing is sent. All ranks call it, when they hold the reduced gradients of the step.
    `has_state`: whether others may get the state of the training from this rank from then on.

    Raises:
        HoraInternalError: this process is not among the ranks that are left, or the job has failed.
        SystemExit: as `next_generation`.
    """
    runtime = _job.runtime()
    former = runtime.generation
    with _ends_if_it_has_left():
        counts = not runtime.is_elastic or runtime.commit(has_state)
    if counts:
        make()
    if runtime.generation != former:
        _job.give_back_kept()
        _begin_generation()  # not before: it clears gradients
    return counts


def _begin_generation(joins: bool = False) -> None:
    """Forgets what belongs to the former generation, and registers the process sets that are left. If ranks
    are lost meanwhile, it does so for the generation after that. One rank may have come further with it than
    another then, which changes nothing of what they exchange. `joins`: this process was in none before."""
    global _homogeneous, _identities
    kept = sets.to_keep(_identities)
    agreed = _job.agreements()
    while True:
        _job.begin_generation()
        sets.end()
        try:
            member, local_size = int(os.environ["HORA_MEMBER_ID"]), _job.local_size()
            told = [member, sets.registered_ever(), local_size, joins, _digest(agreed)]
            met = _arrays.allgather(told, "elastic.met").reshape(-1, 5)
            _identities = met[:, 0].tolist()
            _homogeneous = bool((met[:, 2] == met[0, 2]).all())
            stay = [rank for rank, new in enumerate(met[:, 3]) if not new] or list(range(len(met)))
            sets.begin([])
            all_agree = bool((met[stay, 4] == met[stay[0], 4]).all())
            if len(stay) < len(met):  # those that join hear of it from one that knows it
                known = (sets.as_numbers(kept), agreed)
                numbers, agreed = broadcast_object(known, stay[0], "elastic.known")
                kept = sets.from_numbers(numbers, kept)
                able = _arrays.allgather([int(_job.can_recall(agreed))], "elastic.able")
                all_agree = all_agree and bool(able.all())
            sets.follow(kept, int(met[stay, 1].min()), _identities)
            if all_agree:
                _job.recall(agreed)
        except HoraRanksChangedError:
            with _ends_if_it_has_left():
                _job.runtime().next_generation()
        else:
            return


def _digest(agreed: dict[str, list[int]]) -> int:
    """A number that is the same on two ranks only if they have agreed on the same."""
    text = repr(sorted(agreed.items())).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)


@contextlib.contextmanager
def _ends_if_it_has_left() -> Iterator[None]:
    """Ends the program, with exit code 0, if there is no other generation because this process has left."""
    try:
        yield
    except HoraInternalError:
        if not _job.runtime().has_left:
            raise
        raise SystemExit(0) from None


def shutdown() -> None:
    """Leaves the job: waits until every rank does, and after HORA_MISSING_WARNING one line on stderr says for
    whom. Operations that are still under way end with HoraInternalError; others that wait for a message of
    this rank hear at once that it has left. Handles and process sets are forgotten. Does nothing if this
    process is in no job."""
    leave("")


def leave(failure: str) -> None:
    if _job.leave(failure):
        sets.end()
    _ending.forget()
    _traces.HOOK.remove()


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks. Raises HoraNotInitializedError (a ValueError) before
    `init`."""
    _job.runtime()
    return _homogeneous


def _checked_comm(comm: Any) -> list[int] | None:
    if comm is None:
        return None
    if isinstance(comm, Iterable) and not isinstance(comm, str):
        ranks = list(comm)
        if all(isinstance(rank, int) for rank in ranks):
            return sorted(ranks)
    raise HoraArgumentError(
        f"comm must be None, a list of all ranks, or a communicator of mpi4py, not {comm!r}"
    )


def _checked_place(
    comm: Any,
    rank: int | None,
    size: int | None,
    coordinator: str,
    secret: bytes,
    listener: JobListener | None,
    local_rank: int | None,
    local_size: int | None,
) -> _native.Place | None:
    """Checks which are given together. Their values are checked when the process joins."""
    if (rank is None) != (size is None):
        raise HoraArgumentError("init() takes both rank= and size=, or neither")
    if (local_rank is None) != (local_size is None):
        raise HoraArgumentError("init() takes both local_rank= and local_size=, or neither")
    if rank is None or size is None:
        if coordinator or secret or listener or local_rank is not None:
            raise HoraArgumentError("init() needs rank= and size= for what says where the ranks meet")
        return None
    if comm is not None:
        raise HoraArgumentError("init() takes either comm or rank= and size=")
    if listener is not None:
        if rank != 0 or coordinator or secret:
            raise HoraArgumentError(
                "init() takes listener= of rank 0 alone, and then neither coordinator= nor secret="
            )
        coordinator, secret = listener.coordinator, listener.secret
    local = None if local_rank is None or local_size is None else (local_rank, local_size)
    return _native.Place(rank, size, coordinator, secret, local, None if listener is None else listener.fd)


def _gather_homogeneous() -> bool:
    """Asks the other ranks only if there are several hosts."""
    if _job.local_size() == _job.size():
        return True
    sizes = _arrays.allgather([_job.local_size()], "init.local_size")
    return bool((sizes == sizes[0]).all())


def _when_the_main_thread_ends() -> None:
    """The other ranks are told at once of an exception that nobody caught: threads for which the interpreter
    waits before it runs what was registered with atexit may themselves wait for ranks that are not told yet.
    An error that came from the job is on its way to the others already; if no thread waits, they hear at exit
    that it has ended this rank, too."""
    waits = _ending.others_are_alive()
    failure = _ending.uncaught() if waits or not _ending.comes_from_the_job() else ""
    if not failure and waits:
        failure = _ending.likely_exit()
    if failure:
        leave(failure)


def _leave_at_exit() -> None:
    if _ending.ended_in_order():
        leave("")
    else:
        _job.leave_at_exit(_ending.reasons(), _ending.uncaught() or _ending.likely_exit())


# The last to be registered is the first to run. concurrent.futures registers when it is imported, and then
# waits for its threads. Programs register after they have imported Hora: what they register may still use the
# job.
threading._register_atexit(_when_the_main_thread_ends)  # type: ignore[attr-defined]
atexit.register(_leave_at_exit)
