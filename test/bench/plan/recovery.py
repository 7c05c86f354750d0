# SPDX-License-Identifier: Apache-2.0
"""Trainings in which ranks are killed, one after the other, and how long each loss holds them up."""

import dataclasses
import itertools
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from typing import NamedTuple

from suites.shell import HRUN, PYTHON, ROOT

from . import launchers
from .figures import Sample, Samples, quantile
from .jobs import log_of
from .launchers import JobFailed

PROGRAM = pathlib.Path(__file__).resolve().parent / "ranks/recovering.py"
STEADY = 5  # steps of all ranks, before one is killed
PATIENCE = 60.0  # seconds until there are as many
MOST_PAUSE = 1.0  # seconds between that and the kill, at random

HORA = (str(HRUN), "--min-np", "1", "--blacklist-cooldown-range", "0", "0", "-np")
TORCHRUN = (str(PYTHON), "-m", "torch.distributed.run", "--standalone", "--max-restarts", "10000")
TORCHRUN += ("--monitor-interval", "0.1", "--no-python", "--nproc-per-node")

# torchft needs a server, and a torchrun for each replica group. $0: torchft_lighthouse; $1: the number of
# groups; $2: the address of the server; the rest is torchrun with the program.
TORCHFT = """
groups=$1; address=$2; shift 2; export TORCHFT_LIGHTHOUSE=http://$address
unset TORCH_DISABLE_SHARE_RDZV_TCP_STORE  # its ranks use torchrun's store
"$0" --bind $address --min_replicas 1 --quorum_tick_ms 100 --join_timeout_ms 10000 & started=$!
for group in $(seq $groups); do REPLICA_GROUP=group_$group "$@" & started="$started $!"; done
trap 'kill $started; wait; exit' INT
wait
"""
LIGHTHOUSE = launchers.PEERS / "bin/torchft_lighthouse"

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

    def missing(self) -> str | None:
        absent = self.library == "torchft" and not LIGHTHOUSE.exists()
        return "torchft is not in build/bench/peers" if absent else None

    def run(self) -> Samples:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, log_of(self.name).open("wb") as log:
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
                kills = self._kill_ranks(place, job)
                times = stand_stills(read_all(place), kills)
            finally:
                end(job)
        return {"kill": {self.name: Sample(statistics.median(times), quantile(times, 0.99), max(times))}}

    def _command(self, folder: pathlib.Path) -> list[str]:
        python = launchers.PEERS / "bin/python" if self.library == "torchft" else PYTHON
        program = list(map(str, [python, PROGRAM, self.library, folder, self.mebibytes, self.seconds]))
        if self.library == "hora":
            return [*HORA, str(self.ranks), *program]
        if self.library == "checkpoint":
            return [*TORCHRUN, str(self.ranks), *program]
        address = f"127.0.0.1:{free_port()}"
        return ["sh", "-c", TORCHFT, str(LIGHTHOUSE), str(self.ranks), address, *TORCHRUN, "1", *program]

    def _kill_ranks(self, folder: pathlib.Path, job: subprocess.Popen[bytes]) -> dict[int, int]:
        """The kills: when, and which process. Raises JobFailed if the training does not go on."""
        chance = random.Random(self.seed)
        kills: dict[int, int] = {}
        for _ in range(self.kills):
            self._await_steps(folder, job, max(kills, default=0))
            time.sleep(MOST_PAUSE * chance.random())
            victim = chance.choice(sorted(self._steady(folder, max(kills, default=0))))
            kills[time.monotonic_ns()] = victim
            os.kill(victim, signal.SIGKILL)
        self._await_steps(folder, job, max(kills))
        return kills

    def _await_steps(self, folder: pathlib.Path, job: subprocess.Popen[bytes], since: int) -> None:
        latest = time.monotonic() + PATIENCE
        while len(self._steady(folder, since)) < self.ranks:
            if job.poll() is not None or time.monotonic() > latest:
                why = f"not {self.ranks} ranks train {PATIENCE:g} s after a kill"
                raise JobFailed(f"{why}; see {log_of(self.name).relative_to(ROOT)}")
            time.sleep(0.05)

    def _steady(self, folder: pathlib.Path, since: int) -> list[int]:
        """The processes that have made enough steps with all ranks since then."""
        return [
            process
            for process, commits in read_all(folder).items()
            if sum(one.at > since and one.ranks == self.ranks for one in commits) >= STEADY
        ]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


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
    """How long each kill held the others up, in ms. `kills`: when, and which process."""
    spans = [
        after.at - before.at
        for each in commits.values()
        for before, after in itertools.pairwise(each)
        if not any(before.at < kill < after.at for kill in kills)
    ]
    times = []
    for kill, victim in kills.items():
        last = max(one.step for each in commits.values() for one in each if one.at <= kill)
        left = [one for process, each in commits.items() if process != victim for one in each]
        following = min(one.step for one in left if one.step > last)
        ends = [one.at for one in left if one.step == following]
        times.append((max(ends) - kill - statistics.median(spans)) / 1e6)
    return times


def end(job: subprocess.Popen[bytes]) -> None:
    """Ends a job and its ranks, which hrun and torchrun end when they are asked to."""
    job.send_signal(signal.SIGINT)
    try:
        job.wait(timeout=30)
    except subprocess.TimeoutExpired:
        launchers.end([job])
