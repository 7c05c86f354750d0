# SPDX-License-Identifier: Apache-2.0
"""Plays one cell of the table: starts a job, brings its ranks to the phase, lets the fault happen, and notes
what they say, when, and what is left of it all.

Ranks connect to a local socket, the stage; test/faults/fault_rank.cc says what they tell and which cues they
wait for. All times are those of CLOCK_MONOTONIC, which all processes of the machine share."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from machines import RATE, SSH_SESSIONS, Cluster, Host
from ranks import HRUN
from table import DEFAULT_HEARTBEAT, HEARTBEAT, MISSING, NAMES, RANKS, START, Cell

BUILD = pathlib.Path(HRUN).resolve().parents[1]
PROGRAM = BUILD / "test/fault_rank"
FAKES = BUILD / "test/fake_gpu"
PYTHON_PROGRAM = pathlib.Path(__file__).with_name("fault_rank.py")
HOSTS = (*NAMES, "e")  # hrun runs on the last one
LONGEST = 30.0  # seconds that a cell may take
LOG_ROOM = "256k"  # on the disk that fills
SLOW = (*RATE, "8mbit")
PYTHON_START = 30.0  # HORA_START_TIMEOUT where PyTorch is imported by some ranks only
SIZES = {"slow": 1 << 20, "nccl": 16 << 20}  # bytes of a tensor that takes its time: by fault or plane, ...
LARGE = 64 << 20  # ... and else
CLOSES = 1.0  # seconds: a process that ends leaves its host first, and then closes its sockets

Words = dict[str, Any]


@dataclasses.dataclass
class Outcome:
    """The observed outcome of a cell."""

    cell: Cell
    said: list[Words]  # by ranks, in order of arrival
    code: int | None  # hrun's; None: it had to be killed
    output: str
    errors: str
    returned: float  # when
    acted: float | None  # when this test cut or slowed the network
    left: list[str]
    quiet_after: float  # seconds after hrun's return until no process was left

    def happened(self) -> float | None:
        """When the fault had befallen all its victims; None: it has not."""
        return when_it_happened(self.cell, self.said, self.acted)

    def told(self) -> dict[int, tuple[float, str]]:
        """When each rank was told, and what."""
        return {said["rank"]: (said["at"], said["what"]) for said in self.said if said["event"] == "told"}

    def where(self) -> list[str]:
        """How far the victims were."""
        return [said["where"] for said in self.said if said["event"] == "fault"]

    def descriptors_left(self) -> list[str]:
        """The descriptors left by ranks that ended in order; and those that a rank got without being told.
        MPI keeps its own to the end."""
        found = [
            f"rank {said['rank']} began with the descriptor {each}"
            for said in self.said
            if said["event"] == "born"
            for each in said["descriptors"]
        ]
        for said in self.said:
            if said["event"] == "out" and self.cell.phase.plane != "mpi":
                found += [
                    f"rank {said['rank']} has the descriptor {each} still"
                    for each in without_own_pipe(said["left"])
                ]
        return found


def when_it_happened(cell: Cell, said: list[Words], acted: float | None) -> float | None:
    """The time of the last victim's fault; None: not all have had theirs. `acted`: when the test did it."""
    if acted is not None:
        return acted
    times = {words["rank"]: words["at"] for words in said if words["event"] == "fault"}
    return max(times.values()) if set(times) == set(cell.victims.ranks) else None


def without_own_pipe(descriptors: list[str]) -> list[str]:
    """Without the one pipe that a process keeps, through which the stack of its main thread comes
    (core/watch/stack)."""
    pipes = [each.partition(": ")[2] for each in descriptors if "pipe:" in each]
    return (
        [each for each in descriptors if each.partition(": ")[2] not in pipes]
        if len(pipes) == 2 and pipes[0] == pipes[1]
        else descriptors
    )


# ---- what is left on a machine

Traces = set[str]
OWN_PORTS = (22, 2222)  # of the machine's sshd


def traces_on(host: Host) -> Traces:
    """The traces that a job might leave on a host, beside processes."""
    root = pathlib.Path(f"/proc/{host.pid}")
    found = {f"/dev/shm/{name}" for name in os.listdir(root / "root/dev/shm")}
    for table in ("tcp", "tcp6"):
        for line in (root / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == "0A" and port not in OWN_PORTS:
                found.add(f"a listening port {port} ({table})")
    for line in (root / "net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and not fields[7].endswith("/stage"):
            found.add(f"the local socket {fields[7]}")
    for kind in ("shm", "sem", "msg"):
        lines = host.do("cat", f"/proc/sysvipc/{kind}").splitlines()[1:]
        found |= {f"System V {kind} {line.split()[1]}" for line in lines}
    return found


def files_in(folder: pathlib.Path) -> Traces:
    """All temporary files of a job except the reports of its failure."""
    return {
        f"the file {path}"
        for path in folder.rglob("*")
        if path.is_file()
        and not re.fullmatch(r"hora-\w+/rank\.\d+\.json|hora-\w+/.*\.json", str(path.relative_to(folder)))
    }


# ---- the ranks' lines


@dataclasses.dataclass
class Line:
    """A rank's, once it has said who it is."""

    socket: socket.socket
    pid: int  # as this machine numbers it
    rank: int = -1
    rest: bytes = b""
    over: bool = False

    def cue(self, word: str) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.socket.sendall(word.encode() + b"\n")

    def read(self) -> Iterator[Words]:
        try:
            more = self.socket.recv(65536)
        except ConnectionResetError:
            more = b""
        self.over = not more
        *whole, self.rest = (self.rest + more).split(b"\n")
        yield from map(json.loads, whole)


def peer_of(connection: socket.socket) -> int:
    return int(
        struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )[0]
    )


def is_stopped(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return True


class Performance:
    """A job of one cell."""

    def __init__(
        self,
        cell: Cell,
        hosts: Cluster,
        folder: pathlib.Path,
        heartbeat: float = HEARTBEAT,
        grace: float | None = None,
    ) -> None:
        self._cell = cell
        self._hosts = hosts
        self._console = hosts[HOSTS[-1]]
        self._folder = folder
        self._heartbeat = heartbeat
        self._grace = grace
        self._lines: list[Line] = []
        self._said: list[Words] = []
        self._there: set[int] = set()
        self._faults: set[int] = set()
        self._cued: set[tuple[int, str]] = set()
        self._acted: float | None = None
        self._slowed = contextlib.ExitStack()
        self._selector = selectors.DefaultSelector()
        self._stage = ""

    # ---- the command

    def _environment(self) -> dict[str, str]:
        scratch = self._folder / "scratch"
        scratch.mkdir(exist_ok=True)
        own = {
            "TMPDIR": str(scratch),
            "HORA_DUMP_DIR": str(self._folder / "dumps"),
            "HORA_HEARTBEAT_TIMEOUT": f"{self._heartbeat:g}",
            "HORA_START_TIMEOUT": f"{START:g}",
            "OMP_NUM_THREADS": "1",
        }
        if self._cell.fault.python:
            own["HORA_START_TIMEOUT"] = f"{PYTHON_START:g}"
        if self._cell.fault.kind == "deviates":
            own |= {"HORA_MISSING_WARNING": f"{MISSING / 2:g}", "HORA_MISSING_TIMEOUT": f"{MISSING:g}"}
        if self._cell.fault.name == "slow":
            own["HORA_HEARTBEAT_TIMEOUT"] = f"{DEFAULT_HEARTBEAT:g}"
        if self._cell.fault.name == "disk":
            own["HORA_DUMP_DIR"] = str(self._disk)
        if self._cell.phase.plane == "nccl":
            own |= {
                "LD_LIBRARY_PATH": f"{FAKES}:{os.environ.get('LD_LIBRARY_PATH', '')}",
                "HORA_NCCL_LIBRARY": str(FAKES / "libnccl.so.2"),
                "FAKE_GPUS": str(RANKS),
            }
        elif self._cell.phase.plane != "shm":
            own["HORA_CPU_OPERATIONS"] = self._cell.phase.plane
        return own

    @property
    def _disk(self) -> pathlib.Path:
        return self._folder / "disk"

    def _program(self) -> list[str]:
        part = self._cell
        arguments = [
            part.phase.phase,
            part.phase.plane,
            part.fault.name,
            ",".join(map(str, part.victims.ranks)),
            str(SIZES.get(part.fault.name, SIZES.get(part.phase.plane, LARGE))),
        ]
        program = [sys.executable, str(PYTHON_PROGRAM)] if part.fault.python else [str(PROGRAM)]
        return [*program, self._stage, *arguments]

    def _command(self) -> list[str]:
        words = [HRUN, "-np", str(RANKS)]
        if self._cell.across_hosts:
            words += ["-H", ",".join(HOSTS[:RANKS])]
            words += [
                word for name in ("HORA_HEARTBEAT_TIMEOUT", "HORA_START_TIMEOUT") for word in ("-x", name)
            ]
        if self._grace is not None:
            words += ["--grace", f"{self._grace:g}"]
        if self._cell.fault.name == "disk":
            words += ["--output-filename", str(self._disk)]
        if self._cell.phase.plane == "mpi":
            # Else mpirun ends the others when it hears of an end, which may be before they do.
            alone = " --enable-recovery" if self._cell.fault.ends_process else ""
            words += ["--mpi", "--mpi-args", f"--oversubscribe{alone}"]
        return [*words, *self._program()]

    # ---- the play

    def run(self) -> Outcome:
        self._folder.mkdir(parents=True, exist_ok=True)
        before = {host.name: traces_on(host) for host in self._hosts.hosts}
        with contextlib.ExitStack() as stack:
            stack.callback(self._mend)
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            place = stack.enter_context(
                tempfile.TemporaryDirectory(dir="/tmp")
            )  # as a socket's path may not be long
            self._stage = f"{place}/stage"
            listener.bind(self._stage)
            listener.listen(2 * RANKS)
            self._selector.register(listener, selectors.EVENT_READ)
            if self._cell.fault.name == "disk":
                self._disk.mkdir()
                self._console.do("mount", "-t", "tmpfs", "-o", f"size={LOG_ROOM}", "none", self._disk)
                stack.callback(lambda: self._console.do("umount", "--lazy", self._disk))
            files = [stack.enter_context(open(self._folder / name, "wb")) for name in ("output", "errors")]
            job = subprocess.Popen(
                self._console.command(*self._command()),
                env={**os.environ, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=files[0],
                stderr=files[1],
            )
            code, returned = self._follow(job, listener)
            left, quiet_after = self._left(before, returned)
            for line in self._lines:
                line.socket.close()
        output, errors = ((self._folder / name).read_text(errors="replace") for name in ("output", "errors"))
        return Outcome(self._cell, self._said, code, output, errors, returned, self._acted, left, quiet_after)

    def _follow(self, job: "subprocess.Popen[bytes]", listener: socket.socket) -> tuple[int | None, float]:
        """How hrun ended, and when."""
        end = os.pidfd_open(job.pid)
        self._selector.register(end, selectors.EVENT_READ)
        deadline = time.monotonic() + LONGEST
        returned = None
        while returned is None and time.monotonic() < deadline:
            for key, _ in self._selector.select(deadline - time.monotonic()):
                if key.fileobj is listener:
                    self._admit(listener)
                elif key.fileobj == end:
                    returned = time.monotonic()
                else:
                    self._hear(key.data)
            self._direct()
        os.close(end)
        if returned is None:
            self._hosts.sweep()
            job.wait()
            return None, time.monotonic()
        for line in self._lines:  # what was said before the end
            line.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while not line.over:
                    self._hear(line)
        return job.wait(), returned

    def _admit(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        line = Line(connection, peer_of(connection))
        self._lines.append(line)
        self._selector.register(connection, selectors.EVENT_READ, line)

    def _hear(self, line: Line) -> None:
        for words in line.read():
            line.rank = words["rank"]
            self._said.append(words)
            if words["event"] == "there":
                self._there.add(line.rank)
            if words["event"] == "fault":
                self._faults.add(line.rank)
        if line.over:
            with contextlib.suppress(KeyError):
                self._selector.unregister(line.socket)

    # ---- cues

    def _cue(self, ranks: list[int] | tuple[int, ...], word: str) -> None:
        for line in self._lines:
            if line.rank in ranks and (line.rank, word) not in self._cued:
                self._cued.add((line.rank, word))
                line.cue(word)

    def _direct(self) -> None:
        """Gives the cues that are due: all are in the phase; then it happens to the victims; then the others
        go on."""
        victims = self._cell.victims.ranks
        if len(self._there) == RANKS:
            self._cue(victims, "go")
        if not self._faults:
            return
        self._cue(victims, "now")
        in_rounds = self._cell.phase.phase in ("inside", "broadcasting")
        if (
            self._cell.fault.kind == "network"
            and self._acted is None
            and (in_rounds or self._faults == set(victims))
        ):
            self._trouble()
            self._cue(victims, "done")
        if self._faults == set(victims) and all(map(self._has_happened, victims)):
            self._cue(self._cell.survivors, "go")

    def _has_happened(self, rank: int) -> bool:
        line = next(line for line in self._lines if line.rank == rank)
        if self._cell.fault.ends_process:
            if not line.over:
                self._hear_to_the_end(line)
            return True
        if self._cell.fault.kind == "stops":
            while not is_stopped(line.pid):
                time.sleep(0.0005)
        return True

    def _hear_to_the_end(self, line: Line) -> None:
        """Its socket closes when it dies."""
        line.socket.settimeout(LONGEST)
        while not line.over:
            self._hear(line)

    def _trouble(self) -> None:
        for rank in self._cell.victims.ranks:
            host = self._hosts[HOSTS[rank]]
            if self._cell.fault.name == "cut":
                host.cut()
            else:
                self._slowed.enter_context(host.link(*SLOW))
        self._acted = time.monotonic()

    def _mend(self) -> None:
        self._slowed.close()
        if self._cell.fault.name == "cut":
            for rank in self._cell.victims.ranks:
                self._hosts[HOSTS[rank]].mend()
        self._hosts.sweep()

    # ---- afterwards

    def _new_traces(self, before: Mapping[str, Traces]) -> list[str]:
        return [
            f"{host.name}: {trace}"
            for host in self._hosts.hosts
            for trace in sorted(traces_on(host) - before[host.name])
        ]

    def _left(self, before: Mapping[str, Traces], returned: float) -> tuple[list[str], float]:
        """The processes, traces and files that are left, and how long after hrun's return there were
        processes."""
        cut = self._cell.fault.name == "cut"
        processes = self._hosts.becomes_quiet(
            self._heartbeat + 5 if cut else 5, but=SSH_SESSIONS if cut else ()
        )
        quiet_after = time.monotonic() - returned
        closed = time.monotonic() + CLOSES
        while (traces := self._new_traces(before)) and time.monotonic() < closed:
            time.sleep(0.01)
        files = sorted(files_in(self._folder / "scratch"))
        return [*processes, *traces, *files], quiet_after
