# SPDX-License-Identifier: Apache-2.0
"""How much of the communication hides behind computing that needs no CPU, such as a GPU's: layers that sleep.

Three cases in turn: the layers alone, the reduction alone, and both, each gradient being ready when its layer
ends.
"""

import time
from typing import Any

import torch

from .libraries import Library
from .timing import Turn, time_calls
from .work_list import reduce_all, reducer, turn_of


def work(
    library: Library,
    case: str,
    counts: list[int],
    iterations: int,
    form: str = "each",
    bucket_mib: float = 25.0,
    share: float = 1.5,
) -> dict[str, Any]:
    """Computing takes `share` times as long as the reduction alone, and a layer as much of it as its
    elements."""
    reducing = reducer(library, counts, form, bucket_mib)
    alone = time_calls(library, turn_of(library, reducing, lambda: reduce_all(reducing)), iterations)
    longest = sorted(end - begin for begin, end in alone["spans"])[iterations // 2]
    agreed = torch.zeros(library.size)
    agreed[library.rank] = longest
    library.reduce("agreed", agreed)
    computing = share * float(agreed.mean())
    due = due_times(counts, computing)

    def compute(reduces: bool) -> None:
        begin = time.monotonic()
        for number in reversed(range(len(counts))):
            wait = begin + due[number] - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            if reduces:
                reducing.ready(number)
        if reduces:
            reducing.finish()

    together = time_calls(library, turn_of(library, reducing, lambda: compute(True)), iterations)
    layers = time_calls(library, Turn(lambda _: None, lambda: compute(False), lambda _: 0), iterations)
    return {f"{case}: reduction": alone, f"{case}: layers": layers, f"{case}: both": together}


def due_times(counts: list[int], computing: float) -> list[float]:
    """When each gradient is ready, the last first."""
    total = sum(counts)
    due = [0.0] * len(counts)
    done = 0
    for number in reversed(range(len(counts))):
        done += counts[number]
        due[number] = computing * done / total
    return due
