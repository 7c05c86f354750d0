# SPDX-License-Identifier: Apache-2.0
"""Whether gradients are finite."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def all_finite(gradients: Iterable[torch.Tensor | None]) -> bool:
    """Whether no element of these is infinite or not a number. Waits for each device once."""
    found: dict[torch.device, list[torch.Tensor]] = {}
    for gradient in gradients:
        if gradient is not None:
            values = gradient if gradient.layout == torch.strided else gradient._values()
            found.setdefault(values.device, []).append(torch.isfinite(values).all())
    return all(bool(torch.stack(answers).all()) for answers in found.values())
