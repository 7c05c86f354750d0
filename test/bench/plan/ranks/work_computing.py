# SPDX-License-Identifier: Apache-2.0
"""The loss of speed of a process that only computes, by being in a job: multiplications of matrices, in one
thread."""

import time
from typing import Any

import torch

from .libraries import Library

WARM_UP = 10


def work(library: Library, iterations: int) -> dict[str, Any]:
    """How long one takes on average, in us. The ranks do not meet in between, as those do not that are in no
    job."""
    matrix = torch.randn(384, 384)
    library.barrier()
    begin = 0.0
    for iteration in range(-WARM_UP, iterations):
        if iteration == 0:
            begin = time.monotonic()
        torch.mm(matrix, matrix)
    end = time.monotonic()
    library.barrier()
    return {"computing: a multiplication": {"value": (end - begin) / iterations * 1e6}}
