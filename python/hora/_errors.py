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


def exception_for(code: str) -> type[HoraError]:
    """The exception for a native code such as "mismatch"."""
    if code == "invalid_argument":
        return HoraArgumentError
    return HoraTimeoutError if code == "timeout" else HoraInternalError
