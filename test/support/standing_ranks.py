# SPDX-License-Identifier: Apache-2.0
"""Ranks that stay for many programs, as PyTorch takes 2 s to be imported. Tests of how a process begins or ends use ranks.run_python."""

import contextlib
import json
import pathlib
import queue
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping, Sequence

from ranks import HRUN, ROOT, environment_with

RANK = pathlib.Path(__file__).with_name("standing_rank.py")
MOST = 4  # jobs that stay
GRACE = 10.0  # seconds in which a job ends


class StandingJob:
    """A job under hrun that runs one program after the other on all ranks."""

    def __init__(self, ranks: int, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self._ranks = ranks
        self._job = subprocess.Popen(
            [HRUN, "-np", str(ranks), *options, "--stdin", "all", sys.executable, RANK],
            cwd=ROOT,
            env=environment_with(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._job.stdout is not None
        for line in self._job.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def run(self, program: str, arguments: Sequence[str], seconds: float) -> list[list[str]]:
        """Returns the lines that each rank printed, by rank. Raises AssertionError, with all output, if a rank failed; the job has
        ended then."""
        assert self._job.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the job has ended, and its output says why
            self._job.stdin.write(json.dumps([program, *arguments]) + "\n")
            self._job.stdin.flush()
        deadline = time.monotonic() + seconds
        printed: dict[int, list[str]] = {}
        seen: list[str] = []
        while len(printed) < self._ranks:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self._fail(f"no answer after {seconds} s", seen)
            if line is None:
                self._fail("the job ended", seen)
            label, _, text = line.partition("] ")
            try:
                answer = json.loads(text)
            except json.JSONDecodeError:
                seen.append(line)
                continue
            if answer["error"]:
                self._fail(f"{label}] {answer['printed']}{answer['error']}", seen)
            printed[int(label.removeprefix("["))] = answer["printed"].splitlines()
        return [printed[rank] for rank in range(self._ranks)]

    def _fail(self, why: str, seen: list[str]) -> None:
        code = self.end()
        while not self._lines.empty():
            seen.append(self._lines.get() or "")
        raise AssertionError(f"{why}\n{''.join(seen)}exit code {code}")

    def end(self) -> int:
        """Ends the job. Returns its exit code."""
        assert self._job.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._job.stdin.close()
        for stop in (self._job.terminate, self._job.kill, lambda: None):
            try:
                self._job.wait(GRACE)
                break
            except subprocess.TimeoutExpired:
                stop()
        self._reader.join(GRACE)
        return self._job.wait()


_jobs: dict[tuple[object, ...], StandingJob] = {}  # the one that was used last is the last


def run_standing(
    ranks: int, program: str, *arguments: str, seconds: float = 120, environment: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> list[list[str]]:
    """As ranks.run_python, on ranks that have imported torch and run other programs before."""
    key = (ranks, tuple(options), tuple(sorted((environment or {}).items())))
    job = _jobs.pop(key, None) or StandingJob(ranks, options, environment or {})
    lines = job.run(textwrap.dedent(program), arguments, seconds)
    _jobs[key] = job
    if len(_jobs) > MOST:
        end(next(iter(_jobs)))
    return lines


def end(key: tuple[object, ...]) -> None:
    """Ends a job that stays. Raises AssertionError if that fails."""
    code = _jobs.pop(key).end()
    assert code == 0, f"a job that has run all its programs ended with exit code {code}"


def end_all() -> None:
    """Ends all jobs that stay."""
    while _jobs:
        end(next(iter(_jobs)))
