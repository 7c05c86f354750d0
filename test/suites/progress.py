# SPDX-License-Identifier: Apache-2.0
"""Long steps, shown while they run: what each one does, how far the whole is, and how long it has taken.

A terminal has one line, which is written anew. Elsewhere a line follows every REPORTS seconds, and one for
each step that ends. Steps may run in several threads. A step's output goes into build/logs/NAME.log.
"""

import concurrent.futures
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from . import times
from .remedies import explained
from .shell import LOGS, ROOT, Failed

REPORTS = 15.0  # seconds between two lines where the output is no terminal

# Reads one line of a step's output. Returns how much of the step is done, from 0 to 1, and a detail to show;
# or nothing.
Reader = Callable[[str], tuple[float, str] | None]


class Progress:
    """The steps of one set-up. `plan` has every step's label and about how many seconds of the whole it
    takes."""

    def __init__(self, plan: Mapping[str, float], stream: TextIO = sys.stdout) -> None:
        self._plan = dict(plan)
        self._stream = stream
        self._begun = time.monotonic()
        self._reported = self._begun
        self._lock = threading.Lock()
        self._shares: dict[str, float] = {}  # of the steps that have begun: how much is done
        self._details: dict[str, str] = {}  # of the steps that are under way
        self._processes: set[subprocess.Popen[str]] = set()
        self._stopped = False
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def skip(self, label: str) -> None:
        """Takes a step for done."""
        self._shares[label] = 1.0

    def run(
        self,
        label: str,
        name: str,
        command: Sequence[object],
        environment: Mapping[str, str] | None = None,
        reader: Reader | None = None,
    ) -> None:
        """Runs a command as a step. Throws Failed, with the end of its log and the remedy, if it fails."""
        begun = time.monotonic()
        self._change(label, 0.0, "")
        LOGS.mkdir(parents=True, exist_ok=True)
        with open(LOGS / f"{name}.log", "w", errors="replace") as log:
            process = self._start([str(word) for word in command], environment)
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    if reader is not None and (found := reader(line)) is not None:
                        self._change(label, *found)
                process.wait()
            finally:
                if process.poll() is None:  # Ctrl-C
                    end(process)
                    process.wait()
                self._processes.discard(process)
        if process.returncode != 0:
            raise Failed("it was interrupted" if self._stopped else self._failure(label, name))
        self._end(label, time.monotonic() - begun)

    def together(self, *steps: Callable[[], None]) -> None:
        """Does steps at the same time. If one fails, ends the others, and throws what it has thrown."""
        with concurrent.futures.ThreadPoolExecutor(len(steps)) as threads:
            try:
                for part in concurrent.futures.as_completed([threads.submit(step) for step in steps]):
                    part.result()
            except BaseException:
                self.stop()  # before `threads` waits for them
                raise

    def stop(self) -> None:
        """Ends what is under way: another step has failed, or the user has had enough."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                end(process)

    def __enter__(self) -> "Progress":
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._over.set()
        self._clock.join()
        with self._lock:
            self._clear()

    def _tick(self) -> None:
        """The clock goes on while a step writes nothing."""
        while not self._over.wait(1.0):
            with self._lock:
                self._show()

    def _start(self, command: list[str], environment: Mapping[str, str] | None) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise Failed("it was interrupted")
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                process_group=0,
            )
            self._processes.add(process)
            return process

    def _failure(self, label: str, name: str) -> str:
        return f"{label} failed; its log is {explained(name)}"

    def _change(self, label: str, share: float, detail: str) -> None:
        with self._lock:
            self._shares[label] = max(share, self._shares.get(label, 0.0))
            self._details[label] = detail
            self._show()

    def _end(self, label: str, seconds: float) -> None:
        times.add(label, seconds)
        with self._lock:
            self._shares[label] = 1.0
            self._details.pop(label, None)
            self._clear()
            print(f"{self._head()} {label}: done in {seconds:.0f} s", file=self._stream, flush=True)
            self._reported = time.monotonic()
            self._show()

    def _head(self) -> str:
        """The clock, and how much of all steps is done."""
        seconds = int(time.monotonic() - self._begun)
        whole = sum(self._plan.values())
        done = sum(usual * self._shares.get(label, 0.0) for label, usual in self._plan.items())
        return f"{seconds // 60:2d}:{seconds % 60:02d} {int(100 * done / whole):3d}%"

    def _show(self) -> None:
        if not self._details:
            return
        line = f"{self._head()} " + ", ".join(
            f"{label}{': ' if detail else ''}{detail}" for label, detail in self._details.items()
        )
        if self._stream.isatty():
            width = (os.get_terminal_size(self._stream.fileno()).columns or 80) - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=self._stream, flush=True)
        elif time.monotonic() - self._reported > REPORTS:
            self._reported = time.monotonic()
            print(line, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._stream.isatty():
            print("\r\x1b[K", end="", file=self._stream, flush=True)


def end(process: subprocess.Popen[str]) -> None:
    """Ends a step's command with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def of_apt(line: str) -> tuple[float, str] | None:
    """Reads the lines of APT::Status-Fd: apt first downloads, then unpacks and configures."""
    found = re.match(r"(dlstatus|pmstatus):[^:]*:([0-9.]+):", line)
    if found is None:
        return None
    percent = float(found[2])
    share = 0.3 * percent / 100 if found[1] == "dlstatus" else 0.3 + 0.7 * percent / 100
    return share, f"{percent:.0f}% {'downloaded' if found[1] == 'dlstatus' else 'installed'}"


def of_ninja(line: str) -> tuple[float, str] | None:
    """Reads [done/all], which ninja and CMake write before each command."""
    found = re.search(r"\[(\d+)/(\d+)\]", line)
    return (int(found[1]) / int(found[2]), f"{found[1]} of {found[2]}") if found else None


def of_pip(usual: int) -> Reader:
    """A reader of `pip install --progress-bar raw`, which usually downloads so many files: those that are
    downloaded, and unpacked."""
    known: set[str] = set()
    current = ""
    files = 0

    def read(line: str) -> tuple[float, str] | None:
        nonlocal current, files
        if found := re.match(r"\s*Collecting ([A-Za-z0-9_.-]+)", line):
            known.add(found[1])
            return None
        if found := re.match(
            r"\s*(?:Downloading|Using cached|Processing) \S*?([A-Za-z0-9_.]+)-[0-9][^/\s]*\.whl(?!\.metadata)",
            line,
        ):
            current = found[1].replace("_", "-")
            files += 1
            return share(files), current
        if found := re.match(r"\s*Progress (\d+) of (\d+)", line):
            done, all_bytes = int(found[1]), max(int(found[2]), 1)
            return share(files - 1 + done / all_bytes), f"{current} {done >> 20} of {all_bytes >> 20} MiB"
        if line.startswith("Installing collected packages"):
            return 0.6, f"unpacking {max(files, len(known))} packages"
        return None

    def share(downloaded: float) -> float:
        return 0.6 * min(1.0, downloaded / max(len(known), usual))

    return read
