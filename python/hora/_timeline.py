# SPDX-License-Identifier: Apache-2.0
"""The timeline: a trace of every operation, for Perfetto or chrome://tracing."""

from __future__ import annotations

import os

from hora import _job


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Begins to write a trace of all ranks' operations to a file. HORA_TIMELINE=<path> does so from the start.

    Args:
        file_path: what to write; an existing file is overwritten.
        mark_cycles: also mark each turn of the loop that carries operations out.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
        HoraArgumentError (a ValueError): the file cannot be written.
    """
    _job.runtime().start_timeline(os.fspath(file_path), mark_cycles)


def stop_timeline() -> None:
    """Ends the trace, and completes its file. Does nothing if none is being written.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
    """
    _job.runtime().stop_timeline()
