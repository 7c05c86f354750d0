# SPDX-License-Identifier: Apache-2.0
"""Running Python on several ranks, as real processes under hrun."""

import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
HRUN = os.environ.get("HORA_HRUN", str(ROOT / "build/default/bin/hrun"))


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process, with `more` added."""
    return {**os.environ, **more}


def hrun(
    *words: str, seconds: float = 120, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs hrun to its end; output and exit code are the caller's to look at."""
    return subprocess.run(
        [HRUN, *words],
        cwd=ROOT,
        env=environment_with(environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def run_python(
    ranks: int,
    program: str,
    *arguments: str,
    seconds: float = 120,
    environment: dict[str, str] | None = None,
    options: Sequence[str] = (),
    python: Sequence[str] = (sys.executable,),
) -> list[list[str]]:
    """Runs a program on every rank, with options of hrun's. Returns the output of each, by rank, line by
    line. Fails with all output if a rank did."""
    words = ("-np", str(ranks), *options, *python, "-c", textwrap.dedent(program), *arguments)
    result = hrun(*words, seconds=seconds, environment=environment)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    lines: list[list[str]] = [[] for _ in range(ranks)]
    for line in result.stdout.splitlines():
        label, _, text = line.partition("] ")
        lines[int(label.removeprefix("["))].append(text)
    return lines
