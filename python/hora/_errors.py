# SPDX-License-Identifier: Apache-2.0
"""The exceptions of hora."""

from __future__ import annotations


class HoraError(Exception):
    """Everything that Hora itself raises."""


class HoraInternalError(HoraError, RuntimeError):
    """The ranks disagree about a tensor, the job has failed or ended, or Hora is not initialised."""


class HoraArgumentError(HoraError, ValueError):
    """A wrong argument; nothing was sent, and the job goes on."""


class HoraTimeoutError(HoraInternalError, TimeoutError):
    """The ranks did not meet in time."""


class HoraRankError(HoraInternalError):
    """A function that `hora.run` called raised an exception on a rank.

    Attributes:
        rank: which one.
        traceback_text: its traceback there, and the exception.
    """

    def __init__(self, rank: int, traceback_text: str) -> None:
        super().__init__(f"rank {rank} raised an exception:\n{traceback_text.rstrip()}")
        self.rank = rank
        self.traceback_text = traceback_text

    def __reduce__(self) -> tuple[type[HoraRankError], tuple[int, str]]:
        return type(self), (self.rank, self.traceback_text)


def exception_for(code: str) -> type[HoraError]:
    """The exception for a native code such as "mismatch"."""
    if code == "invalid_argument":
        return HoraArgumentError
    return HoraTimeoutError if code == "timeout" else HoraInternalError
