#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long the training stands still when a rank is killed: from the kill to the next step that
counts on all that are left, less a normal step. Usage: measure.py BUILD_FOLDER [REPEATS] [RANKS] [MEBIBYTES]"""

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

STEPS = 60
COMPUTE_MICROSECONDS = 5000


def commits(file: pathlib.Path) -> list[tuple[int, int, int]]:
    """The commits of a process: nanoseconds, step, generation."""
    lines = [line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(int(at), int(step), int(generation)) for at, step, generation, _, _ in lines]


def measure(build: pathlib.Path, ranks: int, mebibytes: float, victim: int) -> tuple[float, float]:
    """Milliseconds: how long the training stood still, and a normal step."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [
            build / "bin" / "hrun",
            "--min-np",
            1,
            "--max-replacements",
            0,
            "-np",
            ranks,
            build / "test" / "elastic_worker",
        ]
        command += [STEPS, mebibytes, COMPUTE_MICROSECONDS, folder]
        job = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        while len(files := sorted(folder.iterdir(), key=lambda file: int(file.name))) < ranks or any(
            len(commits(file)) < 20 for file in files
        ):
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.02))
        killed = time.monotonic_ns()
        os.kill(int(files[victim].name), signal.SIGKILL)
        output, errors = job.communicate(timeout=60)
        if job.returncode != 0:
            raise SystemExit(f"hrun ended with {job.returncode}:\n{output.decode()}{errors.decode()}")
        left = [commits(file) for place, file in enumerate(files) if place != victim]
        times = [[at for at, _, _ in each] for each in left]
        next_commit = max(min(at for at, _, generation in each if generation > 1) for each in left)
        steps = [
            after - before for each in times for before, after in itertools.pairwise(each) if after < killed
        ]
        step = statistics.median(steps)
        return (next_commit - killed - step) / 1e6, step / 1e6


def main() -> None:
    build = pathlib.Path(sys.argv[1]).resolve()
    given = dict(enumerate(sys.argv[2:]))
    repeats, ranks, mebibytes = int(given.get(0, 20)), int(given.get(1, 4)), float(given.get(2, 100))
    results = []
    for repeat in range(repeats):
        victim = repeat % ranks
        results.append(measure(build, ranks, mebibytes, victim))
        print(f"rank {victim}: {results[-1][0]:.1f} ms, a step takes {results[-1][1]:.1f} ms", flush=True)
    stalls = sorted(stall for stall, _ in results)
    p99 = stalls[min(len(stalls) - 1, int(0.99 * len(stalls)))]
    median = statistics.median(stalls)
    print(f"median {median:.1f} ms, p99 {p99:.1f} ms, most {stalls[-1]:.1f} ms, of {len(stalls)}")


main()
