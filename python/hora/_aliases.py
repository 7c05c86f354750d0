# SPDX-License-Identifier: Apache-2.0
"""Letting Hora stand in for Horovod."""

from __future__ import annotations

import importlib
import os
import pathlib
import sys

from hora._errors import HoraInternalError

#: Holds a package `horovod` that is Hora. On nobody's path, unless asked for.
FOLDER = str(pathlib.Path(__file__).parent / "_horovod")


def install_as_horovod() -> None:
    """From now on `import horovod`, `horovod.torch` and so on are Hora, in this process and in the Python
    processes that it starts (through PYTHONPATH). `hrun --horovod` does the same for programs that are not to
    be changed. Nothing named horovod is installed; where Horovod is installed, Hora comes first.

    Raises:
        HoraInternalError: another horovod is imported already.
    """
    imported = sys.modules.get("horovod")
    if imported is not None and not (imported.__file__ or "").startswith(FOLDER):
        raise HoraInternalError(
            f"another horovod is imported already, from {imported.__file__}; call install_as_horovod() before"
        )
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
        importlib.invalidate_caches()
    inherited = os.environ.get("PYTHONPATH", "")
    if FOLDER not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{FOLDER}{os.pathsep}{inherited}" if inherited else FOLDER


def installed() -> bool:
    """Whether `import horovod` is Hora in the processes that this one starts."""
    return FOLDER in os.environ.get("PYTHONPATH", "").split(os.pathsep)
