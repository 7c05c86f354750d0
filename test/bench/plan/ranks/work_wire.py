# SPDX-License-Identifier: Apache-2.0
"""Sums for which float16 travels, beside float32: how long they take, and how wrong they are.

The error is told in roundings: how far a sum is from the exact one, divided by what rounding every input and
the sum to float16 once each may do at most.
"""

from typing import Any

import torch

from .libraries import Library
from .tensors import fill, wrong_in
from .timing import Turn, brought, expected, iterations_for, time_calls

HALF_AN_ULP = 2.0**-11


def error(library: Library, count: int = 1 << 16) -> float:
    inputs = [
        torch.randn(count, generator=torch.Generator().manual_seed(1 + rank)) for rank in range(library.size)
    ]
    exact = torch.stack(inputs).double().sum(0)
    allowed = HALF_AN_ULP * (torch.stack(inputs).double().abs().sum(0) + exact.abs()) + 1e-7
    mine = inputs[library.rank].clone()
    library.reduce_halves("error", mine)
    return float(((mine.double() - exact).abs() / allowed).max())


def work(
    library: Library,
    cases: dict[str, int],
    iterations: int,
    full: bool = True,
    errors: bool = False,
    blocks: bool = False,
) -> dict[str, Any]:
    """full: float32, too. errors: how wrong sums are. blocks: block-scaled floats of 8 bits, too."""
    results: dict[str, Any] = {}
    for case, size in cases.items():
        tensor = torch.zeros(size // 4)
        reductions = (
            {"float16": library.reduce_halves, "float32": library.reduce}
            if full
            else {"float16": library.reduce_halves}
        )
        if blocks:
            reductions["mxfp8"] = library.reduce_blocks
        for kind, reduce in reductions.items():
            name = f"{kind}.{size}"
            turn = Turn(
                lambda iteration, tensor=tensor: fill(tensor, brought(library.rank, iteration)),  # type: ignore[misc]
                lambda reduce=reduce, name=name, tensor=tensor: reduce(name, tensor),  # type: ignore[misc]
                lambda iteration, tensor=tensor: wrong_in(tensor, expected(library.size, iteration)),  # type: ignore[misc]
            )
            results[f"{kind}, {case}"] = time_calls(library, turn, iterations_for(size, iterations))
    if errors:
        results["error, roundings"] = {"value": error(library)}
    return results
