# SPDX-License-Identifier: Apache-2.0
"""Rank 0's parameters for everybody, as at the start of a training."""

from typing import Any

import torch

from .libraries import Library
from .tensors import wrong_in
from .timing import Turn, time_calls
from .work_backward import Model


def work(library: Library, case: str, counts: list[int], iterations: int) -> dict[str, Any]:
    model = Model(counts)

    def prepare(iteration: int) -> None:
        with torch.no_grad():
            for parameter in model.layers:
                parameter.fill_(iteration if library.rank == 0 else -100)

    def wrong(iteration: int) -> int:
        return sum(wrong_in(parameter, iteration) for parameter in model.layers)

    return {case: time_calls(library, Turn(prepare, lambda: library.broadcast(model), wrong), iterations)}
