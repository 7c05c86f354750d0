# SPDX-License-Identifier: Apache-2.0
"""Trainings in which ranks are killed, one after the other, and how long each loss holds them up."""

import dataclasses
import itertools
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time
from typing import IO, NamedTuple

from suites.shell import ROOT

from . import launchers
from .figures import Sample, Samples, quantile
from .jobs import log_of
from .launchers import JobFailed
from .trainings import TRAININGS, Training

PROGRAM = pathlib.Path(__file__).resolve().parent / "ranks/recovering.py"
STEADY = 5  # steps of all ranks, before one is killed
PATIENCE = 60.0  # seconds until there are as many
MOST_PAUSE = 1.0  # seconds between that and the kill, at random

# Without the second one, ranks that torchrun has started again find the addresses of their predecessors in the
# store that they share, and Gloo cannot connect (PyTorch 2.11).
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class Commit(NamedTuple):
    """A step that counts, as one rank has written it."""

    at: int  # nanoseconds
    step: int
    ranks: int


@dataclasses.dataclass(frozen=True)
class RecoveryJob:
    """Kills ranks of a training. A figure is the time from a kill until the next step counts on all ranks that
    make it, less a normal step, in ms."""

    name: str
    library: str  # of ranks/recovering.py
    kills: int
    ranks: int = 4
    mebibytes: float = 100
    seconds: float = 0.02  # of CPU time for each microbatch
    seed: int = 1

    @property
    def _training(self) -> Training:
        return TRAININGS[self.library]

    def missing(self) -> str | None:
        return self._training.missing()

    def run(self) -> Samples:
        """One job, or one for each kill if ranks that are killed are not replaced."""
        chance = random.Random(self.seed)
        jobs = [self.kills] if self._training.replaces else [1] * self.kills
        with log_of(self.name).open("wb") as log:
            times = [time for kills in jobs for time in self._times(kills, chance, log)]
        return {"kill": {self.name: Sample(statistics.median(times), quantile(times, 0.99), max(times))}}

    def _times(self, kills: int, chance: random.Random, log: IO[bytes]) -> list[float]:
        """How long each kill of a job held the others up, in ms."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            place = pathlib.Path(folder)
            job = subprocess.Popen(
                self._command(place),
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                killed = self._kill_ranks(kills, chance, place, job)
                return stand_stills(read_all(place), killed)
            finally:
                end(job)

    def _command(self, folder: pathlib.Path) -> list[str]:
        program = [self._training.python, PROGRAM, self.library, folder, self.mebibytes, self.seconds]
        return self._training.command(self.ranks, folder, list(map(str, program)))

    def _kill_ranks(
        self, count: int, chance: random.Random, folder: pathlib.Path, job: subprocess.Popen[bytes]
    ) -> dict[int, int]:
        """The kills: when, and which process. Raises JobFailed if the training does not go on."""
        kills: dict[int, int] = {}
        for _ in range(count):
            since = max(kills, default=0)
            self._await_steps(folder, job, since, self.ranks)
            time.sleep(MOST_PAUSE * chance.random())
            victim = chance.choice(sorted(self._steady(folder, since, self.ranks)))
            kills[time.monotonic_ns()] = victim
            os.kill(victim, signal.SIGKILL)
        self._await_steps(folder, job, max(kills), 1)
        return kills

    def _await_steps(
        self, folder: pathlib.Path, job: subprocess.Popen[bytes], since: int, least: int
    ) -> None:
        latest = time.monotonic() + PATIENCE
        while len(self._steady(folder, since, least)) < least:
            if job.poll() is not None or time.monotonic() > latest:
                why = f"not {least} of {self.ranks} ranks train {PATIENCE:g} s after a start or a kill"
                raise JobFailed(f"{why}; see {log_of(self.name).relative_to(ROOT)}")
            time.sleep(0.05)

    def _steady(self, folder: pathlib.Path, since: int, least: int) -> list[int]:
        """The processes that have made enough steps since then, with so many ranks at least."""
        return [
            process
            for process, commits in read_all(folder).items()
            if sum(one.at > since and one.ranks >= least for one in commits) >= STEADY
        ]


def read_all(folder: pathlib.Path) -> dict[int, list[Commit]]:
    """The commits of each process."""
    return {
        int(file.name): [
            Commit(*map(int, line.split()))
            for line in file.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]
        for file in folder.iterdir()
        if file.name.isdigit()
    }


def stand_stills(commits: dict[int, list[Commit]], kills: dict[int, int]) -> list[float]:
    """How long each kill held the others up, in ms: the time from the last step before it to the first one in
    which the lost rank has no part, less as many normal steps. `kills`: when, and which process."""
    spans = [
        after.at - before.at
        for each in commits.values()
        for before, after in itertools.pairwise(each)
        if not any(before.at < kill < after.at for kill in kills)
    ]
    times = []
    for kill, victim in kills.items():
        all_made = [(process, one) for process, each in commits.items() if process != victim for one in each]
        before = max((one for _, one in all_made if one.at <= kill), key=lambda one: one.step)
        known = {process for process, one in all_made if one.at <= kill}
        after = min(
            one.step
            for process, one in all_made
            if one.step > before.step and (process not in known or one.ranks != before.ranks)
        )
        start, end = (max(one.at for _, one in all_made if one.step == step) for step in (before.step, after))
        times.append((end - start - (after - before.step) * statistics.median(spans)) / 1e6)
    return times


def end(job: subprocess.Popen[bytes]) -> None:
    """Ends a job and its ranks, which hrun and torchrun end when they are asked to."""
    job.send_signal(signal.SIGINT)
    try:
        job.wait(timeout=30)
    except subprocess.TimeoutExpired:
        launchers.end([job])
