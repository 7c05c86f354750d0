# SPDX-License-Identifier: Apache-2.0
"""The table of faults of elastic jobs: the faults and ranks of table.py, in the phases of a step."""

import dataclasses
import itertools

from table import AT_ONCE, FAULTS, RANKS, VICTIMS, Cell, Fault, Phase, Victims

LATE = RANKS - 1  # the rank that is lost before, where the fault meets a change of the ranks
JOINER = RANKS  # the process in its place
CUT = 2.5  # seconds in which the others go on without a host that is cut off

OWN_FAULTS = [fault for fault in FAULTS if fault.name in ("kill", "stop", "exception", "exit", "cut")]
PHASES = [
    Phase("before", "before init", "before"),
    Phase("rendezvous", "in init", "rendezvous"),
    Phase("idle", "computing", "idle"),
    Phase("negotiating", "negotiating", "negotiating"),
    Phase("shm", "inside an allreduce over shm", "inside"),
    Phase("tcp", "inside an allreduce over tcp", "inside", "tcp"),
    Phase("voting", "the others have voted", "voting"),
    Phase("voted", "it has voted, another one has not", "voted"),
    Phase("counted", "the step counts", "counted"),
    Phase("changing", "the ranks change, as another one was killed", "changing"),
    Phase("sharing", "a rank gets the state", "sharing"),
    Phase("leaving", "leaving", "leaving"),
]
JOINING = Victims("joiner", "the rank that gets the state", (JOINER,))
SAMPLE = ("kill", "stop", "cut")


@dataclasses.dataclass(frozen=True)
class ElasticCell(Cell):
    """A cell of an elastic job. Its ranks are members: those at first have their ranks as numbers, a process
    that is started later has the next number."""

    @property
    def name(self) -> str:
        return f"elastic-{super().name}"

    @property
    def survivors(self) -> list[int]:
        """The members from the beginning that go on."""
        lost = {LATE} if self.loses_one_before else set()
        return [rank for rank in super().survivors if rank not in lost]

    @property
    def loses_one_before(self) -> bool:
        return self.phase.name in ("changing", "sharing")

    @property
    def ranks_at_last(self) -> int:
        """A process is replaced, a host that is cut off is not."""
        return len(self.survivors) if self.across_hosts or self.phase.name == "leaving" else RANKS

    @property
    def begins(self) -> bool:
        """Whether the training begins, which takes all ranks."""
        return self.phase.name not in ("before", "rendezvous")

    @property
    def within(self) -> float:
        """Seconds from the fault until the next step counts."""
        return CUT if self.across_hosts else AT_ONCE

    @property
    def all_go_on(self) -> bool:
        """Whether all survivors make a step after the fault: those that leave wait for nobody."""
        return self.begins and self.phase.name != "leaving"

    @property
    def code(self) -> int:
        """hrun's exit code: the fault's where no training has begun. It kills a rank that is stopped."""
        if self.begins:
            return 0
        return 137 if self.fault.kind == "stops" else self.fault.code


def cannot_be(fault: Fault, phase: Phase) -> str | None:
    """Why there is no such cell, if so."""
    if fault.kind == "network" and phase.name == "shm":
        return "shared memory is no network"
    if fault.kind == "network" and phase.name == "rendezvous":
        return "not tried: by chance the last rank comes before the loss of the host is noticed"
    if fault.kind == "network" and phase.name in ("changing", "sharing"):
        return "not tried: each host has one rank, and the process in its place would be on another one"
    return None


def victims_of(phase: Phase) -> list[Victims]:
    return [*VICTIMS, JOINING] if phase.name == "sharing" else VICTIMS


def elastic_cells() -> list[ElasticCell]:
    """All that can be."""
    return [
        ElasticCell(fault, phase, victims)
        for fault, phase in itertools.product(OWN_FAULTS, PHASES)
        if cannot_be(fault, phase) is None
        for victims in victims_of(phase)
    ]


def elastic_sample() -> list[ElasticCell]:
    """Some faults, in phases by turns."""
    return [
        cell for number, cell in enumerate(elastic_cells()) if cell.fault.name in SAMPLE and number % 7 == 0
    ]
