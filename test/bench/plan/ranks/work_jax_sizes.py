# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX that add one array up, of each of some sizes."""

from typing import Any

import jax
import numpy as np

from .jax_libraries import JaxLibrary
from .timing import Turn, brought, expected, iterations_for, time_calls


def work(library: JaxLibrary, cases: dict[str, int], iterations: int, donated: bool) -> dict[str, Any]:
    """`donated`: the program may write over its input."""
    return {
        case: time_calls(library, _sum_of(library, size // 4, donated), iterations_for(size, iterations))
        for case, size in cases.items()
    }


def _sum_of(library: JaxLibrary, count: int, donated: bool) -> Turn:
    """Each call has a new input: arrays of JAX are never written again."""
    program = library.compiled(library.sum, 0, donate_argnums=(0,) if donated else ())
    arrays: dict[str, jax.Array] = {}

    def prepare(iteration: int) -> None:
        brings = np.full(count, brought(library.rank, iteration), np.float32)
        arrays["input"] = jax.block_until_ready(library.own(brings))

    def call() -> None:
        arrays["result"] = jax.block_until_ready(program(arrays["input"]))

    def wrong(iteration: int) -> int:
        result = np.asarray(arrays.pop("result").addressable_data(0))
        return int((result != expected(library.size, iteration)).sum())

    return Turn(prepare, call, wrong)
