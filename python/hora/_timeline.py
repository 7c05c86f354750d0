# SPDX-License-Identifier: Apache-2.0
"""The timeline: a trace of every operation, for Perfetto or chrome://tracing."""

from __future__ import annotations

import os

from hora import _job


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Begins to write a trace of all ranks' operations to a file, on rank 0, at its call; on the other ranks
    this does nothing. HORA_TIMELINE=<path> does so from the start.

    Args:
        file_path: what to write; an existing file is overwritten.
        mark_cycles: also mark when each rank heard of decisions.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
        HoraArgumentError (a ValueError): the file cannot be written, or there is a timeline already.
    """
    _job.runtime().start_timeline(os.fspath(file_path), mark_cycles)


def stop_timeline() -> None:
    """Ends the trace; its file is complete when this returns on rank 0. Does nothing if none is being
    written.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
    """
    _job.runtime().stop_timeline()
