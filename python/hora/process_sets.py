# SPDX-License-Identifier: Apache-2.0
"""Process sets: operations among some of the ranks. Sets may overlap, and operations of several be under way
at once."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from hora import _job, _native
from hora._errors import HoraArgumentError, HoraProcessSetError, HoraUnsupportedError


class ProcessSet:
    """Some of the job's ranks. Give it to `init(process_sets=[...])` or to `add_process_set`, then as
    `process_set=` to operations.

    Args:
        ranks: numbers of ranks, in any order; kept sorted.

    Raises:
        HoraArgumentError (a ValueError): something in it is no number.
        HoraUnsupportedError (a ValueError, a NotImplementedError): it is an MPI communicator.
    """

    process_set_id: int | None = None  #: its number while it is registered
    ranks: list[int] | None = None  #: ascending
    mpi_comm: Any = None  #: always None; communicators are not taken
    name: str | None = None  #: see `add_process_set`
    _number = 0  # how many sets were registered before it

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if hasattr(ranks_or_comm, "Get_rank"):
            raise HoraUnsupportedError(
                "Hora has no MPI communicators: give the numbers of the ranks, such as ProcessSet([0, 2])"
            )
        try:
            self.ranks = sorted(operator.index(rank) for rank in ranks_or_comm)
        except TypeError:
            raise HoraArgumentError(
                "a ProcessSet is made of the numbers of ranks, such as ProcessSet([0, 2]), not of "
                f"{ranks_or_comm!r}"
            ) from None

    def size(self) -> int | None:
        """How many ranks it has; None while it is not registered."""
        ranks = self._ranks_now()
        return None if ranks is None else len(ranks)

    def rank(self) -> int | None:
        """This process's number within the set; None while it is not registered.

        Raises:
            HoraProcessSetError (a ValueError): this process does not belong to it.
        """
        ranks = self._ranks_now()
        if ranks is None:
            return None
        if _job.rank() not in ranks:
            raise HoraProcessSetError(f"rank {_job.rank()} is not a member of the process set {ranks}")
        return ranks.index(_job.rank())

    def included(self) -> bool | None:
        """Whether this process belongs to it; None if its ranks are not known, as those of
        `global_process_set` before `init`."""
        return None if self.ranks is None else _job.rank() in self.ranks

    def _ranks_now(self) -> list[int] | None:
        """Its ranks while it is registered. Raises HoraNotInitializedError for the global set before
        `init`."""
        if self.process_set_id is None:
            return None
        _job.runtime()
        return self.ranks

    def _invalidate(self) -> None:
        self.process_set_id = None

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessSet:
        """Itself: copies of a model communicate within the same set."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A loaded set is the registered one with these ranks and this name, if there is one."""
        return _loaded, (None if self is global_process_set else self.ranks, self.name)

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"
        )

    __repr__ = __str__


def _make_global() -> ProcessSet:
    everyone = ProcessSet([])
    everyone.process_set_id = 0
    everyone.ranks = None
    return everyone


#: All ranks.
global_process_set = _make_global()

_registered: list[ProcessSet] = []
_registered_ever = 0


def _loaded(ranks: list[int] | None, name: str | None) -> ProcessSet:
    """The set with these ranks, None: all."""
    if ranks is None:
        return global_process_set
    for known in _registered:
        if known.ranks == ranks and known.name == name:
            return known
    made = ProcessSet(ranks)
    made.name = name
    return made


def number_of(process_set: ProcessSet, name: str) -> int:
    """The number of a registered set that this rank belongs to, for an operation of this name. Raises
    HoraProcessSetError, or HoraArgumentError if it is no ProcessSet."""
    if process_set is global_process_set:
        return 0
    if not isinstance(process_set, ProcessSet):
        raise HoraArgumentError(
            f"'{name}': process_set must be a ProcessSet, such as add_process_set([0, 2]) returns, not "
            f"{process_set!r}"
        )
    number = process_set.process_set_id
    if number is None or process_set.ranks is None:
        _job.runtime()
        raise HoraProcessSetError(
            f"'{name}': {process_set} does not exist, or has not been registered; call add_process_set "
            f"first, on all {'of its ' if process_set.name else ''}ranks"
        )
    if _job.rank() not in process_set.ranks:
        raise HoraProcessSetError(
            f"'{name}': rank {_job.rank()} is not a member of the provided process set {process_set.ranks}"
        )
    return number


def _checked_ranks(process_set: ProcessSet) -> list[int]:
    size = _job.size()
    ranks = process_set.ranks or []
    if not ranks:
        raise HoraArgumentError("a process set needs one rank or more")
    if ranks[0] < 0 or ranks[-1] >= size:
        raise HoraArgumentError(
            f"the process set {ranks} has ranks that do not exist; there are 0 to {size - 1}"
        )
    if len(set(ranks)) < len(ranks):
        raise HoraArgumentError(f"the process set {ranks} has a rank more than once")
    return ranks


def _number_with(ranks: list[int]) -> int | None:
    """The number of the registered set that has these ranks, and no name."""
    for number, (known, name) in _job.runtime().process_sets().items():
        if not name and list(known) == ranks:
            return number
    return None


def _register(
    process_set: ProcessSet, ranks: list[int], number: int | None = None, name: str | None = None
) -> None:
    entry = _native.Entry(
        _native.Operation.add_process_set,
        "",
        _native.DType.uint8,
        [],
        ranks=ranks,
        set_name=name or "",
    )
    added = _job.runtime().submit(entry).wait().process_set
    process_set.name = name
    _adopt(process_set, added, number)


def _adopt(process_set: ProcessSet, process_set_id: int | None, number: int | None = None) -> None:
    """`number`: the one that it had in a former generation."""
    global _registered_ever
    process_set.process_set_id = process_set_id
    if any(process_set is known for known in _registered):
        return
    if number is None and process_set.name is None:  # of sets with names, ranks have different ones
        number = _registered_ever
        _registered_ever += 1
    process_set._number = number or 0
    _registered.append(process_set)


def _adopt_without_ranks(process_set: ProcessSet) -> ProcessSet:
    """Keeps a set of a process that is not in the running job yet. The others have given it its ranks, and
    this process is none of them."""
    process_set.ranks = []
    _adopt(process_set, None)
    return process_set


def is_of_others(process_set: ProcessSet) -> bool:
    """Whether it is a set that was registered before this process has joined the running job."""
    return process_set.ranks == [] and any(process_set is known for known in _registered)


def add_process_set(process_set: ProcessSet | Sequence[int], name: str | None = None) -> ProcessSet:
    """Registers a set, and returns it; a sequence of ranks becomes a ProcessSet. Every rank of the job calls
    it with the same ranks, those outside the set too; returns when all have. A process that has joined a
    running job belongs to no set that was added before.

    Args:
        process_set: the ranks of the set.
        name: at most 1,024 bytes. Only the ranks of the set call it, with the same name and the same ranks.
            Several sets may have the same ranks, each with another name; sets of other ranks may have the
            same name. In an elastic job such a set ends when the ranks change. None: all ranks call it.

    Raises:
        HoraNotInitializedError, HoraArgumentError (both are ValueErrors): Hora is not initialised; there is
            no such rank, no rank at all, or one twice; a set with these ranks and without a name is
            registered already (all ranks are, from the start); so is one with these ranks and this name; this
            rank names a set that it does not belong to.
        HoraInternalError: the ranks disagree about the ranks of a set without a name, or the job has failed.
    """
    _job.runtime()
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    if name == "":
        raise HoraArgumentError("a process set has a name of one character or more, or none")
    if added.process_set_id is not None:
        raise HoraArgumentError(f"{added} is registered already")
    if _job.is_alone():
        return _adopt_without_ranks(added)
    ranks = _checked_ranks(added)
    known = None if name else _number_with(ranks)
    if known is not None:
        raise HoraArgumentError(
            f"a process set with the ranks {ranks} is registered already, as number {known}: duplicates are "
            "not possible"
        )
    _register(added, ranks, name=name)
    return added


def remove_process_set(process_set: ProcessSet) -> bool:
    """Undoes `add_process_set`. Every rank of the job calls it; returns when all have. Operations of the set
    that are under way end with HoraInternalError. Messages in the set do not: receive them before.

    If the set has a name, its ranks alone call it, each when it likes, and it returns at once. Operations
    that need a rank that has called it fail on the other ranks.

    Returns:
        False, without asking the other ranks, if the set is not registered or is `global_process_set`.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
        HoraArgumentError (a ValueError): it is no ProcessSet.
        HoraInternalError: the job has failed.
    """
    runtime = _job.runtime()
    if not isinstance(process_set, ProcessSet):
        raise HoraArgumentError(f"process_set must be a ProcessSet, not {process_set!r}")
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    for known in [each for each in _registered if each.process_set_id == number]:
        known._invalidate()
        _registered.remove(known)
    entry = _native.Entry(
        _native.Operation.remove_process_set, "", _native.DType.uint8, [], process_set=number
    )
    runtime.submit(entry).wait()
    return True


def checked_list(process_sets: Any) -> list[ProcessSet]:
    """The sets of `init(process_sets=...)`: none if it is None or "dynamic". Raises HoraArgumentError."""
    if process_sets is None or (isinstance(process_sets, str) and process_sets.lower() == "dynamic"):
        return []
    if not isinstance(process_sets, str) and isinstance(process_sets, Iterable):
        listed = list(process_sets)
        if all(isinstance(each, ProcessSet) for each in listed):
            return listed
    raise HoraArgumentError(
        f'process_sets must be a list of ProcessSet, "dynamic", or None, not {process_sets!r}'
    )


def begin(process_sets: list[ProcessSet]) -> None:
    """Registers the sets of `init` in this order, once all of them are known to be good. Those that an
    earlier `init` has registered keep their numbers."""
    everyone = list(range(_job.size()))
    global_process_set.ranks = everyone
    if _job.is_alone():
        for each in process_sets:
            _adopt_without_ranks(each)
        return
    seen = [everyone]
    for index, each in enumerate(process_sets):
        if _checked_ranks(each) in seen:
            each._invalidate()
            raise HoraArgumentError(
                f"process_sets[{index}] has the ranks {each.ranks}, as has another of them, or "
                "global_process_set: duplicates are not possible"
            )
        seen.append(each.ranks or [])
    for each in process_sets:
        ranks = each.ranks or []
        known = _number_with(ranks)
        if known is None:
            _register(each, ranks)
        else:
            _adopt(each, known)


@dataclasses.dataclass
class Kept:
    """A set that was registered, for the next generation of the job. Its members are known by the numbers
    of their processes, which never change."""

    process_set: ProcessSet
    number: int  # how many sets were registered before it, the same on all ranks
    members: list[int]


def to_keep(identities: list[int]) -> list[Kept]:
    """The sets that all ranks have registered. `identities`: the number of each rank's process."""
    return [
        Kept(each, each._number, [identities[rank] for rank in each.ranks or []])
        for each in _registered
        if each.name is None
    ]


def as_numbers(kept: list[Kept]) -> list[int]:
    """The numbers and the members of these sets, as `from_numbers` takes them."""
    return [number for each in kept for number in (each.number, len(each.members), *each.members)]


def from_numbers(numbers: list[int], own: list[Kept]) -> list[Kept]:
    """The sets of another rank. Those that this process has, too, by their numbers, are its own objects."""
    known = {each.number: each.process_set for each in own}
    kept = []
    while numbers:
        number, size = numbers[:2]
        members = numbers[2 : 2 + size]
        kept.append(Kept(known.get(number) or ProcessSet([]), number, members))
        numbers = numbers[2 + size :]
    return kept


def follow(kept: list[Kept], registered_by_all: int, identities: list[int]) -> None:
    """Registers sets of a former generation again, without the ranks that were lost. Sets that not all ranks
    had registered, and those that have no rank left, are registered no more."""
    global _registered_ever
    _registered_ever = registered_by_all
    for each in kept:
        if each.number >= registered_by_all:
            continue
        process_set = each.process_set
        process_set.ranks = [rank for rank, one in enumerate(identities) if one in each.members]
        known = _number_with(process_set.ranks)
        if known is not None:
            _adopt(process_set, known, each.number)
        elif process_set.ranks:
            _register(process_set, process_set.ranks, each.number)


def registered_ever() -> int:
    """How many sets were registered in this job so far."""
    return _registered_ever


def end() -> None:
    """No set is registered any more: the job is over."""
    for each in _registered:
        each._invalidate()
    _registered.clear()
    global_process_set.ranks = None
