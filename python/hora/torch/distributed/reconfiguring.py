# SPDX-License-Identifier: Apache-2.0
"""Groups whose members may change while their processes live: `enable_reconfigure` of PyTorch 2.15."""

from __future__ import annotations

import datetime
from typing import Any

import torch.distributed as dist

import hora.torch as hvd
from hora import _job, _membership
from hora._errors import HoraArgumentError, HoraNotInitializedError
from hora._native import JobListener
from hora.torch.distributed import meeting, set_names
from hora.torch.distributed.group import ProcessGroup
from hora.torch.distributed.work import Work


class ReconfigurableGroup(ProcessGroup):
    """The ranks of one job after the other. `reconfigure` leaves the last job, and joins the next one.

    A handle is the address at which a process listens if it becomes rank 0, with the secret of that job. All
    who know a handle can join.
    """

    supports_reconfigure = True  # a property of PyTorch's class, which is not overridden by a method

    def __init__(self, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(hvd.global_process_set, list(range(size)), rank, timeout, self._leave)
        self._rank = rank
        self._joined = False
        self._listener: JobListener | None = None

    def getRank(self) -> int:  # noqa: N802 - PyTorch's name
        """This process's rank."""
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        """How many ranks there are."""
        return len(self.ranks)

    rank, size = getRank, getSize

    def check_open(self, name: str) -> None:
        """Raises HoraNotInitializedError before the first `reconfigure`, and after the end of the group."""
        if not self._joined:
            raise HoraNotInitializedError(
                f"'{name}': its process group was made with enable_reconfigure=True, and has no ranks before "
                "reconfigure()"
            )

    def get_reconfigure_handle(self) -> str:
        """The handle of this process, which the others need for the next `reconfigure`."""
        if self._listener is None:
            self._listener = JobListener()
        return meeting.address_of(self._listener)

    def reconfigure(self, opts: Any) -> Work:
        """Leaves the job of the last members, which fails for those that do not, and joins that of the new
        ones. Blocks until all have come. Groups that `new_group` has made before are of no use any more.

        Args:
            opts: PyTorch's ReconfigureOptions. `handles`: those of all new members, new ones each time; a
                list has them in the order of their ranks. Its `timeout` does not count: HORA_START_TIMEOUT
                does.

        Raises:
            HoraArgumentError (a ValueError): this process's handle is not among them, or the first one is
                none; or this process is in a job that the program has joined by `hora.init`.
            HoraTimeoutError: not all of them came in time; it names them. The group has no ranks then.
        """
        handles = list(opts.handles) if isinstance(opts.handles, list) else sorted(opts.handles)
        own = None if self._listener is None else meeting.address_of(self._listener)
        if own is None or own not in handles:
            raise HoraArgumentError(
                f"the {len(handles)} handles of reconfigure() do not have this process's: take a new one "
                "from get_reconfigure_handle() each time"
            )
        if _job.is_initialized() and not self._joined:
            raise HoraArgumentError(
                "this process is in a job already: call hora.shutdown() before reconfigure()"
            )
        listener, self._listener = self._listener, None
        self._leave("its process group is reconfigured")
        set_names.forget()
        try:
            meeting.enter(handles.index(own), len(handles), listener, handles[0])
        except BaseException:
            _membership.leave("its process group could not be reconfigured")
            raise
        self._joined = True
        self._close = self._leave
        self._rank, self.ranks = handles.index(own), list(range(len(handles)))
        self._monitored = None
        dist.distributed_c10d._world.pg_group_ranks[self] = {rank: rank for rank in self.ranks}
        return self._done

    def _leave(self, reason: str) -> None:
        if self._joined:
            self._joined = False
            _membership.leave(reason)
