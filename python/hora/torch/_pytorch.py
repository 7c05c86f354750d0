# SPDX-License-Identifier: Apache-2.0
"""Imports PyTorch, or says why Hora cannot work with it. Imported first."""

from __future__ import annotations

import re

OLDEST = (2, 6)


def _refuse(why: str) -> ImportError:
    return ImportError(f"hora.torch needs PyTorch {OLDEST[0]}.{OLDEST[1]} or newer, and {why}", name="torch")


try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise _refuse("none is installed here: pip install torch") from None

if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < OLDEST:
    raise _refuse(f"this one, in {torch.__path__[0]}, is {torch.__version__}: pip install --upgrade torch")
