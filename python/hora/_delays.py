# SPDX-License-Identifier: Apache-2.0
"""Announced delays: times in which a rank is busy, and others may wait for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hora import _job


@contextlib.contextmanager
def expect_delay(name: str, seconds: float) -> Iterator[None]:
    """Says that this rank is going to be busy, as with an evaluation or a checkpoint, while others may wait
    for it: until this ends, or the time is over, nobody warns of that (HORA_MISSING_WARNING) or gives up
    (HORA_MISSING_TIMEOUT). Of several that are open the last to end counts. Asks no other rank.

        if hvd.rank() == 0:
            with hvd.expect_delay("evaluation", seconds=1800):
                evaluate(model)

    Args:
        name: what messages call it.
        seconds: for how long at most; up to 30 days.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
        HoraArgumentError (a ValueError): the time is not positive, or too long.
    """
    delay = _job.runtime().expect_delay(name, seconds)
    try:
        yield
    finally:
        delay.end()
