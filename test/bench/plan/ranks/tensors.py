# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch, with known elements."""

import torch


def fill(tensor: torch.Tensor, value: float) -> None:
    with torch.no_grad():
        tensor.fill_(value)


def wrong_in(tensor: torch.Tensor, value: float) -> int:
    return int((tensor != value).sum().item())
