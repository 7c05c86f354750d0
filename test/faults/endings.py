# SPDX-License-Identifier: Apache-2.0
"""The ways in which a program can end, and what is to be expected of each: the table of endings."""

import dataclasses
import itertools
import re

RANKS = 3
WITHIN = 20.0  # seconds that a job may take
LEFT = r"rank {rank} has left the job without submitting it"


@dataclasses.dataclass(frozen=True)
class Ending:
    name: str
    title: str
    code: int  # the program's
    told: str = ""  # a pattern of what others hear that wait for it; empty: nothing is wrong
    body: str = ""  # of a Python program, at the indentation of a function
    prelude: str = ""  # before hora is imported
    blamed: bool = True  # whether it is the first cause where others wait for it
    only_waited: bool = False  # it makes no sense where nobody waits

    @property
    def python(self) -> bool:
        return bool(self.body)


@dataclasses.dataclass(frozen=True)
class Cell:
    ending: Ending
    waited: bool  # whether the others wait for an operation of the one that ends
    victim: int
    plane: str  # shm | tcp

    @property
    def name(self) -> str:
        return f"{self.ending.name}-{'waited' if self.waited else 'idle'}-{self.victim}-{self.plane}"

    @property
    def healthy(self) -> bool:
        """Whether the job ends well."""
        return self.ending.code == 0 and (not self.ending.told or not self.waited)

    @property
    def first_cause(self) -> bool:
        """Whether the one that ends is the first cause."""
        return self.ending.code != 0 or (self.waited and bool(self.ending.told) and self.ending.blamed)


def _exited(code: int, words: str = "") -> str:
    return rf"rank {{rank}} \(pid \d+ on \S+\) failed: {words}it exited with code {code}\b"


def _killed(signal: int, words: str = "is gone: ") -> str:
    return rf"rank {{rank}} \(pid \d+ on \S+\) {words}it was killed by signal {signal} "


_THREAD_WAITS = """
began = threading.Event()
def receive():
    began.set()
    hora.recv(source=(hora.rank() + 1) % hora.size(), tag=7)
{start}
began.wait()
"""
_THREAD = _THREAD_WAITS.format(start="threading.Thread(target=receive).start()")
_DAEMON = _THREAD_WAITS.format(start="threading.Thread(target=receive, daemon=True).start()")
_POOL = _THREAD_WAITS.format(start="pool = concurrent.futures.ThreadPoolExecutor(1); pool.submit(receive)")
# Room for some objects, but not for the stack of a thread (8 MiB). Without any, glibc may abort: thread-local
# data of a library is allocated when a thread first uses it.
_FULL = """
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (4 << 20)
resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
"""
_RAISE = 'raise ValueError("bad batch")'
_PENDING = 'hora.allreduce_async(np.ones(1 << 20), name="pending")\n'
_CAUGHT = "try: sys.exit(2)\nexcept SystemExit: pass\nwait()\n"
_PRINTED = "try: 1 / 0\nexcept ZeroDivisionError: sys.excepthook(*sys.exc_info())\nwait()\nhora.shutdown()"
_UNSAYABLE = 'class Odd(Exception):\n    def __str__(self): raise KeyError("none")\nraise Odd()'
_AT_LAST = "class Last:\n    def __del__(self): raise ValueError('at the end')\nsys.kept = Last()\nwait()"

PYTHON = [
    Ending("return", "the end of the script", 0, LEFT, "return", blamed=False),
    Ending("exit-0", "`sys.exit(0)`", 0, LEFT, "sys.exit(0)", blamed=False),
    Ending("raise-0", "`raise SystemExit`", 0, LEFT, "raise SystemExit", blamed=False),
    Ending("quit-0", "`quit()`", 0, LEFT, "quit()", blamed=False),
    Ending("exit-3", "`sys.exit(3)`", 3, _exited(3, r"sys\.exit\(3\) \(program.py:\d+\); "), "sys.exit(3)"),
    Ending(
        "exit-259",
        "`sys.exit(259)`",
        3,
        _exited(3, r"sys\.exit\(259\) \(program.py:\d+\); "),
        "sys.exit(259)",
    ),
    Ending(
        "exit-text",
        '`sys.exit("text")`',
        1,
        _exited(1, r"sys\.exit\('no data here'\) \(program.py:\d+\); "),
        'sys.exit("no data here")',
    ),
    Ending("raise-3", "`raise SystemExit(3)`", 3, _exited(3), "raise SystemExit(3)"),
    Ending(
        "raise-text",
        '`raise SystemExit("text")`',
        1,
        _exited(1) + "; its last words: no data here",
        'raise SystemExit("no data here")',
    ),
    Ending("builtin-exit", "`exit(3)`", 3, _exited(3), "exit(3)"),
    Ending("builtin-quit", "`quit(3)`", 3, _exited(3), "quit(3)"),
    Ending(
        "imported-exit",
        "`from sys import exit` before Hora is imported",
        3,
        _exited(3),
        "early_exit(3)",
        "from sys import exit as early_exit",
    ),
    Ending(
        "os-exit",
        "`os._exit(3)`",
        3,
        r"rank {rank} .* is gone: it exited with code 3 without shutdown",
        "os._exit(3)",
    ),
    Ending(
        "value-error", "an exception", 1, _exited(1, r"ValueError: bad batch \(program.py:\d+\); "), _RAISE
    ),
    Ending(
        "unsayable",
        "an exception whose `str()` raises",
        1,
        _exited(1, r"\S*Odd: <its str\(\) failed> \(program.py:\d+\); "),
        _UNSAYABLE,
    ),
    Ending(
        "surrogate",
        "a text with a lone surrogate",
        1,
        _exited(1, r"ValueError: a\\udc80b \(program.py:\d+\); "),
        'raise ValueError("a\\udc80b")',
    ),
    Ending(
        "long",
        "a text of 1 MB",
        1,
        r"rank {rank} .* failed: ValueError: xxx",
        'raise ValueError("x" * 1_000_000)',
    ),
    Ending(
        "own-hook",
        "a `sys.excepthook` that calls no other",
        1,
        _exited(1, r"ValueError: bad batch .*; "),
        "sys.excepthook = lambda *a: None\n" + _RAISE,
    ),
    Ending(
        "base",
        "a BaseException",
        1,
        _exited(1, r"\S*Base: at all .*; "),
        'class Base(BaseException): pass\nraise Base("at all")',
    ),
    Ending(
        "interrupt",
        "KeyboardInterrupt",
        130,
        _killed(2, r"failed: KeyboardInterrupt \(program.py:\d+\); "),
        "raise KeyboardInterrupt",
    ),
    Ending(
        "memory-error",
        "MemoryError (RLIMIT_AS)",
        1,
        r"rank {rank} .*(failed: MemoryError|exited with code 1\b)",
        _FULL + "hoard = [bytearray(1 << 20) for _ in range(1 << 20)]",
    ),
    Ending(
        "no-thread",
        "an exception without memory for a thread",
        1,
        _exited(1, r"ValueError: bad batch .*; "),
        _FULL + _RAISE,
    ),
    Ending(
        "no-thread-exit",
        "`raise SystemExit(3)` without memory for a thread",
        3,
        _exited(3),
        _FULL + "raise SystemExit(3)",
    ),
    Ending(
        "finally",
        "`shutdown()` in a `finally` block that an exception passes",
        1,
        LEFT,
        f"try: {_RAISE}\nfinally: hora.shutdown()",
    ),
    Ending(
        "shutdown-3",
        "`shutdown()`, then `raise SystemExit(3)`",
        3,
        LEFT,
        "hora.shutdown()\nraise SystemExit(3)",
    ),
    Ending(
        "pending-3",
        "`raise SystemExit(3)` with an operation under way",
        3,
        _exited(3),
        _PENDING + "raise SystemExit(3)",
    ),
    Ending(
        "pending-raise",
        "an exception with an operation under way",
        1,
        _exited(1, r"ValueError: bad batch .*; "),
        _PENDING + _RAISE,
    ),
    Ending(
        "pending-0",
        "`raise SystemExit` with the operation under way",
        0,
        "",
        'hora.allreduce_async(np.ones(1 << 20), name="waited")\nraise SystemExit',
        only_waited=True,
    ),
    Ending(
        "daemon",
        "`raise SystemExit(3)` while a daemon thread waits",
        3,
        _exited(3),
        _DAEMON + "raise SystemExit(3)",
    ),
    Ending(
        "thread-raise",
        "an exception while a thread waits",
        1,
        _exited(1, r"ValueError: bad batch .*; "),
        _THREAD + _RAISE,
        only_waited=True,
    ),
    Ending(
        "thread-exit",
        "`sys.exit(3)` while a thread waits",
        3,
        _exited(3, r"sys\.exit\(3\) .*; "),
        _THREAD + "sys.exit(3)",
        only_waited=True,
    ),
    Ending(
        "pool",
        "an exception while a thread of a pool waits",
        1,
        _exited(1, r"ValueError: bad batch .*; "),
        _POOL + _RAISE,
        only_waited=True,
    ),
    Ending("kill", "SIGKILL", 137, _killed(9), "os.kill(os.getpid(), 9)"),
    Ending("term", "SIGTERM", 143, _killed(15), "os.kill(os.getpid(), 15)"),
    Ending("segfault", "SIGSEGV", 139, _killed(11), "ctypes.string_at(0)"),
    Ending(
        "in-thread",
        "an exception that ends another thread",
        0,
        "",
        "threading.Thread(target=lambda: 1 / 0).start()\nwait()",
    ),
    Ending("in-atexit", "an exception in `atexit`", 0, "", "atexit.register(lambda: 1 / 0)\nwait()"),
    Ending("in-del", "an exception in `__del__` at the end", 0, "", _AT_LAST),
    Ending("caught-exit", "a `sys.exit(2)` that is caught", 0, "", _CAUGHT),
    Ending("caught-then-exit", "a `sys.exit(2)` that is caught, then `exit(0)`", 0, "", _CAUGHT + "exit(0)"),
    Ending(
        "caught-shutdown",
        "a `sys.exit(2)` that is caught, then `shutdown()`",
        0,
        "",
        _CAUGHT + "hora.shutdown()",
    ),
    Ending("printed", "an exception that is only printed by `sys.excepthook`", 0, "", _PRINTED),
    Ending(
        "fork",
        "a forked child that ends with `sys.exit(3)`",
        0,
        "",
        "if (child := os.fork()) == 0: sys.exit(3)\nos.waitpid(child, 0)\nwait()",
    ),
]
CPP = [
    Ending("cpp-return", "C++: `return 0` from main", 0, LEFT, blamed=False),
    Ending("cpp-return-3", "C++: `return 3` from main, which destroys the Runtime", 3, LEFT),
    Ending("cpp-exit", "C++: `std::exit(3)` with a Runtime", 3, _exited(3)),
    Ending(
        "cpp-exit-0",
        "C++: `std::exit(0)` with a Runtime",
        0,
        r"rank {rank} .* is gone: it exited with code 0 without shutdown",
        blamed=False,
        only_waited=True,
    ),
    Ending("c-exit", "C: `exit(3)` without `hora_shutdown`", 3, _exited(3)),
    Ending(
        "cpp-unwound",
        "C++: an exception that main catches outside of the Runtime, then `return 1`",
        1,
        _exited(1, "an exception ended it; "),
    ),
    Ending(
        "cpp-uncaught",
        "C++: an exception that nobody catches",
        134,
        _killed(6, r"failed: uncaught std::runtime_error: disk is full; "),
    ),
    Ending(
        "cpp-thread",
        "C++: an exception that ends a thread",
        134,
        _killed(6, r"failed: uncaught std::runtime_error: disk is full; "),
    ),
    Ending(
        "cpp-destructor",
        "C++: an exception in a destructor",
        134,
        _killed(6, r"failed: uncaught std::runtime_error: disk is full; "),
    ),
    Ending("cpp-bad-alloc", "C++: std::bad_alloc", 134, _killed(6, r"failed: uncaught std::bad_alloc: .*; ")),
    Ending(
        "cpp-quick-exit",
        "C++: `std::quick_exit(3)`",
        3,
        r"rank {rank} .* is gone: it exited with code 3 without shutdown",
    ),
    Ending("cpp-abort", "C++: `std::abort()`", 134, _killed(6)),
]


def program(cell: Cell) -> str:
    """The Python program of a cell's ranks."""
    body = "\n".join("        " + line for line in cell.ending.body.strip("\n").splitlines())
    return f"""\
{cell.ending.prelude}
import atexit, concurrent.futures, ctypes, os, resource, sys, threading
import numpy as np
import hora

def wait():
    if {cell.waited}:
        hora.allreduce(np.ones(1 << 20), name="waited")

def main():
    hora.init()
    hora.barrier()
    if hora.rank() == {cell.victim}:
{body}
    else:
        wait()

main()
"""


def cells(all_of_them: bool) -> list[Cell]:
    """Each ending where others wait for it and where nobody does: over shared memory; and all of them over
    sockets, too, of another rank."""
    found = []
    for ending, waited in itertools.product([*PYTHON, *CPP], (True, False)):
        if ending.only_waited and not waited:
            continue
        found.append(Cell(ending, waited, 1 if waited else 0, "shm"))
        if all_of_them:
            found.append(Cell(ending, waited, 0 if waited else 1, "tcp"))
    return found


def matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None
