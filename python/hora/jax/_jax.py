# SPDX-License-Identifier: Apache-2.0
"""Imports JAX, or says why Hora cannot work with it. Imported first."""

from __future__ import annotations

_NEEDS = "hora.jax needs JAX 0.8.1 or newer"

try:
    import jax
except ModuleNotFoundError as error:
    if error.name not in ("jax", "jaxlib"):
        raise
    raise ImportError(f"{_NEEDS}, and none is installed here: pip install jax", name="jax") from None

if jax.__version_info__ < (0, 8, 1):
    raise ImportError(f"{_NEEDS}, and this one is {jax.__version__}: pip install --upgrade jax", name="jax")
