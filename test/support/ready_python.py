# SPDX-License-Identifier: Apache-2.0
"""Stands for `python` in a command. A ready process, of ready_server.py, runs the program in this one's
process group, with its files, environment, folder and processors. This one ends as that one does."""

import fcntl
import json
import os
import signal
import socket
import sys

PASSED_OVER = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGCHLD}


def inherited() -> list[int]:
    """The files that a program which this process became would have."""
    files = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not fcntl.fcntl(int(name), fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                files.append(int(name))
        except OSError:  # it was that of the folder
            continue
    return files


def main(folder: str, *command: str) -> None:
    for each in PASSED_OVER:  # the other process, which is of this group, gets them, too
        signal.signal(each, signal.SIG_IGN)
    files = inherited()
    wanted = {
        "command": command,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "cpus": list(os.sched_getaffinity(0)),
        "group": os.getpgrp(),
        "files": files,
    }
    server = int(os.environ.get("HORA_RANK", "0")) % len(os.listdir(folder))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(f"{folder}/{server}")
        socket.send_fds(link, [json.dumps(wanted).encode()], files)
        answer = link.recv(100)
    status = int(answer)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) in PASSED_OVER:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


main(*sys.argv[1:])
