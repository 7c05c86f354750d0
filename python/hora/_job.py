# SPDX-License-Identifier: Apache-2.0
"""This process's place in the job: one current Runtime, and operations by handle numbers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any, ParamSpec, Protocol

from hora import _completions, _native, _stacks
from hora._errors import HoraArgumentError, HoraError, HoraNotInitializedError, HoraUnavailableError
from hora._nccl import packaged_nccl

Arguments = ParamSpec("Arguments")


class UnderWay(Protocol):
    """An operation under way, and what is lent to it: a native handle, or one of `OnGpu`."""

    def poll(self) -> bool:
        """Whether it has ended, on a GPU, too."""

    def wait(self) -> _native.Outcome:
        """Returns how it has ended when its output may be used. Raises HoraError."""

    def wait_for_end(self) -> _native.Outcome:
        """Returns when it has ended, on a GPU, too. Raises HoraError."""

    def wait_for(self, seconds: float) -> bool:
        """Whether it has ended, on a GPU, too, within so many seconds."""

    def watch(self, queue: _native.CompletionQueue, token: int) -> None:
        """Puts the token into the queue when it has ended, on a GPU, too."""

    def let_go_if_ended(self) -> bool:
        """Whether it has ended, on a GPU, too; what is lent to it on the host is let go then."""


class OnGpu:
    """An operation on a GPU, and what is lent to it: tensors, arrays, whatever keeps their memory.

    It is kept until it has been given back, as what is lent on the host is by the native handle. But what is
    lent to an operation that has ended with an error because the job has is kept until the job's next
    generation, or for the rest of the process. The runtime gives up on a GPU that does not end what was
    aborted, whose work may write there later; memory that went back to a framework's allocator would be
    somebody else's then. The next generation begins only when the GPU has ended that work.
    """

    __slots__ = ("_handle", "_lent")

    def __init__(self, handle: _native.Handle, *lent: Any) -> None:
        self._handle = handle
        self._lent = lent
        _on_gpus.add(self)
        if len(_on_gpus) > _most_on_gpus:
            _let_go_on_gpus()

    def poll(self) -> bool:
        """Whether it has ended, on the GPU, too."""
        return self._handle.poll()

    def wait(self) -> _native.Outcome:
        """Returns how it has ended when its output may be used. Raises HoraError."""
        raise NotImplementedError

    def wait_for_end(self) -> _native.Outcome:
        """Returns when it has ended, on the GPU, too. Raises HoraError."""
        return self._given_back_by(self._handle.wait)

    def wait_for(self, seconds: float) -> bool:
        """Whether it has ended, on the GPU, too, within so many seconds."""
        return self._handle.wait_for(seconds)

    def watch(self, queue: _native.CompletionQueue, token: int) -> None:
        """Puts the token into the queue when it has ended, on the GPU, too."""
        self._handle.watch(queue, token)

    def let_go_if_ended(self) -> bool:
        """Whether it has ended; what is lent to it is let go then."""
        if not self._handle.has_ended():
            return False
        with contextlib.suppress(HoraError):
            self.wait_for_end()
        return True

    def _given_back_by(self, wait: Callable[[], _native.Outcome]) -> _native.Outcome:
        outcome = self._waited(wait)
        _on_gpus.discard(self)
        return outcome

    def _waited(self, wait: Callable[[], _native.Outcome]) -> _native.Outcome:
        try:
            return wait()
        except HoraError:
            if self in _on_gpus and not _goes_on():
                _kept.append(self)
            _on_gpus.discard(self)
            raise


def let_go_of_ended() -> None:
    """Lets go of what was lent to operations that have ended, though nobody has waited for them."""
    _native.let_go_of_ended()
    _let_go_on_gpus()


def _let_go_on_gpus() -> None:
    global _most_on_gpus
    for each in _on_gpus.copy():
        each.let_go_if_ended()
    _most_on_gpus = max(_FEW, 2 * len(_on_gpus))


def check_goes_on() -> None:
    """Raises HoraInternalError if the job has failed or ended. Asks no other rank."""
    current = runtime()
    current.probe(current.rank, 0, 0)  # as any call would


def _goes_on() -> bool:
    try:
        check_goes_on()
    except HoraError:
        return False
    return True


@dataclasses.dataclass(slots=True)
class _Pending:
    """One operation, or a group of them, that the user knows by one number."""

    handles: Sequence[UnderWay]
    finish: Callable[[list[_native.Outcome]], Any]
    keep: tuple[Any, ...]

    def let_go_if_ended(self) -> bool:
        """Whether all have ended; what is lent to them is let go then, but for what `finish` makes the result
        of."""
        ended = [each.let_go_if_ended() for each in self.handles]
        if all(ended):
            self.keep = ()
        return all(ended)


_FEW = 64

_on_gpus: set[OnGpu] = set()  # adding, discarding and copying are atomic
_most_on_gpus = _FEW  # until it is looked which have ended
_kept: list[OnGpu] = []  # until the next generation
_lock = threading.Lock()
_runtime: _native.Runtime | None = None
_owner = 0
_pending: dict[int, _Pending] = {}  # getting and popping one are atomic
_last_handle = 0  # no number is used twice: a callback of an earlier job may still come
_former_handles = 0  # those up to this one were of earlier jobs
_lending: list[int] = []  # of _pending: what may have memory on loan
_most_lending = _FEW  # until it is looked which have ended
_of_parent: list[
    _Pending
] = []  # what was under way when this process was forked: never ends here, nor is it let go
_numbers: dict[tuple[str, int], int] = {}
_lasting: weakref.WeakSet[Lasting] = weakref.WeakSet()
_agreements: weakref.WeakSet[Agreement] = weakref.WeakSet()
_objects: dict[
    tuple[str, int], int
] = {}  # that communicate, by kind and process set: how many there have been


def _set_apart_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that is not here may hold the other one
    _of_parent.extend(_pending.values())
    _pending.clear()


os.register_at_fork(after_in_child=_set_apart_in_child)


def enter(mpi_communicator: int | None = None, place: _native.Place | None = None) -> bool:
    """Joins the job, whose ranks are the processes of the communicator if one is given (its number in
    Fortran), with the `place` if one is given; False if Python has joined already. If C or C++ in this
    process has, this is that job."""
    global _runtime, _owner
    with _lock:
        if is_initialized():
            return False
        _runtime = _native.Runtime(mpi_communicator, packaged_nccl(), place)
        _stacks.tell_frames_of_python()
        _owner = os.getpid()
    _begin_numbers()
    return True


def leave(failure: str) -> bool:
    """Leaves the job, and forgets every handle; False if this process is in none. With a `failure` the job
    fails."""
    global _former_handles
    runtime = _taken()
    if runtime is None:
        return False
    runtime.shutdown(failure)
    _forget_handles()
    _former_handles = _last_handle
    return True


class Lasting(Protocol):
    """An object that outlives a generation, and has agreed on something with its ranks."""

    def begin_generation(self) -> None:
        """The job goes on with other ranks: what was under way has ended, and nothing is agreed on."""


class Agreement(Protocol):
    """Numbers that all ranks have agreed on. The next generation keeps them if all its ranks know them."""

    label: str  # the same on all ranks

    def agreed(self) -> list[int]:
        """The numbers; none if the ranks have not agreed on any."""

    def can_recall(self, agreed: list[int]) -> bool:
        """Whether these numbers of another rank can be those of this object."""

    def recall(self, agreed: list[int]) -> None:
        """After `begin_generation`: all ranks agree on these numbers."""


def tell_of_generations(lasting: Lasting) -> None:
    """Calls its `begin_generation` each time, as long as it lives."""
    _lasting.add(lasting)


def keep_agreement(agreement: Agreement) -> None:
    """Takes it from one generation to the next, as long as the object lives."""
    _agreements.add(agreement)


def agreements() -> dict[str, list[int]]:
    """The agreements of the ranks, by the label of the object."""
    return {each.label: numbers for each in list(_agreements) if (numbers := each.agreed())}


def can_recall(agreed: dict[str, list[int]]) -> bool:
    """Whether this process has the objects of these agreements."""
    own = {each.label: each for each in list(_agreements)}
    return all(label in own and own[label].can_recall(numbers) for label, numbers in agreed.items())


def recall(agreed: dict[str, list[int]]) -> None:
    """After `begin_generation`: all ranks have these agreements."""
    for each in list(_agreements):
        if each.label in agreed:
            each.recall(agreed[each.label])


def is_alone() -> bool:
    """Whether hrun has started this process in a running job, which it has not joined yet: it is rank 0 of 1
    until it does."""
    return is_initialized() and runtime().is_elastic and runtime().generation == 0


def state_root() -> int:
    """The rank from which the others get the state of the training: the first one that has it, if there are
    ranks that do not have it, else rank 0."""
    return max(runtime().state_root, 0)


def begin_generation() -> None:
    """Forgets every handle, and what the former ranks have agreed on."""
    _forget_handles()
    with _lock:
        _numbers.clear()  # those of objects stay, as the objects do
    for each in list(_lasting):
        each.begin_generation()


def give_back_kept() -> None:
    """Lets go of what was kept of operations that have failed. This rank's GPU has ended all of them."""
    _kept.clear()


def _forget_handles() -> None:
    """Forgets the handles of operations that have ended with their job, or with a generation of it."""
    let_go_of_ended()  # only now: before that, memory is lent to them
    with _lock:
        _pending.clear()
        _lending.clear()


def _begin_numbers() -> None:
    """Makes names count from the beginning, as they do on all ranks."""
    with _lock:
        _numbers.clear()
        for kind, process_set in list(_objects):
            if process_set != 0:
                del _objects[kind, process_set]


def leave_at_exit(reasons: dict[int, str], likely: str) -> None:
    """Leaves the job when the process exits, after the interpreter: in order if its exit status is 0, else
    for the reason that belongs to that. Until then all that is lent is kept. MPI may end with the
    interpreter, so a job that uses it is left at once, with the failure that is `likely`."""
    runtime = _taken()
    if runtime is None:
        return
    if runtime.uses_mpi or not _native.shutdown_at_exit(runtime, reasons, (_pending, _on_gpus, _kept)):
        runtime.shutdown(likely)


def _taken() -> _native.Runtime | None:
    """The current Runtime, which is nobody's from now on; None if this process is in no job."""
    global _runtime
    with _lock:
        runtime, _runtime = _runtime, None
    if _owner != os.getpid():
        return None
    return runtime


def is_initialized() -> bool:
    """Whether this process is in a job. False in a forked child: only the rank itself is."""
    current = _runtime  # another thread may leave
    return current is not None and _owner == os.getpid() and not current.was_shut_down


def was_left_elsewhere() -> bool:
    """Whether C or C++ has left the job, and Python has not yet."""
    current = _runtime
    return current is not None and _owner == os.getpid() and current.was_shut_down


def runtime() -> _native.Runtime:
    """The current Runtime. Raises HoraNotInitializedError if there is none."""
    current = _runtime
    if current is None:
        raise HoraNotInitializedError("Hora is not initialised: call init() first")
    return current


def rank() -> int:
    """This process's number, from 0 to size() - 1. Raises HoraNotInitializedError (a ValueError) before
    `init`."""
    return runtime().rank


def size() -> int:
    """How many ranks the job has. Raises HoraNotInitializedError (a ValueError) before `init`."""
    return runtime().size


def local_rank() -> int:
    """This process's number among those on its host. Raises HoraNotInitializedError (a ValueError) before
    `init`."""
    return runtime().local_rank


def local_size() -> int:
    """How many ranks are on this host. Raises HoraNotInitializedError (a ValueError) before `init`."""
    return runtime().local_size


def cross_rank() -> int:
    """This host's number among those that have a process with this local rank. Raises HoraNotInitializedError
    (a ValueError) before `init`."""
    return runtime().cross_rank


def cross_size() -> int:
    """How many hosts have a process with this local rank. Raises HoraNotInitializedError (a ValueError)
    before `init`."""
    return runtime().cross_size


def name_or_number(operation: str, name: str | None, process_set: int = 0) -> str:
    """ "allreduce.x", or "allreduce.noname.3": unnamed operations are matched by the order in which ranks
    issue them. Each process set counts for itself, so that its members stay in step with each other whatever
    they do in other sets."""
    if name is not None:
        return f"{operation}.{name}"
    with _lock:
        number = _numbers[operation, process_set] = _numbers.get((operation, process_set), 0) + 1
    return f"{operation}.noname.{number}"


def object_name(kind: str, process_set: int | None) -> str:
    """The name of an object that communicates, such as an optimizer: "gradient.0", or "gradient.set1.0" in a
    process set. Every set counts for itself, as a rank need not be in all of them. Counts of sets begin again
    with each job, as the numbers of the sets do. That of all ranks never does, as such an object may outlive
    the job. None: a set of the others, which this process has no part in."""
    place = -1 if process_set is None else process_set
    with _lock:
        number = _objects.get((kind, place), 0)
        _objects[kind, place] = number + 1
    return f"{kind}.set{place}.{number}" if place else f"{kind}.{number}"


def return_number(operation: str, process_set: int, name: str) -> None:
    """Makes the number of an operation that was not submitted the next one again."""
    with _lock:
        number = _numbers.get((operation, process_set))
        if number is not None and name == f"{operation}.noname.{number}":  # else another thread has gone on
            _numbers[operation, process_set] = number - 1


def restart_numbers() -> None:
    """Makes operations of all ranks that have no name count from 1 again, for ranks that are out of step."""
    with _lock:
        for operation, process_set in list(_numbers):
            if process_set == 0:
                del _numbers[operation, process_set]


class Handle(int):
    """An operation under way: its number, as Horovod's functions take and return it."""

    __slots__ = ()

    def then(self, callback: Callable[[Handle], object]) -> None:
        """Calls `callback(handle)` when the operation has ended, well or not, on a GPU, too. It gets the
        result or the error by `synchronize(handle)`. After `shutdown`, and in the next generation of an
        elastic job, that raises HoraArgumentError.

        All callbacks run on one thread of Python's, one after the other. So a callback may call anything of
        Hora's, but others wait while it runs. An exception of a callback is printed as that of any
        thread. Callbacks that have not run when the interpreter ends never do.

        Raises:
            HoraArgumentError: the handle was synchronised before, or is none of this job's.
        """
        _completions.call(_pending_of(self).handles, lambda: callback(self))

    def __await__(self) -> Generator[Any, None, Any]:
        """`await handle` in a coroutine of asyncio gives what `synchronize(handle)` returns or raises; the
        event loop goes on meanwhile. If the coroutine is cancelled, the operation is not: its memory stays
        lent."""
        pending = _pending_of(self)
        yield from _completions.awaited(pending.handles)
        return _result(self, pending)


def start(entry: _native.Entry, finish: Callable[[_native.Outcome], Any], *keep: Any) -> Handle:
    """Submits an operation, and gives it a number. `finish` makes its result of how it ended; `keep` lives
    until it has."""
    return under_way(runtime().submit(entry), finish, *keep)


def under_way(handle: UnderWay, finish: Callable[[_native.Outcome], Any], *keep: Any) -> Handle:
    """Gives what has been started a number. `finish` makes its result of how it ended; `keep` lives until it
    has."""
    return _numbered([handle], lambda outcomes: finish(outcomes[0]), keep)


def group_under_way(
    handles: Sequence[UnderWay], finish: Callable[[list[_native.Outcome]], Any], *keep: Any
) -> Handle:
    """Gives what has been started as a group one number together. `finish` makes the result, and lives until
    then; `keep` lives until all have ended."""
    return _numbered(handles, finish, keep)


def _numbered(
    handles: Sequence[UnderWay], finish: Callable[[list[_native.Outcome]], Any], keep: tuple[Any, ...]
) -> Handle:
    global _last_handle
    with _lock:
        _last_handle += 1
        number = Handle(_last_handle)
        _pending[number] = _Pending(handles, finish, keep)
        _lending.append(number)
        many = len(_lending) > _most_lending
    if many:
        _let_go_of_pending()
    return number


def _let_go_of_pending() -> None:
    """Lets go of what was lent to operations that have ended and wait to be synchronised, perhaps for
    ever."""
    global _lending, _most_lending
    with _lock:
        looked_at, _lending = _lending, []
    pending = [(number, _pending.get(number)) for number in looked_at]
    left = [
        number for number, each in pending if each is not None and not each.let_go_if_ended()
    ]  # not under the lock: memory is freed
    with _lock:
        _lending += left
        _most_lending = max(_FEW, 2 * len(_lending))


def _pending_of(handle: int) -> _Pending:
    """The operation that a handle stands for. Raises HoraArgumentError if that was synchronised before, or
    was never started."""
    pending = _pending.get(handle) if isinstance(handle, int) else None
    if pending is not None:
        return pending
    if _owner not in (0, os.getpid()):
        raise HoraUnavailableError(
            f"this process (pid {os.getpid()}) was forked from the rank (pid {_owner}) and is none: only the "
            "rank itself can use Hora"
        )
    if isinstance(handle, int) and _former_handles < handle <= _last_handle:
        raise HoraArgumentError(
            f"handle {handle} was already synchronized; each is good for one synchronize(), which gives the "
            "result or raises the error"
        )
    if callable(handle):
        raise HoraArgumentError(
            "a function is no handle: what sparse_allreduce_async() returns is called in place of "
            "synchronize()"
        )
    raise HoraArgumentError(
        f"{handle!r} is no handle of an operation in this job; handles are what functions such as "
        "allreduce_async() and isend() return"
    )


def poll(handle: int) -> bool:
    """Whether an operation has ended, on the GPU, too: `synchronize(handle)` would return at once. If not,
    other threads and ranks that have work for this core go first (sched_yield); so it may be asked again and
    again.

    Raises:
        HoraArgumentError: the handle was synchronised before, or is none of this job's.
    """
    return all(each.poll() for each in _pending_of(handle).handles)


def wait_for(handle: int, seconds: float) -> bool:
    """Whether an operation has ended within so many seconds. It stays to be synchronised."""
    end = time.monotonic() + seconds
    return all(each.wait_for(end - time.monotonic()) for each in _pending_of(handle).handles)


def run(start: Callable[Arguments, int], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Any:
    """`synchronize(start(...))`, without waking anybody else in between."""
    with _native.BlockingScope():
        return synchronize(start(*args, **kwargs))


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result: the output tensor, a tuple of them for a group, (output,
    received splits) for alltoall. Each handle is good for one call. Ctrl-C interrupts the wait, not the
    operation: its memory stays lent, and the handle may be synchronised again.

    Of an operation on a GPU it waits only until all ranks have submitted it: what is put on the current
    stream from now on waits for its end, as for that of any work on the GPU.

    Raises:
        HoraArgumentError: the handle was synchronised before, or is none of this job's.
        HoraInternalError: the ranks disagreed, or the job failed; the text names the tensor and the ranks.
    """
    return _result(handle, _pending_of(handle))


def _result(handle: int, pending: _Pending) -> Any:
    outcomes: list[_native.Outcome] = []
    error: HoraError | None = None
    for each in pending.handles:  # all, also after an error: until they have ended, their memory is lent
        try:
            outcomes.append(each.wait())
        except HoraError as raised:
            error = error or raised
    if _pending.get(handle) is pending:
        _pending.pop(handle, None)
    if error is not None:
        raise error
    return pending.finish(outcomes)
