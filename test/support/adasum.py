# SPDX-License-Identifier: Apache-2.0
"""Adasum, computed straightforwardly."""

import numpy as np


def _pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    dot, aa, bb = float(np.sum(a * b)), float(np.sum(a * a)), float(np.sum(b * b))
    least = np.sqrt(np.finfo(np.float64).tiny)
    return (1.0 if aa < least else 1 - dot / (2 * aa)) * a + (1.0 if bb < least else 1 - dot / (2 * bb)) * b


def adasum(vectors: list[np.ndarray]) -> np.ndarray:
    """A binary tree over the vectors in their order; the odd one out goes up unchanged."""
    level = [vector.astype(np.float64) for vector in vectors]
    while len(level) > 1:
        level = [
            _pair(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)
        ]
    return level[0]
