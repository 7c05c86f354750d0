# SPDX-License-Identifier: Apache-2.0
"""Ranks that stay for many programs, as PyTorch takes 2 s to be imported. Tests of how a process begins or ends use ranks.run_python."""

import json
import pathlib
import queue
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping, Sequence

from ranks import HRUN, ROOT, environment_with

RANK = pathlib.Path(__file__).with_name("standing_rank.py")
MOST = 4  # jobs that stay


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
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._job.stdout is not None
        for line in self._job.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def run(self, program: str, arguments: Sequence[str], seconds: float) -> list[list[str]]:
        """What each rank printed, by rank, line by line. Raises AssertionError if one failed; the job is over then."""
        assert self._job.stdin is not None
        self._job.stdin.write(json.dumps([program, *arguments]) + "\n")
        self._job.stdin.flush()
        printed: dict[int, list[str]] = {}
        others: list[str] = []
        while len(printed) < self._ranks:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                raise AssertionError(f"after {seconds} s without an answer:\n{''.join(others)}") from None
            if line is None:
                raise AssertionError(f"the job ended with {self._job.wait()}:\n{''.join(others)}")
            label, _, text = line.partition("] ")
            if not text.startswith('{"printed"'):
                others.append(line)
                continue
            answer = json.loads(text)
            if answer["error"]:
                raise AssertionError(f"{label}] {answer['error']}{answer['printed']}{''.join(others)}")
            printed[int(label.removeprefix("["))] = answer["printed"].splitlines()
        return [printed[rank] for rank in range(self._ranks)]

    def end(self) -> None:
        assert self._job.stdin is not None
        self._job.stdin.close()
        try:
            self._job.wait(10)
        except subprocess.TimeoutExpired:
            self._job.terminate()
            self._job.wait()
        self._reader.join()
        assert self._job.stdout is not None
        self._job.stdout.close()


_jobs: dict[tuple[object, ...], StandingJob] = {}  # the one that was used last is the last


def run_standing(
    ranks: int, program: str, *arguments: str, seconds: float = 120, environment: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> list[list[str]]:
    """As ranks.run_python, on ranks that have imported torch and run other programs before."""
    key = (ranks, tuple(options), tuple(sorted((environment or {}).items())))
    job = _jobs.pop(key, None) or StandingJob(ranks, options, environment or {})
    try:
        lines = job.run(textwrap.dedent(program), arguments, seconds)
    except BaseException:
        job.end()
        raise
    _jobs[key] = job
    if len(_jobs) > MOST:
        _jobs.pop(next(iter(_jobs))).end()
    return lines


def end_all() -> None:
    """No job stays."""
    while _jobs:
        _jobs.popitem()[1].end()
