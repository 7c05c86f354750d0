# SPDX-License-Identifier: Apache-2.0
"""A barrier that names the ranks which do not come."""

from __future__ import annotations

import datetime
import math
import time

import torch

import hora.torch as hvd
from hora._errors import HoraTimeoutError

_TAG = 2**31 - 1  # of its messages, which are no others'
_LOOK = 0.001  # seconds between two looks for a message


class MonitoredBarrier:
    """The monitored barriers of a group. Each rank tells rank 0 of the group that it is there, and rank 0
    tells each rank. When all are, or the time of rank 0 is over, rank 0 answers all ranks who is missing. A
    rank that is late finds the answer, and fails, too. Each rank counts its calls, and a message belongs to
    one call.

    Protocol. A message is the number of the call, then 0 ("I am there") or 1 (the answer), and then one
    number for each rank: 1 if it is missing. Ranks look for messages and receive those that are there, so no
    receive is left when the time is over. A rank that knows that rank 0 is there waits for its answer without
    a limit: it comes, or rank 0 is lost, which ends the job.
    """

    def __init__(self, members: hvd.ProcessSet, ranks: list[int], rank: int) -> None:
        self._members = members
        self._ranks = ranks  # in the job, by rank in the group
        self._others = range(1, len(ranks))
        self._rank = rank
        self._calls = 0

    def wait(self, timeout: datetime.timedelta) -> None:
        """Returns when all ranks of the group have called it.

        Raises:
            HoraTimeoutError (a RuntimeError): ranks have not called it within that time, which it names; the
                job goes on.
        """
        self._calls += 1
        seconds = timeout.total_seconds()
        missing = self._gather(seconds) if self._rank == 0 else self._ask(seconds)
        if missing:
            raise HoraTimeoutError(
                f"monitored_barrier: {_described(missing)} not called it in time: call it on all ranks"
            )

    def _gather(self, seconds: float) -> list[int]:
        """Rank 0: who is missing. All ranks are told."""
        end = time.monotonic() + seconds
        for rank in self._others:
            self._tell(rank, 0, [])
        missing = [rank for rank in self._others if self._told_by(rank, 0, end) is None]
        for rank in self._others:
            self._tell(rank, 1, missing)
        return missing

    def _ask(self, seconds: float) -> list[int]:
        """Other ranks: who is missing, as rank 0 says; rank 0 itself, if it does not come."""
        self._tell(0, 0, [])
        if self._told_by(0, 0, time.monotonic() + seconds) is None:
            return [0]
        told = self._told_by(0, 1, math.inf) or []
        return [rank for rank, is_missing in enumerate(told) if is_missing]

    def _tell(self, rank: int, kind: int, missing: list[int]) -> None:
        numbers = [self._calls, kind, *(int(each in missing) for each in range(len(self._ranks)))]
        hvd.send(torch.tensor(numbers, device="cpu"), self._ranks[rank], _TAG, self._members)

    def _told_by(self, rank: int, kind: int, end: float) -> list[int] | None:
        """For each rank whether it is missing, as that rank says in its message of this kind. None: none has
        come in time."""
        source = self._ranks[rank]
        while True:
            if hvd.probe(source, _TAG, self._members) is not None:
                call, which, *missing = hvd.recv(None, source, _TAG, self._members).value.tolist()
                if (call, which) == (self._calls, kind):
                    return [int(each) for each in missing]
            elif time.monotonic() >= end:
                return None
            else:
                time.sleep(_LOOK)


def _described(ranks: list[int]) -> str:
    listed = ", ".join(map(str, ranks))
    return f"rank {listed} of the group has" if len(ranks) == 1 else f"ranks {listed} of the group have"
