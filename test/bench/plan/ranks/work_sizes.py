# SPDX-License-Identifier: Apache-2.0
"""One tensor at a time, of each of some sizes: hot, right after the ranks have met; or blocked, after a
pause."""

from collections.abc import Callable
from typing import Any

import torch

from .libraries import Library
from .tensors import fill, wrong_in
from .timing import Turn, brought, expected, iterations_for, time_calls


def sum_of(library: Library, tensor: torch.Tensor, reduce: Callable[[], None]) -> Turn:
    return Turn(
        lambda iteration: fill(tensor, brought(library.rank, iteration)),
        reduce,
        lambda iteration: wrong_in(tensor, expected(library.size, iteration)),
    )


def work(library: Library, cases: dict[str, int], iterations: int, pause: float = 0.0) -> dict[str, Any]:
    results = {}
    for case, size in cases.items():
        tensor = torch.zeros(size // 4)
        name = f"sum.{size}"
        turn = sum_of(library, tensor, lambda name=name, tensor=tensor: library.reduce(name, tensor))  # type: ignore[misc]
        results[case] = time_calls(library, turn, iterations_for(size, iterations), pause)
    return results
