# SPDX-License-Identifier: Apache-2.0
"""Groups whose members may change while their processes live: `enable_reconfigure` of PyTorch 2.15."""

from __future__ import annotations

import datetime
from typing import Any

import hora.torch as hvd
from hora import _membership
from hora._errors import HoraArgumentError, HoraNotInitializedError
from hora._native import JobListener
from hora.torch.distributed.group import ProcessGroup
from hora.torch.distributed.work import Work

_SCHEME = "hora"


class ReconfigurableGroup(ProcessGroup):
    """The ranks of one job after the other. `reconfigure` leaves the last job, and joins the next one.

    A handle tells where a process listens if it becomes rank 0, and the secret of that job: "hora", a space,
    the coordinator, a space, and the secret as hexadecimal digits. All who know a handle can join.
    """

    supports_reconfigure = True  # a property of PyTorch's class, which is not overridden by a method

    def __init__(self, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(hvd.global_process_set, list(range(size)), rank, timeout, _membership.leave)
        self._place = rank, size
        self._joined = False
        self._listener: JobListener | None = None

    def getRank(self) -> int:  # noqa: N802 - PyTorch's name
        """This process's rank."""
        return self._place[0]

    def getSize(self) -> int:  # noqa: N802
        """How many ranks there are."""
        return self._place[1]

    rank, size = getRank, getSize

    def check_open(self, name: str) -> None:
        """Raises HoraNotInitializedError before the first `reconfigure`, and after the end of the group."""
        if not self._joined:
            raise HoraNotInitializedError(
                f"'{name}': its process group was made with enable_reconfigure=True, and has no ranks before "
                "reconfigure()"
            )
        super().check_open(name)

    def get_reconfigure_handle(self) -> str:
        """What the other processes need of this one for the next `reconfigure`."""
        if self._listener is None:
            self._listener = JobListener()
        return f"{_SCHEME} {self._listener.coordinator} {self._listener.secret.hex()}"

    def reconfigure(self, opts: Any) -> Work:
        """Leaves the job of the last members, which fails for those that do not, and joins that of the new
        ones. Blocks until all have come.

        Args:
            opts: PyTorch's ReconfigureOptions. `handles`: those of all new members, new ones each time; a
                list has them in the order of their ranks. Its `timeout` does not count: HORA_START_TIMEOUT
                does.

        Raises:
            HoraArgumentError (a ValueError): this process's handle is not among them, or one is none.
            HoraTimeoutError: not all of them came in time; it names them.
        """
        handles = list(opts.handles) if isinstance(opts.handles, list) else sorted(opts.handles)
        own = self.get_reconfigure_handle()
        if own not in handles:
            raise HoraArgumentError(
                f"the {len(handles)} handles of reconfigure() do not have this process's: take a new one "
                "from get_reconfigure_handle() each time"
            )
        coordinator, secret = _parsed(handles[0])
        rank, size = handles.index(own), len(handles)
        listener, self._listener = self._listener, None
        if self._joined:
            _membership.leave("its process group is reconfigured")
        self._joined = False
        if size == 1:
            _membership.init(rank=0, size=1)
        elif rank == 0:
            _membership.init(rank=0, size=size, listener=listener)
        else:
            _membership.init(rank=rank, size=size, coordinator=coordinator, secret=secret)
        self._joined = True
        self._place = rank, size
        self.ranks = list(range(size))
        self._monitored = None
        return self._done


def _parsed(handle: str) -> tuple[str, bytes]:
    """The coordinator and the secret. Raises HoraArgumentError."""
    words = handle.split()
    try:
        scheme, coordinator, secret = words
        if scheme == _SCHEME:
            return coordinator, bytes.fromhex(secret)
    except ValueError:
        pass
    raise HoraArgumentError(f"'{handle[:40]}' is no handle of get_reconfigure_handle() of the backend hora")
