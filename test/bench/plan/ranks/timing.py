# SPDX-License-Identifier: Apache-2.0
"""How a rank times its calls: as hora_bench does."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, Protocol

WARM_UP = 2
BYTES_IN_A_BLOCK = 256 << 20


class Meeting(Protocol):
    """The part of a library of collectives for measurements."""

    def barrier(self) -> None: ...


@dataclasses.dataclass
class Turn:
    """One call: the function that makes its input, the call, and how many elements of the result are
    wrong."""

    prepare: Callable[[int], None]
    call: Callable[[], None]
    wrong: Callable[[int], int]


def brought(rank: int, iteration: int) -> float:
    """The value that a rank writes into all elements: small whole numbers, whose sums are exact."""
    return float((3 * rank + iteration) % 8)


def expected(ranks: int, iteration: int) -> float:
    return sum(brought(rank, iteration) for rank in range(ranks))


def iterations_for(size: int, most: int) -> int:
    """How many calls of so many bytes are a block."""
    return min(max(BYTES_IN_A_BLOCK // size, 3), most)


def time_calls(
    library: Meeting, turn: Turn, iterations: int, pause: float = 0.0, calls: int = 1
) -> dict[str, Any]:
    """A case: when each call began and ended on this rank, which is `calls` of what is told."""
    spans = []
    wrong = 0
    for iteration in range(-WARM_UP, iterations):
        turn.prepare(iteration)
        library.barrier()
        if pause:
            time.sleep(pause)
        begin = time.monotonic()
        turn.call()
        end = time.monotonic()
        library.barrier()
        wrong += turn.wrong(iteration)
        if iteration >= 0:
            spans.append((begin, end))
    return {"spans": spans, "wrong": wrong, "calls": calls}
