# SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts, started one by one with the variables that hrun gives them, and without hrun.

HORA_COORDINATOR      where rank 0 may be: its addresses and the port, with commas between them
HORA_COORDINATOR_FD   the socket on which rank 0 listens there
HORA_SECRET_FD        a pipe with the job's secret
"""

import itertools
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen

from machines import Host, Word

# Below those that connections take (32768 and up): one of theirs stays taken for a minute after it ended,
# also to a listener with SO_REUSEADDR.
PORTS = itertools.count(18000)
SECRET_BYTES = 32
LISTEN = """
import os, socket, sys
listener = socket.create_server(("", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1000)
listener.set_inheritable(True)
os.environ["HORA_COORDINATOR_FD"] = str(listener.fileno())
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Job:
    """Ranks on some hosts, so many on each. Each `Popen` has pipes for its output."""

    def __init__(
        self,
        shares: Sequence[tuple[Host, int]],
        *words: Word,
        candidates: Sequence[str] | None = None,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`candidates` are addresses where rank 0 is looked for; without them, all of its host's."""
        port = port or next(PORTS)
        first = shares[0][0]
        looked_for = candidates or [*first.addresses, *first.addresses6]
        coordinator = ",".join(
            f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address in looked_for
        )
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._environment = {"HORA_COORDINATOR": coordinator, **(environment or {})}
        self.ranks: list[Popen[str]] = []
        places = [
            (host, cross, local, count)
            for cross, (host, count) in enumerate(shares)
            for local in range(count)
        ]
        for rank, (host, cross, local, count) in enumerate(places):
            given = {
                "HORA_RANK": rank,
                "HORA_SIZE": len(places),
                "HORA_LOCAL_RANK": local,
                "HORA_LOCAL_SIZE": count,
                "HORA_CROSS_RANK": cross,
                "HORA_CROSS_SIZE": len(shares),
            }
            listen: list[Word] = [sys.executable, "-c", LISTEN, str(port)] if rank == 0 else []
            self.ranks.append(
                self._start(host, [*listen, *words], {name: str(value) for name, value in given.items()})
            )

    def _start(self, host: Host, words: Sequence[Word], given: Mapping[str, str]) -> "Popen[str]":
        secret, ours = os.pipe()
        os.write(ours, self._secret)
        os.close(ours)
        environment = {**os.environ, **self._environment, **given, "HORA_SECRET_FD": str(secret)}
        started = Popen(
            host.command(*words),
            env=environment,
            pass_fds=[secret],
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        )
        os.close(secret)
        return started

    def results(self, seconds: float = 60) -> list["CompletedProcess[str]"]:
        """How each rank ended."""
        ends = []
        for rank in self.ranks:
            out, err = rank.communicate(timeout=seconds)
            ends.append(CompletedProcess(rank.args, rank.returncode, out, err))
        return ends

    def output(self, seconds: float = 60) -> list[str]:
        """The output of each rank; fails unless all succeed."""
        ends = self.results(seconds)
        assert all(each.returncode == 0 for each in ends), "\n".join(
            f"rank {rank}: {each.returncode}\n{each.stdout}{each.stderr}" for rank, each in enumerate(ends)
        )
        return [each.stdout for each in ends]
