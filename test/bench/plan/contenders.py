# SPDX-License-Identifier: Apache-2.0
"""The contenders, each with its best settings: one table of peers for all rows."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from . import launchers
from .jobs import BenchJob, Job, RankJob, StepsJob

# Open MPI, tuned: memory stays with the process, large sums go round a segmented ring.
TUNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_allreduce_algorithm": "5",
    "OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize": str(256 << 10),
}
POPULATED = {name: TUNED[name] for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")}
TCP_ONLY = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}


@dataclasses.dataclass(frozen=True)
class Horovod:
    """One way to run it: the libraries that negotiate and move, and how long it sleeps between rounds."""

    name: str
    launcher: launchers.Launcher
    environment: launchers.Environment


def _horovods() -> list[Horovod]:
    found = []
    for plane, launcher in (("mpi", launchers.mpirun), ("gloo", launchers.horovodrun)):
        for cycle in ("1", "0.1"):
            settings = {
                "HOROVOD_CONTROLLER": plane,
                "HOROVOD_CPU_OPERATIONS": plane,
                "HOROVOD_CYCLE_TIME": cycle,
            }
            found.append(Horovod(f"horovod-{plane}@{cycle}", launcher, settings))
    return found


HOROVODS = _horovods()


def mpi_jobs(
    options: Sequence[str],
    ranks: int,
    environment: launchers.Environment | None = None,
    case: str = "",
    yields: bool = False,
) -> list[Job]:
    """MPI_Allreduce as it is by default, tuned, and if asked to also yielding the processor while it
    waits."""
    forms = {"mpi": {}, "mpi tuned": TUNED}
    if yields:
        forms["mpi yielding"] = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    return [
        BenchJob(
            name,
            {"mpi": name},
            tuple(options),
            ranks,
            launchers.mpirun,
            {**form, **(environment or {})},
            case,
        )
        for name, form in forms.items()
    ]


def rank_jobs(workload: str, options: dict[str, Any], ranks: int = 2, gloo: bool = True) -> list[Job]:
    """Hora from Python, every Horovod, and PyTorch's Gloo."""
    jobs: list[Job] = [RankJob("hora", "hora", workload, options, ranks)]
    jobs += horovod_jobs(workload, options, ranks)
    if gloo:
        jobs.append(gloo_job("gloo", workload, options, ranks))
    return jobs


def horovod_jobs(
    workload: str, options: dict[str, Any], ranks: int = 2, environment: launchers.Environment | None = None
) -> list[Job]:
    return [
        RankJob(
            one.name,
            "horovod",
            workload,
            options,
            ranks,
            one.launcher,
            {**one.environment, **(environment or {})},
        )
        for one in HOROVODS
    ]


ALONE, ALONE_FREE = "alone", "alone, not bound"


def alone_jobs(workload: str, options: dict[str, Any], ranks: int = 2) -> list[Job]:
    """Ranks that do not know of each other: each bound to a core, as by hrun and mpirun; and free, as Gloo's
    are, which loses by being bound."""
    return [
        RankJob(name, "none", workload, options, ranks, launcher)
        for name, launcher in ((ALONE, launchers.hrun), (ALONE_FREE, launchers.processes))
    ]


def baseline(contender: str) -> str:
    """The one of those jobs that a contender is to be compared with."""
    return ALONE_FREE if contender.startswith(("DDP", "gloo", "horovod-gloo")) else ALONE


def keeping_memory(jobs: list[Job]) -> list[Job]:
    """The same, with memory that stays with the process: making gradients costs no page faults, which would
    depend on where they happen to lie."""
    return [
        dataclasses.replace(job, environment={**job.environment, **POPULATED})
        for job in jobs
        if isinstance(job, (RankJob, StepsJob))
    ]


def gloo_job(name: str, workload: str, options: dict[str, Any], ranks: int = 2) -> Job:
    return RankJob(name, "gloo", workload, options, ranks, launchers.processes)
