# SPDX-License-Identifier: Apache-2.0
"""The time that the parts of a run take."""

import contextlib
import time
from collections.abc import Iterator

_LEAST = 6.0  # seconds of a part that is shown

_seconds: dict[str, float] = {}


def add(part: str, seconds: float) -> None:
    """Adds seconds to a part."""
    _seconds[part] = _seconds.get(part, 0.0) + seconds


@contextlib.contextmanager
def counted(part: str) -> Iterator[None]:
    """Adds the time of a `with` block to a part."""
    begun = time.monotonic()
    try:
        yield
    finally:
        add(part, time.monotonic() - begun)


def table() -> str:
    """A line for each part that has taken a while, the longest first. Parts may have run side by side."""
    longest_first = sorted(_seconds.items(), key=lambda item: -item[1])
    return "\n".join(
        f"{seconds / 60:6.1f} min  {part}" for part, seconds in longest_first if seconds >= _LEAST
    )
