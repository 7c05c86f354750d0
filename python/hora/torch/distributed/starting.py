# SPDX-License-Identifier: Apache-2.0
"""The start of operations in a group of torch.distributed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import torch

import hora.torch as hvd
from hora import _native
from hora._errors import HoraInternalError, HoraNotInitializedError
from hora.torch._ops import devices
from hora.torch._ops.reduction import Reduction
from hora.torch.distributed.flight_recorder import recorder
from hora.torch.distributed.monitored import MonitoredBarrier
from hora.torch.distributed.pytorch import PyTorchGroup
from hora.torch.distributed.started import Started, together
from hora.torch.distributed.work import NO_TIME, Work, finish

Tensors = Sequence[torch.Tensor]


class Group(PyTorchGroup):  # type: ignore[misc]
    """A group in which operations can be started. Ranks are those in the group, as torch.distributed gives
    them."""

    supports_coalescing = False
    supports_splitting = False
    supports_time_estimate = _supports_time_estimate = False  # PyTorch 2.11; 2.15

    def __init__(
        self,
        members: hvd.ProcessSet,
        ranks: list[int],
        rank: int,
        timeout: datetime.timedelta,
        close: Callable[[str], None],
    ) -> None:
        super().__init__(rank, len(ranks))
        self.members = members
        self.ranks = ranks  # in the job, by rank in the group
        self.timeout = timeout
        self._done = Work("", Started([], []), timeout)  # of calls that have waited
        self._monitored: MonitoredBarrier | None = None
        self._reductions: dict[tuple[int, float], Reduction] = {}  # made once, for operations and factors
        self._group_name = self._group_description = ""
        self._close: Callable[[str], None] | None = close
        self._coalesced: list[tuple[str, Started]] | None = None

    def getBackendName(self) -> str:  # noqa: N802 - PyTorch's name
        """The name."""
        return "hora"

    name = getBackendName
    _get_backend_name = getBackendName

    # PyTorch asks for these by C++, where it calls a method of the same name in Python.

    def getGroupName(self) -> str:  # noqa: N802
        """The name that PyTorch has given the group."""
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """PyTorch gives the group a name."""
        self._group_name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """The text with which PyTorch describes the group."""
        return self._group_description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """PyTorch describes the group."""
        self._group_description = description

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]

    def _get_backend(self, device: torch.device) -> Group:
        return self

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Whether the group gives memory for tensors, as FSDP2 asks it: in memory of Hora's it was no
        faster."""
        return False

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """The time after which `wait` gives up, where a call has none of its own. Of tensors on a GPU `wait`
        ends as Hora's operations do: HORA_MISSING_TIMEOUT limits it."""
        self.timeout = timeout

    def shutdown(self) -> None:
        """Ends the group. Of all ranks: leaves the job, when all ranks do, if this has joined it."""
        self._end("")

    def abort(self) -> None:
        """Fails the job: all ranks hear of it."""
        self._end("torch.distributed has aborted a process group")

    def _end(self, reason: str) -> None:
        close, self._close = self._close, None
        if close is not None:
            close(reason)

    # --- starting ---

    def run(self, name: str, opts: Any, start: Callable[[], Started], peers: str = "") -> Work:
        """Starts an operation. If the caller waits at once, this thread carries out what it can. `peers`:
        the ranks of a message, "0->1" or "1<-0"."""
        self.check_open(name)
        if self._coalesced is not None:
            self._coalesced.append((name, self._started(name, start, peers)))
            return self.work_of(name, Started([], []), opts)
        if getattr(opts, "asyncOp", True):
            return self.work_of(name, self._started(name, start, peers), opts)
        with _native.BlockingScope():
            started = self._started(name, start, peers)
            if any(devices.gpu_of(each) is not None for each in started.outputs):
                work = self.work_of(name, started, opts)  # the stream waits, and not the host
                work.wait()
                return work
            finish(name, started, self._timeout_of(opts))
        return self._done

    def _started(self, name: str, start: Callable[[], Started], peers: str) -> Started:
        if not recorder.records:
            return start()
        try:
            started = start()
        except HoraInternalError:  # the job has failed before
            recorder.write()
            raise
        inputs = started.outputs if started.inputs is None else started.inputs
        group = self._group_name, self._group_description
        title = f"{name} {peers}" if peers else name
        recorded = recorder.add(title, group, self.ranks, (inputs, started.outputs))
        return started._replace(recorded=[recorded])

    def check_open(self, name: str) -> None:
        """Raises HoraNotInitializedError if the group has been destroyed."""
        if self._close is None:
            raise HoraNotInitializedError(f"'{name}': its process group has been destroyed; make a new one")

    def work_of(self, name: str, started: Started, opts: Any) -> Work:
        return Work(name, started, self._timeout_of(opts))

    def _timeout_of(self, opts: Any) -> datetime.timedelta:
        given = opts if isinstance(opts, datetime.timedelta) else getattr(opts, "timeout", None)
        return self.timeout if given is None or given <= NO_TIME else given

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Work:
        parts, self._coalesced = self._coalesced or [], None
        names = ", ".join(dict.fromkeys(name for name, _ in parts))
        return self.work_of(names, together([part for _, part in parts]), None)
