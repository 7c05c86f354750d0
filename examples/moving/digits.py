# SPDX-License-Identifier: Apache-2.0
"""The data of the examples in this folder: images of handwritten digits."""

import pathlib

import numpy as np

_TABLE = pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv"
_HELD_OUT = 389


def read(held_out: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Pixels, float32[images, 64] from 0 to 1, and labels, int64[images]: 1,408 images to learn from, or the
    389 others."""
    table = np.loadtxt(_TABLE, delimiter=",", dtype=np.int64)
    chosen = table[-_HELD_OUT:] if held_out else table[:-_HELD_OUT]
    return (chosen[:, :64] / 16).astype(np.float32), chosen[:, 64].copy()
