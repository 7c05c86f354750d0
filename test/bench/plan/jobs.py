# SPDX-License-Identifier: Apache-2.0
"""Contenders: each is a whole, short job, whose ranks measure and write down what they have measured."""

import dataclasses
import json
import pathlib
import statistics
import tempfile
import time
from typing import Any, ClassVar, Protocol

from suites.shell import LOGS, PYTHON, ROOT

from . import launchers
from .figures import Sample, Samples, quantile
from .launchers import HORA_BENCH, JAX, PEERS, Environment, JobFailed, Launcher
from .sizes import named

RANK_PROGRAM = pathlib.Path(__file__).resolve().parent / "ranks/rank.py"
TRAIN_STEPS = ROOT / "build/default/test/train_steps"


class Job(Protocol):
    @property
    def name(self) -> str: ...

    def missing(self) -> str | None:
        """Why it cannot take part on this machine."""

    def run(self) -> Samples:
        """One block of all its cases. Raises JobFailed."""


def log_of(name: str) -> pathlib.Path:
    return LOGS / f"bench-{name.replace(' ', '-').replace('/', '-')}.log"


@dataclasses.dataclass(frozen=True)
class BenchJob:
    """hora_bench: collectives in C++, and MPI's. Its contenders get our names for them."""

    name: str
    contenders: dict[str, str]  # hora_bench's name: ours
    options: tuple[str, ...]
    ranks: int = 2
    launcher: Launcher = launchers.hrun
    environment: Environment = dataclasses.field(default_factory=dict)
    case: str = ""  # the name of the only one; else sizes are cases

    def missing(self) -> str | None:
        return self.launcher.missing()

    def command(self, result: pathlib.Path) -> list[str]:
        peer = ["--peer", "mpi"] if any(name.startswith("mpi") for name in self.contenders) else []
        only = ["--only", ",".join(self.contenders)]
        return [
            str(HORA_BENCH),
            "allreduce",
            "--blocks",
            "1",
            *peer,
            *only,
            *self.options,
            "--json",
            str(result),
        ]

    def run(self) -> Samples:
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder, "bench.json")
            launchers.run_job(
                self.launcher.commands(self.ranks, self.command(result)), self.environment, log_of(self.name)
            )
            rows = json.loads(result.read_text())["rows"]
        return samples_of_rows(rows, self.contenders, self.case)


def samples_of_rows(rows: list[dict[str, Any]], contenders: dict[str, str], case: str) -> Samples:
    """The samples in the rows that hora_bench has written."""
    samples: Samples = {}
    for row in rows:
        figures = {ours: row[theirs] for theirs, ours in contenders.items()}
        samples[case or named(row["bytes"])] = {
            name: Sample(one["us"], one["p99_us"], one["longest_us"], one["wrong"])
            for name, one in figures.items()
        }
    return samples


@dataclasses.dataclass(frozen=True)
class RankJob:
    """A workload of ranks/rank.py over one of the libraries that it knows."""

    name: str
    library: str  # hora, horovod, gloo or none
    workload: str
    options: dict[str, Any]
    ranks: int = 2
    launcher: Launcher = launchers.hrun
    environment: Environment = dataclasses.field(default_factory=dict)
    libraries: ClassVar[str] = "libraries"  # the module of ranks that knows them

    def missing(self) -> str | None:
        absent = self.launcher.missing()
        if absent is None and self.library == "horovod":
            absent = launchers.horovodrun.missing()
        return absent

    def python(self) -> pathlib.Path:
        return PEERS / "bin/python" if self.library == "horovod" else PYTHON

    def run(self) -> Samples:
        with tempfile.TemporaryDirectory() as folder:
            task = {
                "libraries": self.libraries,
                "library": self.library,
                "workload": self.workload,
                "folder": folder,
                "options": self.options,
            }
            command = [str(self.python()), str(RANK_PROGRAM), json.dumps(task)]
            launchers.run_job(
                self.launcher.commands(self.ranks, command), self.environment, log_of(self.name)
            )
            return {case: {self.name: sample} for case, sample in collected(folder, self.ranks).items()}


@dataclasses.dataclass(frozen=True)
class JaxJob(RankJob):
    """The same over a library for JAX: hora, gloo or mpi4jax."""

    libraries: ClassVar[str] = "jax_libraries"

    def missing(self) -> str | None:
        absent = self.launcher.missing() or launchers.no_jax()
        return absent or (launchers.no_mpi4jax() if self.library == "mpi4jax" else None)

    def python(self) -> pathlib.Path:
        return JAX / "bin/python"


@dataclasses.dataclass(frozen=True)
class StepsJob:
    """train_steps: training with LibTorch in C++, with and without Hora, in turns."""

    name: str
    plain: str  # the name of what is measured without Hora
    iterations: int
    ranks: int = 2
    environment: dict[str, str] = dataclasses.field(default_factory=dict)

    def missing(self) -> str | None:
        return None if TRAIN_STEPS.exists() else "this was built without LibTorch"

    def run(self) -> Samples:
        with tempfile.TemporaryDirectory() as folder:
            command = launchers.hrun.commands(self.ranks, [str(TRAIN_STEPS), str(self.iterations), folder])
            launchers.run_job(command, self.environment, log_of(self.name))
            samples: Samples = {}
            for case, sample in collected(folder, self.ranks).items():
                model, _, kind = case.partition(": ")
                samples.setdefault(model, {})[self.name if kind == "wrapped" else self.plain] = sample
            return samples


def collected(folder: str, size: int) -> dict[str, Sample]:
    """The samples of each case, from the files that the ranks have written there."""
    ranks = [json.loads(pathlib.Path(folder, f"rank{rank}.json").read_text()) for rank in range(size)]
    return {case: _sample([rank[case] for rank in ranks]) for case in ranks[0]}


def _sample(ranks: list[dict[str, Any]]) -> Sample:
    """The sample from each rank's measurements of a case. A call takes from the last rank's begin to the last
    one's end."""
    wrong = sum(rank.get("wrong", 0) for rank in ranks)
    if "value" in ranks[0]:
        return Sample(max(rank["value"] for rank in ranks), wrong=wrong)
    calls = zip(*(rank["spans"] for rank in ranks), strict=True)
    each = ranks[0].get("calls", 1)
    times = [(max(end for _, end in call) - max(begin for begin, _ in call)) * 1e6 / each for call in calls]
    return Sample(statistics.median(times), quantile(times, 0.99), max(times), wrong)


@dataclasses.dataclass(frozen=True)
class WallJob:
    """How long a whole job takes, in ms, as who starts it sees it."""

    name: str
    case: str
    launcher: Launcher
    ranks: int
    program: tuple[str, ...]
    environment: Environment = dataclasses.field(default_factory=dict)
    needs_horovod: bool = False

    def missing(self) -> str | None:
        return self.launcher.missing() or (launchers.horovodrun.missing() if self.needs_horovod else None)

    def run(self) -> Samples:
        begin = time.monotonic()
        launchers.run_job(
            self.launcher.commands(self.ranks, self.program), self.environment, log_of(self.name)
        )
        return {self.case: {self.name: Sample((time.monotonic() - begin) * 1e3)}}


__all__ = [
    "BenchJob",
    "JaxJob",
    "Job",
    "JobFailed",
    "RankJob",
    "StepsJob",
    "WallJob",
    "log_of",
    "samples_of_rows",
]
