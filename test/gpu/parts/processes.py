# SPDX-License-Identifier: Apache-2.0
"""Running commands that may hang, each in a process group of its own."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import time


@dataclasses.dataclass
class Ended:
    """How a command has ended, and all that it printed."""

    code: int | None  # None: it was stopped, since it took too long
    seconds: float
    output: str


def run(
    command: list[str], log: pathlib.Path, limit: float, folder: pathlib.Path, environment: dict[str, str]
) -> Ended:
    """Runs it to its end, or stops it and whatever it has started when its time is over. Never raises for
    what it does."""
    begin = time.monotonic()
    with log.open("a", errors="replace") as out:
        out.write(f"$ {' '.join(command)}\n")
        out.flush()
        start = out.tell()
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            out.write(f"{error}\n")
            return Ended(127, 0.0, str(error))
        code = _wait(process, limit)
        seconds = time.monotonic() - begin
        out.write(f"-- {'stopped' if code is None else f'exit code {code}'} after {seconds:.1f} s\n")
    with log.open("rb") as text:
        text.seek(start)
        return Ended(code, seconds, text.read().decode(errors="replace"))


def _wait(process: "subprocess.Popen[bytes]", limit: float) -> int | None:
    try:
        return process.wait(timeout=max(limit, 0.1))
    except subprocess.TimeoutExpired:
        for end, deadline in (
            (signal.SIGTERM, 8),
            (signal.SIGKILL, 8),
        ):  # hrun ends its ranks when it is asked to
            try:
                os.killpg(process.pid, end)
                process.wait(timeout=deadline)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        return None
