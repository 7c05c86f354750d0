# SPDX-License-Identifier: Apache-2.0
"""The table of faults: the faults, the phases, the ranks that they happen to, and the expected outcomes."""

import dataclasses
import itertools
import re
from collections.abc import Callable

RANKS = 4
NAMES = "abcd"  # of the hosts that have a rank each, where there are several
HEARTBEAT = 1.0  # seconds, of most cells; what Config has is in DEFAULT_HEARTBEAT
DEFAULT_HEARTBEAT = 5.0
START = 4.0  # HORA_START_TIMEOUT
MISSING = 2.0  # HORA_MISSING_TIMEOUT
AT_ONCE = 1.0  # in which a death on one host is to be known
HRUN_SILENCE = 4.0  # after which hrun and its agents on other hosts take each other for lost
RETURN = 10.0  # in which hrun is to return, with the default grace


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    title: str
    kind: str  # dies | stops | deviates | network | disk
    how: str = ""  # what the others say of it, a pattern
    code: int = 0  # hrun's
    python: bool = False  # whose ranks are Python programs
    within: float = AT_ONCE  # seconds in which others are to know

    @property
    def ends_process(self) -> bool:
        return self.kind == "dies" or self.name == "twice"  # whose error nobody catches


@dataclasses.dataclass(frozen=True)
class Phase:
    name: str
    title: str
    phase: str  # what the program calls it
    plane: str = "shm"


@dataclasses.dataclass(frozen=True)
class Victims:
    name: str
    title: str
    ranks: tuple[int, ...]


FAULTS = [
    Fault(
        "kill",
        "kill -9 (also what the kernel does to whom it has no memory for)",
        "dies",
        r"was killed by signal 9 ",
        137,
    ),
    Fault("stop", "SIGSTOP", "stops", r"no sign of life for [\d.]+ s: it is stopped, or ", 147),
    Fault("segfault", "segfault", "dies", r"was killed by signal 11 ", 139),
    Fault(
        "exception",
        "uncaught exception, C++",
        "dies",
        r"uncaught std::runtime_error: the loss is not a number|was killed by signal 6 ",
        134,
    ),
    Fault(
        "python",
        "uncaught exception, Python",
        "dies",
        r"failed: ValueError: the loss is not a number|exited with code 1\b",
        1,
        python=True,
    ),
    Fault("exit", "exit(0) in mid-epoch", "dies", r"exited with code 0|its process ended", 1),
    Fault(
        "worker",
        "_exit in a DataLoader worker",
        "dies",
        r"DataLoader worker \(pid",
        1,
        python=True,
        within=RETURN,
    ),
    Fault("memory", "out of memory (RLIMIT_AS)", "dies", r"bad_alloc|was killed by signal 6 ", 134),
    Fault("disk", "full disk for logs", "disk", "", 1),
    Fault("cut", "network cut", "network", r"no sign of life for [\d.]+ s: it is stopped, or ", 255),
    Fault("slow", "network slow (8 Mbit/s)", "network", "", 0),
    Fault("skip", "one rank skips a tensor", "deviates", "", 1),
    Fault("shape", "one rank submits another shape", "deviates", "", 1),
    Fault("twice", "one rank submits twice", "deviates", "", 134),
]
PHASES = [
    Phase("before", "before init", "before"),
    Phase("rendezvous", "rendezvous", "rendezvous"),
    Phase("idle", "idle", "idle"),
    Phase("negotiating", "negotiating", "negotiating"),
    Phase("shm", "inside a collective over shm", "inside"),
    Phase("tcp", "inside a collective over tcp", "inside", "tcp"),
    Phase("mpi", "inside a collective over mpi", "inside", "mpi"),
    Phase("nccl", "inside a collective over the fake NCCL", "inside", "nccl"),
    Phase("broadcasting", "broadcasting parameters", "broadcasting"),
    Phase("leaving", "leaving", "leaving"),
]
VICTIMS = [
    Victims("first", "rank 0", (0,)),
    Victims("other", "another rank", (2,)),
    Victims("two", "two ranks", (1, 2)),
]


@dataclasses.dataclass(frozen=True)
class Cell:
    fault: Fault
    phase: Phase
    victims: Victims

    @property
    def name(self) -> str:
        return f"{self.fault.name}-{self.phase.name}-{self.victims.name}"

    @property
    def survivors(self) -> list[int]:
        return [rank for rank in range(RANKS) if rank not in self.victims.ranks]

    @property
    def across_hosts(self) -> bool:
        return self.fault.kind == "network"


@dataclasses.dataclass(frozen=True)
class Expected:
    """The expected outcome of a cell."""

    told: str | None  # a pattern of what each survivor is told; None: nothing is wrong for them
    within: float  # seconds, from the fault to the last of them
    code: int | None  # hrun's; None: mpirun's, in whose place it is
    victims_told: bool = False  # the ranks that it happened to are told, too
    returns: float = RETURN
    report: str | None = None  # a pattern of what hrun says


def impossible(fault: Fault, phase: Phase) -> str | None:
    """Why there is no such cell, if so."""
    if fault.kind == "network":
        return _no_network(fault, phase)
    if fault.kind == "deviates":
        return _no_tensor(fault, phase)
    if fault.python:
        return _no_python(fault, phase)
    if fault.kind == "disk" and phase.plane == "mpi":
        return "hrun keeps no logs of ranks that mpirun starts: --output-filename says so, and names mpirun's own"
    return None


def _no_network(fault: Fault, phase: Phase) -> str | None:
    return {
        "shm": "shared memory is no network",
        "nccl": "the fake NCCL is the memory of one machine",
        "mpi": "not tried: mpirun starts these ranks on other hosts, and its own daemons are what loses them",
    }.get(phase.name)


def _no_tensor(fault: Fault, phase: Phase) -> str | None:
    if phase.name in ("before", "rendezvous"):
        return "there is no job yet to submit a tensor to"
    if phase.name == "idle":
        return "no rank submits a tensor while all are idle: when one does, they negotiate"
    if phase.name == "leaving" and fault.name != "skip":
        return "who is leaving submits nothing"
    if phase.name == "nccl" and fault.name == "twice":
        return "a name may be used again once its work is in the GPU's queue, so this is another tensor, which the others skip"
    return None


def _no_python(fault: Fault, phase: Phase) -> str | None:
    if phase.name == "rendezvous":
        return "only the main thread could raise it, and that is inside init()"
    if fault.name == "worker" and phase.name not in ("before", "idle", "negotiating"):
        return "the loader tells of its worker when it is asked for a batch, which is between collectives"
    if phase.name in ("mpi", "nccl"):
        return "as over shm: the interpreter ends in the same way, whatever tensors move over"
    if phase.name == "leaving":
        return "that is `idle`: who raises it has not called shutdown(), and the others wait in theirs"
    return None


def expected(cell: Cell, heartbeat: float = HEARTBEAT) -> Expected:
    rules: dict[str, Callable[[Cell, float], Expected]] = {
        "dies": _expect_death,
        "stops": _expect_silence,
        "network": _expect_network,
        "disk": lambda cell, heartbeat: Expected(None, 0, cell.fault.code),
        "deviates": _expect_deviation,
    }
    return dataclasses.replace(rules[cell.fault.kind](cell, heartbeat), report=_report(cell))


def _report(cell: Cell) -> str | None:
    """The message of hrun about the victims, where hrun started the ranks, and not all of them fail alike."""
    number = "|".join(map(str, cell.victims.ranks))
    if cell.phase.plane == "mpi" or cell.fault.name in ("slow", "skip", "shape", "worker"):
        return None  # a worker: PyTorch's interpreter may take longer to end than the others wait for that
    if cell.fault.kind == "disk":
        return rf"hrun: cannot write \S+/rank\.({number})/stdout any further: No space left on device\n"
    if cell.fault.kind == "network":
        names = "|".join(
            f"host {NAMES[rank]} is lost, and with it rank {rank}" for rank in cell.victims.ranks
        )
        return rf"hrun: ({names}): "
    if cell.fault.name == "exit":
        return (
            None
            if cell.phase.phase == "leaving"
            else rf"hrun: ranks? (\d and )?({number})\b.* exited with code 0\n"
        )
    return rf"\nhrun: rank ({number}) \(pid \d+\) failed first: it "


def _who(cell: Cell) -> str:
    return f"rank ({'|'.join(map(str, cell.victims.ranks))}) "


def _expect_death(cell: Cell, heartbeat: float) -> Expected:
    if cell.phase.phase == "leaving":
        return Expected("shutdown has returned", AT_ONCE, 0 if cell.fault.name == "exit" else cell.fault.code)
    if cell.phase.plane == "mpi":  # no hrun tells how ranks end
        return Expected(rf"{_who(cell)}.*(is gone: its process ended|failed: )", AT_ONCE, None)
    return Expected(rf"{_who(cell)}.*({cell.fault.how})", cell.fault.within, cell.fault.code)


def _unmet(cell: Cell) -> Expected:
    """Ranks that have not met yet know each other by their silence alone when their time is over."""
    others = rf"ranks? [\d and]*({'|'.join(map(str, cell.victims.ranks))})\b.*(did not come within|no sign of life)"
    first = "(did not get|has got) through to rank 0" if 0 in cell.victims.ranks else None
    return Expected(f"{others}|{first}" if first else others, START + 3, cell.fault.code)


def _expect_silence(cell: Cell, heartbeat: float) -> Expected:
    if cell.phase.name in ("before", "rendezvous"):
        return _unmet(cell)
    if cell.phase.phase == "leaving":
        return Expected("shutdown has returned", heartbeat + 1, cell.fault.code)
    code = None if cell.phase.plane == "mpi" else cell.fault.code
    return Expected(rf"{_who(cell)}.*{cell.fault.how}", heartbeat + 1, code)


def _expect_network(cell: Cell, heartbeat: float) -> Expected:
    if cell.fault.name == "slow":
        return Expected(None, 0, 0)
    if cell.phase.name in ("before", "rendezvous"):
        return _unmet(cell)  # whom its host's agent ends, which hears nothing of hrun either
    told = "shutdown has returned" if cell.phase.phase == "leaving" else rf"rank \d .*{cell.fault.how}"
    lives = heartbeat < HRUN_SILENCE  # its host's agent ends a rank that hears nothing of hrun
    return Expected(told, heartbeat + 1, cell.fault.code, victims_told=lives)


def _tensor(cell: Cell) -> str:
    """The tensor about which the ranks do not do the same."""
    if cell.phase.name in ("negotiating", "leaving"):
        return "'gradient'"
    if cell.phase.phase == "inside":
        return r"'gradient\.\d+'" if cell.fault.name == "twice" else r"'next\.\d+'"
    return r"'parameter\.0\.7'"


def _expect_deviation(cell: Cell, heartbeat: float) -> Expected:
    tensor, any_of_them = _tensor(cell), "|".join(map(str, cell.victims.ranks))
    if cell.fault.name == "shape":
        return Expected(rf"(?s){tensor}.*rank", AT_ONCE, 1, victims_told=True)
    if cell.fault.name == "twice":
        return Expected(
            rf"{_who(cell)}.*uncaught hora::Error: {tensor}",
            AT_ONCE,
            None if cell.phase.plane == "mpi" else 134,
        )
    if cell.phase.name == "leaving":
        return Expected(
            rf"{tensor}: ranks? ({any_of_them})\b.* left the job without submitting it", AT_ONCE, 1
        )
    missing = rf"{tensor}[^\n]*missing:\n +ranks? (\d and )?({any_of_them})\b"
    reversed_roles = (
        rf"ranks? ({any_of_them})\b[^\n]* asked for it; missing:\n[^\n]*It waits itself, for {tensor}"
    )
    return Expected(f"{missing}|{reversed_roles}", MISSING + 1, 1, victims_told=True)


def cells() -> list[Cell]:
    """All that can be."""
    return [
        Cell(fault, phase, victims)
        for fault, phase, victims in itertools.product(FAULTS, PHASES, VICTIMS)
        if impossible(fault, phase) is None
    ]


SAMPLE = ("kill", "stop", "exception", "cut")


def sample() -> list[Cell]:
    """Some faults in every phase, each with other victims than the one before. A process that is stopped
    inside Open MPI may hold up others in there until it goes on, so that those are told late: the whole table
    shows whether it did."""
    chosen = []
    for at, name in enumerate(SAMPLE):
        for turn, phase in enumerate(PHASES):
            victims = VICTIMS[(at + turn) % len(VICTIMS)]
            found = [
                cell
                for cell in cells()
                if (cell.fault.name, cell.phase, cell.victims) == (name, phase, victims)
            ]
            chosen += found if (name, phase.name) != ("stop", "mpi") else []
    return chosen


def matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None
