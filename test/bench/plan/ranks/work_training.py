# SPDX-License-Identifier: Apache-2.0
"""Steps of training a small model on the CPU: forward, backward and the optimizer's step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .libraries import Library
from .timing import Turn, time_calls


def cnn() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Three convolutions of 32 x 32 pixels."""
    layers: list[nn.Module] = []
    channels = 3
    for wider in (16, 32, 64):
        layers += [nn.Conv2d(channels, wider, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        channels = wider
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10))
    return model, torch.randn(32, 3, 32, 32), torch.randint(10, (32,))


def mlp() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Six layers of 1024: few operations for each gradient."""
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(1024, 10)), torch.randn(128, 1024), torch.randint(10, (128,))


def deep() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """24 layers of 1024: 100 MB of gradients."""
    layers: list[nn.Module] = []
    for _ in range(24):
        layers += [nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(1024, 10)), torch.randn(16, 1024), torch.randint(10, (16,))


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]] = {
    "CNN": cnn,
    "MLP": mlp,
    "100 MB": deep,
}


def work(library: Library, models: list[str], iterations: int, **options: Any) -> dict[str, Any]:
    return {name: steps(library, name, iterations, options) for name in models}


def steps(library: Library, name: str, iterations: int, options: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(1)
    model, inputs, labels = MODELS[name]()
    library.broadcast(model)
    called, optimizer, _ = library.wrapped(model, **options)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(called(inputs), labels))
        optimizer.step()

    return time_calls(library, Turn(lambda _: None, step, lambda _: 0), iterations)
