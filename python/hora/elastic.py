# SPDX-License-Identifier: Apache-2.0
"""Training that survives failures: state that can be taken back, and a loop that starts again from it.

After an error that all ranks have met they go on from what was last committed. In a job that `hrun --min-np`
has started they do so too after the loss of a rank, with the ranks that are left. In other jobs a rank that
has died ends the job. Processes that are started while the job runs are taken in at the next commit, and
SIGTERM makes a process leave there.
"""

from __future__ import annotations

import abc
import enum
import functools
import os
import queue
import select
from collections.abc import Callable, Iterable
from typing import Any

import hora
from hora import _job
from hora._errors import HoraError, HoraInternalError, HoraRanksChangedError
from hora._membership import commit, next_generation
from hora._objects import allgather_object

_DEATH_SECONDS = 1.0  # for a process that has left a job to end


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts have come or gone: the job is to be joined again. With `skip_sync` the state is the same on all
    ranks."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("hosts have come or gone")
        self.skip_sync = skip_sync


class HostUpdateResult(enum.IntFlag):
    """How the hosts have changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class State(abc.ABC):
    """The state without which training would have to begin again. `bcast_object(object)` returns rank 0's
    object on every rank; `get_rank()` is this process's rank."""

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._updates: queue.Queue[tuple[float, int]] = queue.Queue()
        self._last_update: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Functions that are called, in this order, each time the job has been joined again, before
        `sync`."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The job has been joined again: forgets news of hosts, and calls `reset` and the callbacks."""
        self._updates = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Hosts have changed, as a HostUpdateResult says. `check_host_updates` looks at it. From any
        thread."""
        self._updates.put((timestamp, update_res))

    def commit(self) -> None:
        """`save`, then `check_host_updates`. In an elastic job the ranks also vote, so that all or none go on
        from here. All ranks call it alike."""
        self.save()
        vote()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt on every rank if processes wait to join an elastic job, or to leave,
        as all have heard with the last `commit`; or if rank 0 has heard of a change by `on_hosts_updated`.
        All ranks call it alike."""
        if _job.is_initialized() and _job.runtime().change_is_due:
            raise HostsUpdatedInterrupt
        newest, kinds = self._last_update, int(HostUpdateResult.no_update)
        while not self._updates.empty():
            timestamp, kind = self._updates.get()
            if timestamp > newest:
                newest = timestamp
                kinds |= kind
        former, self._last_update, kinds = self._bcast_object((self._last_update, newest, kinds))
        if self._last_update > former:
            raise HostsUpdatedInterrupt(skip_sync=kinds == HostUpdateResult.removed)

    @abc.abstractmethod
    def save(self) -> None:
        """Remembers how things are."""

    @abc.abstractmethod
    def restore(self) -> None:
        """Makes things as they were when they were last saved."""

    @abc.abstractmethod
    def sync(self) -> None:
        """Makes things on every rank as they are on rank 0. All ranks call it alike."""

    def reset(self) -> None:  # noqa: B027 - may be overridden, need not
        """For what depends on the job's ranks."""


def _snapshot(value: Any) -> Any:
    """Lists, dicts and sets as copies, all through; anything else as it is."""
    if type(value) is dict:
        return {key: _snapshot(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_snapshot(item) for item in value)
    return set(value) if type(value) is set else value


class ObjectState(State):
    """State of Python objects: every further keyword is an attribute, to be read and assigned.

    `save` copies lists, dicts and sets, and keeps other objects as they are: assign new ones instead of
    changing them. `sync` pickles: the other ranks get copies of what rank 0 has now.
    """

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state: dict[str, Any] = {}
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        ObjectState.save(self)

    def save(self) -> None:
        self._saved_state = {name: _snapshot(getattr(self, name)) for name in self._names}

    def restore(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, _snapshot(value))

    def sync(self) -> None:
        ObjectState.save(self)
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            ObjectState.restore(self)


def vote() -> None:
    """Waits until all ranks are here, in an elastic job. Raises HoraRanksChangedError if one was lost."""
    if not _job.is_initialized():
        return  # a state that is used outside a job
    former = _job.runtime().generation
    if not commit() or _job.runtime().generation != former:
        raise HoraRanksChangedError("the ranks of the job have changed; the next generation has begun")


class Peers:
    """The processes that are this job's other ranks, watched for their end. One host, and Linux."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[int, int]] = {}

    def meet(self) -> None:
        """Learns who they are. All ranks call it alike."""
        processes = allgather_object(os.getpid(), "elastic.processes")
        self.forget()
        for rank, pid in enumerate(processes):
            if rank != _job.rank():
                try:
                    self._watched[os.pidfd_open(pid)] = (rank, pid)
                except OSError:
                    continue  # it is not to be seen from here; joining again tells if it is gone

    def forget(self) -> None:
        for descriptor in self._watched:
            os.close(descriptor)
        self._watched = {}

    def ended(self, seconds: float) -> tuple[int, int] | None:
        """The rank and the process of one that has ended, or ends within that time."""
        poll = select.poll()
        for descriptor in self._watched:
            poll.register(descriptor, select.POLLIN)
        found = poll.poll(seconds * 1000) if self._watched else []
        return min((self._watched[descriptor] for descriptor, _ in found), default=None)


def rejoin(peers: Peers) -> None:
    """Goes on with the ranks that are left, if the job is elastic. Else leaves the job and joins it again,
    with the ranks that it had.

    Raises:
        HoraInternalError: a rank has ended, and membership is fixed; or they did not come in time. It names
            them. In an elastic job: this process is not among the ranks that are left.
    """
    if _job.runtime().is_elastic:
        next_generation()
        return
    hora.shutdown()
    gone = peers.ended(_DEATH_SECONDS)
    if gone is not None:
        raise HoraInternalError(
            f"the job cannot be joined again: rank {gone[0]} (process {gone[1]}) has ended; start it again "
            "with `hrun --min-np`, and it goes on without the ranks that it loses"
        )
    hora.init()


class Notifications:
    """The listeners that are told when hosts come or go. In a job of fixed membership only `notify` tells
    them."""

    def __init__(self) -> None:
        self._listeners: list[State] = []

    def init(self) -> None:
        """Nothing is to be started."""

    def register_listener(self, listener: State) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: State) -> None:
        self._listeners.remove(listener)

    def notify(self, timestamp: float, update_res: int) -> None:
        """Tells the listeners of this process. Those of rank 0 decide."""
        for listener in self._listeners:
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = Notifications()


def _reset(state: State, reset: Callable[[], None], reason: BaseException, generation: int) -> None:
    """Joins the job again, as often as ranks are lost meanwhile; unless a vote has done so already: then the
    generation is no longer the one of before. Takes the state back only then, as a GPU may write to it until
    it has ended what it was given before."""
    restores = isinstance(reason, HoraInternalError)
    try:
        while True:
            try:
                if _job.runtime().generation == generation:
                    reset()
                generation = _job.runtime().generation
                if restores:
                    restores = False
                    state.restore()
                state.on_reset()
                return
            except HoraRanksChangedError as error:
                reason = error
            except HoraError as error:
                raise error from reason
    finally:
        if restores:  # it has not been joined
            state.restore()


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Wraps `func(state, ...)`: synchronises the state and calls it. After a HoraInternalError or a
    HostsUpdatedInterrupt it calls `reset()`, which joins the job again. After an error it then takes the
    state back to what was last committed. It calls `state.on_reset()`, and begins anew. Other exceptions, and
    those of `reset`, pass through."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        notification_manager.init()
        notification_manager.register_listener(state)
        skip_sync = False
        reason: BaseException
        try:
            while True:
                generation = _job.runtime().generation
                try:
                    if not skip_sync:
                        state.sync()
                        vote()  # from here on every rank has the state
                    return func(state, *args, **kwargs)
                except HoraInternalError as error:
                    skip_sync = False
                    reason = error
                except HostsUpdatedInterrupt as interrupt:
                    skip_sync = interrupt.skip_sync
                    reason = interrupt
                _reset(state, reset, reason, generation)
        finally:
            notification_manager.remove_listener(state)

    return wrapper


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates `func(state, ...)`, which trains, so that it survives errors that all ranks meet:

        @hvd.elastic.run
        def train(state):
            for state.epoch in range(state.epoch, epochs):
                ...
                state.commit()

    First the state of rank 0 is given to all. After a HoraInternalError the ranks take back what they have
    done since the last `commit`, join the job again, call the state's reset callbacks, and call `func` again.
    In an elastic job (`hrun --min-np`) they do so without the ranks that were lost.

    Raises:
        HoraInternalError: a rank has ended, and the job is not elastic; the text names it.
    """
    peers = Peers()

    @functools.wraps(func)
    def watched(state: State, *args: Any, **kwargs: Any) -> Any:
        if not _job.runtime().is_elastic:
            peers.meet()
        return func(state, *args, **kwargs)

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        _job.runtime().leave_on_sigterm()
        if _job.is_alone():
            next_generation()
        try:
            return run_fn(watched, functools.partial(rejoin, peers))(state, *args, **kwargs)
        finally:
            peers.forget()

    return wrapper
