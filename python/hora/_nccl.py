# SPDX-License-Identifier: Apache-2.0
"""The NCCL of NVIDIA's Python package, which PyTorch loads when it is imported."""

from __future__ import annotations

import importlib.util
import pathlib


def packaged_nccl() -> str:
    """Its file, wherever among Python's packages it lies; empty: there is none. Loads neither it nor PyTorch.

    A process has one NCCL. If Hora loaded another one first, PyTorch would be given that, and could not be
    imported where it needs functions that the other one lacks.
    """
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):  # there is no `nvidia`; a program has put something in its place
        return ""
    folders = package.submodule_search_locations if package is not None else None
    files = (pathlib.Path(folder, "lib/libnccl.so.2") for folder in folders or ())
    return next((str(file) for file in files if file.exists()), "")
