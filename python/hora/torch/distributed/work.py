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
from hora._errors import HoraArgumentError, HoraError, HoraInternalError, HoraTimeoutError
from hora._job import Handle
from hora.torch._ops import devices
from hora.torch.distributed.flight_recorder import recorder
from hora.torch.distributed.started import Started

NO_TIME = datetime.timedelta(0)


def finish(name: str, started: Started, timeout: datetime.timedelta) -> None:
    """Waits for operations, and makes their outputs. For a caller that needs no Work, which takes longer.

    Raises:
        HoraError (a RuntimeError): the operations have failed, or not ended within the time.
    """
    try:
        end = time.monotonic() + timeout.total_seconds()
        for handle in started.handles:
            if not _job.wait_for(handle, end - time.monotonic()):
                raise _timed_out(name, timeout)
        started.finish(_results(started.handles))
    except Exception:
        recorder.note_failure(started.recorded)
        raise
    recorder.note_success(started.recorded)


def _timed_out(name: str, timeout: datetime.timedelta) -> HoraTimeoutError:
    return HoraTimeoutError(
        f"'{name}' has not ended within {timeout.total_seconds():g} s, the timeout of its group or of this "
        "call"
    )


def _results(handles: Sequence[Handle]) -> list[Any]:
    """The results of all. Raises the first error when all have ended: their memory is lent until then."""
    results = []
    failure: HoraError | None = None
    for handle in handles:
        try:
            results.append(_job.synchronize(handle))
        except HoraError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results


class Work(dist.Work):
    """Operations that end together. Thread-safe.

    An error is raised by each `wait`, as a RuntimeError with Hora's sentence. It never goes into a future by
    `Future.set_exception`: C++ takes the object for the result then, and DDP dies by a signal.
    """

    def __init__(self, name: str, started: Started, timeout: datetime.timedelta) -> None:
        super().__init__()
        self._name = name
        self._handles = started.handles
        self._outputs = list(started.outputs)
        self._gpus = {gpu for output in self._outputs if (gpu := devices.gpu_of(output)) is not None}
        self._is_captured = devices.is_captured(self._gpus)
        self._finish = started.finish
        self._recorded = started.recorded
        self._timeout = timeout
        self._lock = threading.Lock()
        self._marks: list[devices.Mark] = []  # behind the outputs, on their GPUs
        self._ended = False
        self._error: Exception | None = None
        self.source = -1  #: of a received message: the rank in the group that has sent it
        self._future: torch.futures.Future[Any] | None = None

    def wait(self, timeout: datetime.timedelta = NO_TIME) -> bool:
        """Returns True when the outputs may be used: on a GPU by the current stream, or with a timeout by the
        host, too, unless it is part of a CUDA graph. Raises RuntimeError."""
        if not self._is_captured and (timeout > NO_TIME or not (self._gpus or self._ended)):
            self._await(timeout if timeout > NO_TIME else self._timeout)
        self._taken()
        return True

    def synchronize(self) -> None:
        """The same."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether `wait` would return at once."""
        return (
            self._ended
            or self._is_captured
            or all(self._ends_within(handle, 0.0) for handle in self._handles)
        )

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
        if self._future is None:
            self._future = self.future_of(lambda outputs: outputs)
        return self._future

    def future_of(self, make: Callable[[list[torch.Tensor]], Any]) -> torch.futures.Future[Any]:
        """A future of what `make` makes of the outputs."""
        if self._is_captured:
            return self._captured_future_of(make)
        trigger = devices.future_on(self._gpus)
        made = trigger.then(lambda _: make(self._taken()))
        left = [len(self._handles)]

        def end(_: Handle) -> None:
            left[0] -= 1
            if left[0] == 0:
                trigger.set_result(None)

        with self._lock:
            under_way = bool(self._handles) and not self._ended
            for handle in self._handles if under_way else ():
                handle.then(end)
        if not under_way:
            trigger.set_result(None)  # calls what makes the result
        return made

    def _captured_future_of(self, make: Callable[[list[torch.Tensor]], Any]) -> torch.futures.Future[Any]:
        """The same for a part of a CUDA graph: it ends when the graph runs. Streams of their own wait for it
        there, so that the current ones go on, until somebody waits for the future."""
        made = devices.future_on(self._gpus)
        with devices.on_side_streams(self._gpus):
            made.set_result(make(self._taken()))
        return made

    def _await(self, timeout: datetime.timedelta) -> None:
        """Blocks until all have ended. Raises HoraTimeoutError."""
        end = time.monotonic() + timeout.total_seconds()
        for handle in self._handles:
            if self._ended:
                return
            if not self._ends_within(handle, end - time.monotonic()):
                recorder.note_failure(self._recorded)
                raise _timed_out(self._name, timeout)

    def _ends_within(self, handle: Handle, seconds: float) -> bool:
        try:
            return _job.wait_for(handle, seconds)
        except HoraArgumentError:
            with self._lock:  # another thread takes the results
                if not self._ended:
                    self._error = HoraInternalError(
                        f"'{self._name}': its process group was destroyed before anybody waited for it"
                    )
                    self._ended = True
            return True

    def _taken(self) -> list[torch.Tensor]:
        """The outputs, when all have ended. Raises RuntimeError."""
        if not self._ended:
            with self._lock:
                self._take()
        if self._error is not None:
            raise self._error
        for mark in self._marks:
            devices.let_current_stream_wait(mark)
        return self._outputs

    def _take(self) -> None:
        """Takes the results. Under the lock, when all have ended."""
        if self._ended:
            return
        try:
            self._finish(_results(self._handles))
        except Exception as error:  # also of outputs that do not fit: each caller gets it
            self._error = error
        if self._error is None:
            self._marks = [devices.mark_current_stream(gpu) for gpu in self._gpus]
            recorder.note_success(self._recorded)
        else:
            recorder.note_failure(self._recorded)
        self._ended = True  # last: another thread may use the outputs then
