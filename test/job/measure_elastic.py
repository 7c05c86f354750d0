#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long the training stands still when a rank is killed: from the kill to the next step that
counts on all that are left, less a normal step."""

import argparse
import contextlib
import itertools
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("hosts", "support")]

from elastic_commits import commits_in  # noqa: E402
from machines import RATE, Cluster  # noqa: E402

STEPS = 20
BEFORE = 10  # steps that count before a rank is killed
COMPUTE_MICROSECONDS = 5000
HOSTS = ("a", "b")


class Job(NamedTuple):
    """The values that are the same in every repeat."""

    build: pathlib.Path
    ranks: int
    mebibytes: float
    cluster: Cluster | None  # the ranks are half on one of its hosts, and half on the other

    def start(self, folder: pathlib.Path) -> "subprocess.Popen[bytes]":
        words = [self.build / "bin" / "hrun", "--min-np", 1, "--max-replacements", 0, "-np", self.ranks]
        if self.cluster is not None:
            words += ["-H", ",".join(f"{host}:{self.ranks // len(HOSTS)}" for host in HOSTS)]
        # The shell makes a folder for each host, because processes of two hosts may have one number.
        worker = f"mkdir -p {folder}/$(hostname) && exec {self.build}/test/elastic_worker"
        worker += f" {STEPS} {self.mebibytes} {COMPUTE_MICROSECONDS} {folder}/$(hostname)"
        words += ["sh", "-c", worker]
        command = [str(word) for word in words]
        if self.cluster is not None:
            command = self.cluster[HOSTS[0]].command(*command)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def process(self, file: pathlib.Path) -> int:
        """The number, as this machine counts, of the process whose file this is."""
        own = int(file.name)
        if self.cluster is None:
            return own
        for each in self.cluster[file.parent.name].processes():
            status = pathlib.Path(f"/proc/{each.pid}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
            if int(numbers[-1]) == own:
                return each.pid
        raise SystemExit(f"no process has written {file}")


def measure(job: Job, victim: int) -> tuple[float, float]:
    """Milliseconds: how long the training stood still, and a normal step."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        running = job.start(folder)
        while len(files := list(folder.glob("*/*"))) < job.ranks or any(
            len(commits_in(file)) < BEFORE for file in files
        ):
            if running.poll() is not None:
                raise SystemExit(f"hrun has ended:\n{running.communicate()[1].decode()}")
            time.sleep(0.002)
        file = next(file for file in files if commits_in(file)[0].rank == victim)
        process = job.process(file)
        time.sleep(random.uniform(0, 0.02))
        killed = time.monotonic_ns()
        os.kill(process, signal.SIGKILL)
        output, errors = running.communicate(timeout=300)
        if running.returncode != 0:
            raise SystemExit(f"hrun ended with {running.returncode}:\n{output.decode()}{errors.decode()}")
        left = [commits_in(each) for each in files if each != file]
        next_commit = max(min(each.at for each in own if each.generation > 1) for own in left)
        steps = [
            after.at - before.at
            for own in left
            for before, after in itertools.pairwise(own)
            if after.at < killed
        ]
        step = statistics.median(steps)
        return (next_commit - killed - step) / 1e6, step / 1e6


@contextlib.contextmanager
def hosts(rate: str) -> Iterator[Cluster]:
    """Two hosts whose network has this rate."""
    with (
        tempfile.TemporaryDirectory() as name,
        Cluster(pathlib.Path(name), *HOSTS) as cluster,
        contextlib.ExitStack() as links,
    ):
        for host in cluster.hosts:
            links.enter_context(host.link(*RATE, rate))
        yield cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help="the folder that was built in")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--mebibytes", type=float, default=100, help="of gradients (default %(default)s)")
    parser.add_argument("--rate", help="the ranks are on two hosts, whose network has this rate, as 1gbit")
    given = parser.parse_args()
    if given.rate and given.ranks % len(HOSTS):
        parser.error(f"--ranks {given.ranks} cannot be shared by {len(HOSTS)} hosts")
    results = []
    with hosts(given.rate) if given.rate else contextlib.nullcontext() as cluster:
        job = Job(given.build.resolve(), given.ranks, given.mebibytes, cluster)
        for repeat in range(given.repeats):
            victim = repeat % given.ranks
            results.append(measure(job, victim))
            print(f"rank {victim}: {results[-1][0]:.1f} ms, a step takes {results[-1][1]:.1f} ms", flush=True)
    stalls = sorted(stall for stall, _ in results)
    p99 = stalls[min(len(stalls) - 1, int(0.99 * len(stalls)))]
    median = statistics.median(stalls)
    print(f"median {median:.1f} ms, p99 {p99:.1f} ms, most {stalls[-1]:.1f} ms, of {len(stalls)}")


main()
