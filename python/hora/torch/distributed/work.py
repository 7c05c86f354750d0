# SPDX-License-Identifier: Apache-2.0
"""Operations under way, as torch.distributed has them: `dist.Work`, and the futures of them."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from hora import _job
from hora._errors import HoraError, HoraTimeoutError
from hora._job import Handle

_NO_TIME = datetime.timedelta(0)


class Work(dist.Work):
    """Operations that end together. Thread-safe.

    An error is raised by each `wait`, as a RuntimeError with Hora's sentence. It never goes into a future by
    `Future.set_exception`: C++ takes the object for the result then, and DDP dies by a signal.
    """

    def __init__(
        self,
        name: str,
        handles: Sequence[Handle],
        outputs: Sequence[torch.Tensor],
        finish: Callable[[list[Any]], None],
        timeout: datetime.timedelta,
    ) -> None:
        super().__init__()
        self._name = name
        self._handles = list(handles)
        self._outputs = list(outputs)
        self._finish = finish
        self._timeout = timeout
        self._lock = threading.Lock()
        self._ended = False
        self._error: Exception | None = None
        self.source = -1  #: of a received message: the rank in the group that has sent it
        self._future: torch.futures.Future[Any] | None = None

    def wait(self, timeout: datetime.timedelta = _NO_TIME) -> bool:
        """Returns True when the outputs may be used. Raises RuntimeError."""
        self._await(timeout if timeout > _NO_TIME else self._timeout)
        self._taken()
        return True

    def synchronize(self) -> None:
        """The same."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether `wait` would return at once."""
        return self._ended or all(_job.poll(handle) for handle in self._handles)

    def is_success(self) -> bool:
        """Whether it has ended without an error."""
        if not self.is_completed():
            return False
        with self._lock:
            self._take()
        return self._error is None

    def exception(self) -> Exception | None:
        """The error it has ended with."""
        return None if self.is_success() else self._error

    def result(self) -> list[torch.Tensor]:
        """The outputs."""
        return self._outputs

    def _source_rank(self) -> int:
        """Of a received message: the rank in the group that has sent it."""
        return self.source

    source_rank = _source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the outputs."""
        with self._lock:
            if self._future is None:
                self._future = self._make_future()
            return self._future

    def _make_future(self) -> torch.futures.Future[Any]:
        trigger: torch.futures.Future[Any] = torch.futures.Future()

        def outputs(_: Any) -> list[torch.Tensor]:
            return self._taken()

        made = trigger.then(outputs)
        left = [len(self._handles)]

        def end(_: Handle) -> None:
            left[0] -= 1
            if left[0] == 0:
                trigger.set_result(None)

        if self._ended or not self._handles:
            trigger.set_result(None)
        else:
            for handle in self._handles:
                handle.then(end)
        return made

    def _await(self, timeout: datetime.timedelta) -> None:
        """Blocks until all have ended. Raises HoraTimeoutError."""
        end = time.monotonic() + timeout.total_seconds()
        for handle in self._handles:
            if self._ended:
                return
            if not _job.wait_for(handle, end - time.monotonic()):
                raise HoraTimeoutError(
                    f"'{self._name}' has not ended within {timeout.total_seconds():g} s, the timeout of its "
                    "group or of this call"
                )

    def _taken(self) -> list[torch.Tensor]:
        """The outputs, when all have ended. Raises RuntimeError."""
        with self._lock:
            self._take()
        if self._error is not None:
            raise self._error
        return self._outputs

    def _take(self) -> None:
        """Takes the results. Under the lock, when all have ended."""
        if self._ended:
            return
        results = []
        for handle in self._handles:
            try:
                results.append(_job.synchronize(handle))
            except HoraError as error:
                self._error = self._error or error
        self._ended = True
        if self._error is None:
            self._finish(results)
