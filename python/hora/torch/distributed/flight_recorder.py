# SPDX-License-Identifier: Apache-2.0
"""The last operations of this rank, in the file format of PyTorch's flight recorder.

The format is version 2.10 of what `torch.distributed.flight_recorder` reads (PyTorch 2.15).
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import pickle
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch

from hora import _job

_VERSION = "2.10"
_MOST = 2000  # operations that are kept, as by PyTorch
_FIRST_MESSAGE = 1 << 30  # a message whose number is that of a collective before it counts as one with it
_OF_LIBRARIES = (os.path.dirname(torch.__file__), str(pathlib.Path(__file__).resolve().parents[2]))


@dataclasses.dataclass(slots=True)
class Recorded:
    """An operation of a group, as it was submitted."""

    name: str  # "all_reduce", "send 0->1", "recv 1<-0": ranks in the group
    group: tuple[str, str]  # its name and its description
    ranks: list[int]  # of the group, in the job
    number: int  # of the collectives of the group, or of its messages, from 1
    inputs: list[tuple[list[int], str]]  # shape and dtype
    outputs: list[tuple[list[int], str]]
    line: list[dict[str, Any]]  # of the program
    when: int  # nanoseconds since 1970
    state: str = "scheduled"  # or "completed": its result was taken

    @property
    def is_message(self) -> bool:
        """Whether two ranks take part."""
        return self.name.startswith(("send", "recv"))


class FlightRecorder:
    """The last operations of all groups. It records if PyTorch's TORCH_FR_DUMP_TEMP_FILE (or its older name,
    TORCH_NCCL_DEBUG_INFO_TEMP_FILE) is a path. The first operation that fails writes them to that path with
    the number of the rank behind it. TORCH_FR_BUFFER_SIZE is how many are kept. Thread-safe."""

    def __init__(self) -> None:
        self._prefix = _first("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
        asked = _first("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
        size = int(asked) if self._prefix and asked.isdigit() else _MOST
        self._path = ""
        self._operations: collections.deque[Recorded] = collections.deque(maxlen=size)
        self._numbers: dict[tuple[str, bool], int] = {}  # the last, by group, and of its messages or not
        self._dropped = 0  # how many were dropped
        self._lock = threading.Lock()
        self._written = False

    @property
    def records(self) -> bool:
        """Whether operations are to be given to `add`."""
        return bool(self._prefix)

    def add(
        self,
        name: str,
        group: tuple[str, str],
        ranks: list[int],
        tensors: tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]],
    ) -> Recorded:
        """Notes an operation. `tensors`: its inputs and its outputs."""
        inputs, outputs = ([(list(each.shape), _name_of(each.dtype)) for each in some] for some in tensors)
        made = Recorded(name, group, ranks, 0, inputs, outputs, _line(), time.time_ns())
        with self._lock:
            self._path = f"{self._prefix}{_job.rank()}"
            key = group[0], made.is_message
            made.number = self._numbers[key] = self._numbers.get(key, 0) + 1
            self._dropped += len(self._operations) == self._operations.maxlen
            self._operations.append(made)
        return made

    def note_success(self, operations: Sequence[Recorded]) -> None:
        """The results of these operations were taken."""
        for each in operations:
            each.state = "completed"

    def note_failure(self, operations: Sequence[Recorded]) -> None:
        """These operations have failed. The first time writes the file."""
        if operations:
            self.write()

    def write(self) -> None:
        """Writes the file, the first time."""
        with self._lock:
            if self._written or not self._path:
                return
            self._written = True
        try:
            self._write()
        except OSError as error:  # the caller raises its own
            print(
                f"hora: the last operations of this rank could not be written: {error}",
                file=sys.stderr,
                flush=True,
            )

    def _write(self) -> None:
        with self._lock:
            operations, dropped = list(self._operations), self._dropped
        groups = {each.group[0]: each for each in operations}
        content = {
            "version": _VERSION,
            "pg_config": {
                name: {"name": name, "desc": each.group[1], "ranks": str(each.ranks)}
                for name, each in groups.items()
            },
            "pg_status": {},
            "entries": [_entry(dropped + place, each) for place, each in enumerate(operations)],
        }
        with open(self._path, "wb") as file:
            pickle.dump(content, file)


def _entry(number: int, operation: Recorded) -> dict[str, Any]:
    message = operation.is_message
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": operation.group,
        "collective_seq_id": 0 if message else operation.number,
        "p2p_seq_id": _FIRST_MESSAGE + operation.number if message else 0,
        "op_id": operation.number,
        "is_p2p": message,
        "profiling_name": f"hora:{operation.name}",
        "time_created_ns": operation.when,
        "input_sizes": [shape for shape, _ in operation.inputs],
        "input_dtypes": [dtype for _, dtype in operation.inputs],
        "output_sizes": [shape for shape, _ in operation.outputs],
        "output_dtypes": [dtype for _, dtype in operation.outputs],
        "state": operation.state,
        "retired": operation.state == "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "timeout_ms": 0,
        "frames": operation.line,
    }


def _first(*variables: str) -> str:
    return next((value for name in variables if (value := os.environ.get(name))), "")


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _line() -> list[dict[str, Any]]:
    """The line of the program that has called, outside of PyTorch and Hora."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OF_LIBRARIES):
        frame = frame.f_back
    if frame is None:
        return []
    code = frame.f_code
    return [{"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno}]


recorder = FlightRecorder()
