# SPDX-License-Identifier: Apache-2.0
"""An elastic job on two hosts, in which one thing after the other breaks."""

import collections
import dataclasses
import itertools
import os
import pathlib
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Callable

from elastic_commits import Commit, commits_in
from launch import BUILD
from machines import Cluster, Host
from ranks import HRUN

RANKS = 8
STEP = 0.05  # seconds that a rank computes in each step
CALM = 5.0  # seconds in which nothing breaks, at first and at last
CUT = (1.5, 4.0)  # seconds that a host is cut off
PATIENCE = 30.0  # seconds within which a step must count

#: In which proportion things break: a rank is killed, a rank is stopped, a host is cut off.
KINDS = {"kill": 27, "stop": 20, "cut": 15}


@dataclasses.dataclass
class Outcome:
    faults: dict[str, int]  # how often each kind
    steps: int  # while things broke
    ratio: float  # of the steps in a second while things broke to those before
    longest: float  # seconds between two steps
    pauses: dict[str, float]  # the median of the longest one after a fault of each kind
    generations: int
    wrong: list[str]  # steps that do not count exactly once


def _kinds(faults: int, dice: random.Random) -> list[str]:
    """As many faults of all kinds, in any order."""
    whole = sum(KINDS.values())
    kinds = [kind for kind, share in KINDS.items() for _ in range(round(share * faults / whole))]
    dice.shuffle(kinds)
    return kinds


def _commits(folder: pathlib.Path) -> list[list[Commit]]:
    """Those of each process."""
    return [commits_in(path) for path in folder.glob("*/*")]


def _last_step(folder: pathlib.Path) -> int:
    last = 0
    for path in folder.glob("*/*"):
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 200))
            lines = [line.split() for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
        last = max([last, *(int(line[1]) for line in lines[1:])])
    return last


def _ranks(host: Host) -> list[int]:
    return [each.pid for each in host.processes() if each.command.startswith(f"{BUILD}/test/elastic_worker")]


def wrong_steps(commits: list[list[Commit]]) -> list[str]:
    """The steps that do not count exactly once on the ranks of one generation."""
    wrong = []
    by_step = collections.defaultdict(list)
    for own in commits:
        wrong += [f"{a} before {b}" for a, b in itertools.pairwise(own) if b.step != a.step + 1]
        for commit in own:
            by_step[commit.step].append(commit)
    for step in range(1, max(by_step) + 1):
        made_in = {(each.generation, each.size) for each in by_step[step]}
        ranks = [each.rank for each in by_step[step]]
        # A rank that was killed may not have written its last step down.
        if len(made_in) != 1 or len(set(ranks)) != len(ranks):
            wrong.append(f"step {step} was made in {sorted(made_in)} by {sorted(ranks)}")
    return wrong


class Chaos:
    def __init__(self, hosts: Cluster, folder: pathlib.Path, seed: int) -> None:
        self._hosts = hosts
        self._folder = folder
        self._dice = random.Random(seed)
        for name in "bc":
            (folder / name).mkdir()
        worker = f"exec {BUILD}/test/elastic_worker 100000000 1 {STEP * 1e6:.0f} {folder}/$(hostname)"
        words = ("-np", str(RANKS), "--min-np", "1", "--blacklist-cooldown-range", "1", "5", "-H", "b:4,c:4")
        self._log = folder.with_suffix(".log").open("w+")
        self._job = subprocess.Popen(
            hosts["a"].command(HRUN, *words, "sh", "-c", worker), stdout=self._log, stderr=self._log
        )

    def run(self, faults: int, seconds: float) -> Outcome:
        """Lets so many things break in this time. Raises AssertionError if the job ends or stands still."""
        self._await(lambda: sum(len(each) > 5 for each in _commits(self._folder)) == RANKS)
        first = _last_step(self._folder)
        self._go_on_until(time.monotonic() + CALM)
        calm = (_last_step(self._folder) - first) / CALM
        first, broke, begin = _last_step(self._folder), time.monotonic_ns(), time.monotonic()
        broken: list[tuple[int, str]] = []  # when, and what
        for number, kind in enumerate(_kinds(faults, self._dice)):
            self._go_on_until(begin + (number + self._dice.random() / 2) * seconds / faults)
            when = time.monotonic_ns()
            if self._break(kind):
                broken.append((when, kind))
        self._go_on_until(begin + seconds)
        steps = _last_step(self._folder) - first
        self._go_on_until(time.monotonic() + CALM)
        self._job.terminate()
        self._job.wait(PATIENCE)
        commits = _commits(self._folder)
        times = sorted({each.step: each.at for own in commits for each in own if each.at > broke}.values())
        pauses = [(a, (b - a) / 1e9) for a, b in itertools.pairwise(times)]
        after = collections.defaultdict(list)
        for when, kind in broken:
            after[kind].append(
                max((pause for at, pause in pauses if when - 1e9 < at < when + 3e9), default=PATIENCE)
            )
        return Outcome(
            faults={kind: len(each) for kind, each in after.items()},
            steps=steps,
            ratio=steps / seconds / calm,
            longest=max(pause for _, pause in pauses),
            pauses={kind: round(statistics.median(each), 3) for kind, each in after.items()},
            generations=max(own[-1].generation for own in commits if own),
            wrong=wrong_steps(commits),
        )

    def _break(self, kind: str) -> bool:
        """Breaks something; whether there was something of the kind."""
        if kind == "cut":
            host = self._hosts[self._dice.choice("bc")]
            host.cut()
            self._go_on_until(time.monotonic() + self._dice.uniform(*CUT))
            host.mend()
            return True
        ranks = [each for name in "bc" for each in _ranks(self._hosts[name])]
        if not ranks:
            return False
        try:
            os.kill(self._dice.choice(ranks), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        except ProcessLookupError:
            return False
        return True

    def _go_on_until(self, end: float) -> None:
        self._await(lambda: time.monotonic() >= end)

    def _await(self, done: Callable[[], bool]) -> None:
        """Raises AssertionError if no step counts for too long."""
        step, since = 0, time.monotonic()
        while not done():
            assert self._job.poll() is None, f"the job has ended:\n{self.log()}"
            now = _last_step(self._folder)
            if now != step:
                step, since = now, time.monotonic()
            assert time.monotonic() - since < PATIENCE, f"no step counts after {step}:\n{self.log()}"
            time.sleep(0.05)

    def log(self) -> str:
        return pathlib.Path(self._log.name).read_text()
