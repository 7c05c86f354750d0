# SPDX-License-Identifier: Apache-2.0
"""hrun on hosts of a cluster."""

import pathlib
import subprocess
import sys
import textwrap

from machines import SSH_SESSIONS, Cluster, Host, Word
from ranks import HRUN

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(HRUN).resolve().parents[1]  # of the hrun in use
DIGITS = BUILD / "bin/digits"

# Ranks that say that they are in, and then reduce for ever.
REDUCE_ON = textwrap.dedent("""
    import os, sys, hora, numpy as np
    hora.init()
    hora.barrier()
    print("in", os.getpid(), flush=True)
    while True:
        hora.allreduce(np.ones(1000, np.float32))
    """)


def lines(text: str) -> list[str]:
    """In an order that does not depend on which rank was faster."""
    return sorted(text.splitlines())


class Running:
    """hrun with a program that says "in" on every rank, from when all have said it."""

    def __init__(self, on: Host, ranks: int, *words: Word) -> None:
        self.popen = on.start(HRUN, "-np", str(ranks), *words)
        assert self.popen.stdout is not None
        for _ in range(ranks):
            line = self.popen.stdout.readline()
            if "] in " not in line:
                out, err = self.popen.communicate(timeout=60)
                raise AssertionError(f"instead of 'in': {line}{out}\n{err}")

    def end(self, seconds: float) -> "subprocess.CompletedProcess[str]":
        """How hrun ends, by itself."""
        out, err = self.popen.communicate(timeout=seconds)
        return subprocess.CompletedProcess(self.popen.args, self.popen.returncode, out, err)


def reduce_on(on: Host, ranks: int, *flags: Word) -> Running:
    return Running(on, ranks, *flags, sys.executable, "-c", REDUCE_ON)


def hrun(
    on: Host, *words: Word, seconds: float = 60, directory: Word | None = None
) -> "subprocess.CompletedProcess[str]":
    return on.run(HRUN, *words, seconds=seconds, directory=directory)


def job_named_by(started: "subprocess.Popen[str]") -> str:
    """The number of the job that hrun was started for with --verbose. Jobs of other suites may run as well:
    all hosts have this machine's /tmp, where a command such as `hrun status` finds every job of this user."""
    assert started.stderr is not None
    said = ""
    while "this is job " not in said:
        said = started.stderr.readline()
        assert said, "hrun has not said which job it is"
    return said.split()[-1]


def good(on: Host, *words: Word, seconds: float = 60) -> list[str]:
    """The lines that a job prints that must succeed and say nothing on stderr."""
    result = hrun(on, *words, seconds=seconds)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert result.stderr == ""
    return lines(result.stdout)


def quiet(hosts: Cluster, seconds: float = 10, sessions: bool = True) -> None:
    """Nothing may be left running for longer than this. Without `sessions`, sshd may still wait for a client
    that it does not know to be gone, as it does by default until the system gives up the connection."""
    left = hosts.becomes_quiet(seconds, but=() if sessions else SSH_SESSIONS)
    assert not left, "left running:\n" + "\n".join(left)
