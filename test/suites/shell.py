# SPDX-License-Identifier: Apache-2.0
"""Running programs from the root of the repository."""

import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin/python"
HRUN = ROOT / "build/default/bin/hrun"
LOGS = ROOT / "build/logs"

Word = str | os.PathLike[str]


class Failed(Exception):
    """A step did not succeed; the text says which."""


def run(command: Sequence[Word], environment: Mapping[str, str] | None = None) -> None:
    """Runs a command with its output on the terminal."""
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=ROOT, env={**os.environ, **(environment or {})}, check=False)
    if result.returncode != 0:
        raise Failed(
            f"{' '.join(words[:6])}{' ...' if len(words) > 6 else ''}: exit code {result.returncode}"
        )


def run_quietly(
    name: str, command: Sequence[Word], environment: Mapping[str, str] | None = None, seconds: float = 1800
) -> bool:
    """Runs a command with its output in build/logs/NAME.log; whether it succeeded."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"{name}.log", "wb") as log:
        try:
            result = subprocess.run(
                [str(word) for word in command],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            log.write(f"\nstopped after {seconds} s\n".encode())
            return False
    return result.returncode == 0


def last_lines(text: str, count: int = 40) -> str:
    """The last lines of a text, indented."""
    return "\n".join("    " + line for line in text.splitlines()[-count:])


def end_of_log(name: str, count: int = 40) -> str:
    """Where build/logs/NAME.log is, and its last lines."""
    log = LOGS / f"{name}.log"
    return f"{log}:\n{last_lines(log.read_text(errors='replace'), count)}"
