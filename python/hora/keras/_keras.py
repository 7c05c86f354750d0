# SPDX-License-Identifier: Apache-2.0
"""Imports Keras, or says why Hora cannot work with it. Imported first."""

from __future__ import annotations

_NEEDS = "hora.keras needs Keras 3"

try:
    import keras
except ModuleNotFoundError as error:
    if error.name != "keras":
        raise
    raise ImportError(
        f"{_NEEDS}, and none is installed here: pip install keras, and tensorflow, jax or torch", name="keras"
    ) from None

if int(keras.__version__.split(".")[0]) < 3:
    raise ImportError(
        f"{_NEEDS}, and this one is {keras.__version__}: pip install --upgrade keras", name="keras"
    )
