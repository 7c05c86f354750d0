# SPDX-License-Identifier: Apache-2.0
"""Imports TensorFlow, or says why Hora cannot work with it. Imported first."""

from __future__ import annotations

import re

OLDEST = (2, 16)  # the first with Keras 3


def _refuse(why: str) -> ImportError:
    return ImportError(
        f"hora.tensorflow needs TensorFlow {OLDEST[0]}.{OLDEST[1]} or newer, and {why}", name="tensorflow"
    )


try:
    import tensorflow
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise _refuse("none is installed here: pip install tensorflow") from None

if tuple(map(int, re.findall(r"\d+", tensorflow.__version__)[:2])) < OLDEST:
    raise _refuse(f"this one is {tensorflow.__version__}: pip install --upgrade tensorflow")
