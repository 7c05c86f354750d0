# SPDX-License-Identifier: Apache-2.0
"""Negotiations: tensors of one element, one or many at a time in a closed loop."""

from collections.abc import Callable
from typing import Any

import torch

from .libraries import Library
from .tensors import fill, wrong_in
from .timing import Turn, brought, expected, time_calls


def work(library: Library, cases: dict[str, int], iterations: int) -> dict[str, Any]:
    """cases: how many are under way."""
    results: dict[str, Any] = {}
    for case, many in cases.items():
        tensors = [torch.zeros(1) for _ in range(many)]

        def prepare(iteration: int, tensors: list[torch.Tensor] = tensors) -> None:
            for tensor in tensors:
                fill(tensor, brought(library.rank, iteration))

        def call(tensors: list[torch.Tensor] = tensors) -> None:
            under_way: list[Callable[[], None]] = [
                library.start(f"small.{number}", tensor) for number, tensor in enumerate(tensors)
            ]
            for wait in under_way:
                wait()

        def wrong(iteration: int, tensors: list[torch.Tensor] = tensors) -> int:
            return sum(wrong_in(tensor, expected(library.size, iteration)) for tensor in tensors)

        results[case] = time_calls(library, Turn(prepare, call, wrong), iterations, calls=many)
    return results
