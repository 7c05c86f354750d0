# SPDX-License-Identifier: Apache-2.0
"""Imports PyTorch and Hora, and then forks a process for each program that ready_python.py asks for. Reads
the path of its socket on stdin, says a line when it is ready, and ends with stdin."""

import atexit
import ctypes
import sys


def _leave_the_modules() -> None:
    """The interpreter would take them apart for half a second."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(list(sys.modules.values())))
    sys.modules.clear()


atexit.register(_leave_the_modules)  # the first, and so the last to run

import fcntl  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import types  # noqa: E402
import weakref  # noqa: E402
from typing import Any  # noqa: E402

import hora.torch  # noqa: E402, F401
import numpy as np  # noqa: E402
import torch._dynamo  # noqa: E402 - every optimizer imports it

_HIGH = 512  # files of programs have lower numbers


class Server:
    """Waits for programs, and for the ends of those who asked and of the processes that they got."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(64)
        self._waits = select.poll()
        self._waits.register(self._listener, select.POLLIN)
        self._waits.register(sys.stdin, select.POLLIN)
        self._links: dict[int, tuple[socket.socket, int]] = {}  # by file: that and the end of its process
        self._ends: dict[int, tuple[socket.socket, int]] = {}  # by file: who waits for it, and the process

    def next_program(self) -> dict[str, Any] | None:
        """Returns in each new process, with its program; and in this one at its end, with None."""
        while True:
            for file, _ in self._waits.poll():
                if file == sys.stdin.fileno():
                    return None
                if file == self._listener.fileno():
                    link, _ = self._listener.accept()
                    wanted = self._begin(link)
                    if wanted is not None:
                        return wanted
                elif file in self._ends:
                    self._tell(file)
                elif file in self._links:  # nobody waits any more
                    signal.pidfd_send_signal(self._links[file][1], signal.SIGKILL)
                    self._waits.unregister(file)

    def _begin(self, link: socket.socket) -> dict[str, Any] | None:
        """Forks. Returns the program in the new process, and None in this one."""
        text, files, _, _ = socket.recv_fds(link, 1 << 20, 253)
        if not text:  # it ended meanwhile
            link.close()
            return None
        process = os.fork()
        if process == 0:
            link.close()
            self._forget()
            wanted: dict[str, Any] = json.loads(text)
            _take_files(files, wanted["files"])
            return wanted
        for each in files:
            os.close(each)
        end = os.pidfd_open(process)
        self._ends[end] = (link, process)
        self._links[link.fileno()] = (link, end)
        self._waits.register(end, select.POLLIN)
        self._waits.register(link, select.POLLIN)
        return None

    def _tell(self, end: int) -> None:
        link, process = self._ends.pop(end)
        _, status = os.waitpid(process, 0)
        del self._links[link.fileno()]
        try:
            self._waits.unregister(link)
            link.send(str(status).encode())
        except (KeyError, OSError):  # nobody waits
            pass
        self._waits.unregister(end)
        os.close(end)
        link.close()

    def _forget(self) -> None:
        self._listener.close()
        for link, end in self._links.values():
            link.close()
            os.close(end)


def _take_files(files: list[int], numbers: list[int]) -> None:
    """Gives files the numbers that they have in the process that asked."""
    high = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(high, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def become(wanted: dict[str, Any]) -> types.CodeType:
    """Makes this process one that was started as it is wanted. Returns the code of its program."""
    os.setpgid(0, wanted["group"])
    os.chdir(wanted["folder"])
    os.sched_setaffinity(0, wanted["cpus"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", len(wanted["cpus"]))))
    np.random.seed()
    what, *arguments = wanted["command"]
    if what == "-c":
        name, text, folder = "<string>", arguments.pop(0), ""
    else:
        name, text, folder = what, pathlib.Path(what).read_text(), str(pathlib.Path(what).resolve().parent)
        main.__file__ = what
    further = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [folder, *(each for each in further if each and each not in sys.path)]
    sys.argv = [what, *arguments]
    sys.modules["__main__"] = main
    return compile(text, name, "exec")


libc = ctypes.CDLL(None)
main = types.ModuleType("__main__")
signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for pytest, which then ends this
for each in weakref.finalize._registry:  # type: ignore[attr-defined]
    each.atexit = False  # the libraries' own
libc.on_exit(libc._exit, None)  # after what a program registers; libraries are not taken apart
server = Server(sys.stdin.readline().strip())
gc.collect()
gc.freeze()
print("ready", flush=True)
wanted = server.next_program()
if wanted is not None:
    exec(become(wanted), main.__dict__)
