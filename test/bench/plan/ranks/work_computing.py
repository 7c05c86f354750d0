# SPDX-License-Identifier: Apache-2.0
"""What a process that only computes loses by being in a job: multiplications of matrices, in one thread."""

from typing import Any

import torch

from .libraries import Library
from .timing import Turn, time_calls

MANY = 50  # in a row, so that it hardly counts how ranks meet before


def work(library: Library, iterations: int) -> dict[str, Any]:
    matrix = torch.randn(384, 384)

    def multiply() -> None:
        for _ in range(MANY):
            torch.mm(matrix, matrix)

    turn = Turn(lambda _: None, multiply, lambda _: 0)
    return {"computing: a multiplication": time_calls(library, turn, iterations, calls=MANY)}
