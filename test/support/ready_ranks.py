# SPDX-License-Identifier: Apache-2.0
"""Ranks that have imported PyTorch already, which takes some seconds. Each is a new process, forked from
one that stays. Programs about imports, the pid that hrun has started, or the outermost frame need
ranks.run_python."""

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ranks import ROOT, environment_with, run_python

SUPPORT = pathlib.Path(__file__).resolve().parent
GRACE = 10.0  # seconds in which servers end


class Servers:
    """Processes that fork ready ones, and a folder with their sockets."""

    def __init__(self, environments: Sequence[Mapping[str, str]]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hora-ready-")
        self._processes = [self._start(number, each) for number, each in enumerate(environments)]
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "a server of ready ranks has failed"
        self.python = [sys.executable, "-I", "-S", str(SUPPORT / "ready_python.py"), self._folder.name]

    def _start(self, number: int, environment: Mapping[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-u", SUPPORT / "ready_server.py"],  # all alike: ranks compare arguments
            cwd=ROOT,
            env=environment_with({"OPENBLAS_NUM_THREADS": "1", **environment}),  # a fork loses threads
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(f"{self._folder.name}/{number}\n")
        process.stdin.flush()
        return process

    def end(self) -> None:
        """Raises AssertionError if that fails."""
        for process in self._processes:
            process.communicate(timeout=GRACE)
        codes = [process.returncode for process in self._processes]
        assert not any(codes), f"servers of ready ranks ended with {codes}"
        self._folder.cleanup()


_servers: dict[str, Servers] = {}  # by their environments


def ready_python(environments: Sequence[Mapping[str, str]] = ({}, {})) -> list[str]:
    """The words that stand for `python` in a command. There is a server for each environment, and ranks
    take turns, so that neighbours differ in addresses and in the order of sets. A server's environment
    decides what is read when a process starts, such as LD_PRELOAD; all else is the program's own."""
    key = repr(environments)
    if key not in _servers:
        _servers[key] = Servers(environments)
    return _servers[key].python


def run_ready(ranks: int, program: str, *arguments: str, **how: Any) -> list[list[str]]:
    """Does the same as ranks.run_python."""
    return run_python(ranks, program, *arguments, **how, python=ready_python())


def end_all() -> None:
    """Ends all servers."""
    while _servers:
        _servers.popitem()[1].end()
