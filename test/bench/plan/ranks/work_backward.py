# SPDX-License-Identifier: Apache-2.0
"""backward() of a model of which only the gradients are made, layer by layer, and reduced by the library's
optimizer."""

from typing import Any

import torch
from torch import nn

from .libraries import Library
from .tensors import wrong_in
from .timing import Turn, brought, expected, time_calls


class Layer(torch.autograd.Function):
    """Passes its input on; the gradient of its parameter is a value everywhere."""

    value = 0.0

    @staticmethod
    def forward(ctx: Any, passed: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
        ctx.shape = parameter.shape
        return passed.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return gradient, torch.full(ctx.shape, Layer.value)


class Model(nn.Module):
    def __init__(self, counts: list[int]) -> None:
        super().__init__()
        self.layers = nn.ParameterList([nn.Parameter(torch.zeros(count)) for count in counts])

    def forward(self, passed: torch.Tensor) -> torch.Tensor:
        for parameter in self.layers:
            passed = Layer.apply(passed, parameter)  # type: ignore[no-untyped-call]
        return passed


def work(library: Library, case: str, counts: list[int], iterations: int, **options: Any) -> dict[str, Any]:
    model = Model(counts)
    called, optimizer, finish = library.wrapped(model, **options)
    start = torch.zeros(1, requires_grad=True)
    outputs: list[torch.Tensor] = []

    def prepare(iteration: int) -> None:
        optimizer.zero_grad()
        Layer.value = brought(library.rank, iteration)
        outputs[:] = [called(start)]

    def step() -> None:
        torch.autograd.backward(outputs[0].sum())
        finish()

    def wrong(iteration: int) -> int:
        mean = (
            expected(library.size, iteration) if library.size > 1 else brought(library.rank, iteration)
        ) / library.size
        return sum(wrong_in(parameter.grad, mean) for parameter in model.layers if parameter.grad is not None)

    return {case: time_calls(library, Turn(prepare, step, wrong), iterations)}
