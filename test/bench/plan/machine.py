# SPDX-License-Identifier: Apache-2.0
"""The machine, the versions and the load of a measurement."""

import json
import os
import pathlib
import platform
import re
import subprocess
from typing import Any

from suites.shell import PYTHON, ROOT

from .launchers import HORA_BENCH, JAX, PEERS


def cpu_model() -> str:
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def fingerprint() -> dict[str, float]:
    """How near each other the processors are right now: a flag's round trip, and how fast what one wrote is
    read by another."""
    printed = subprocess.run(
        [HORA_BENCH, "fingerprint"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    seen: dict[str, float] = json.loads(printed)
    return seen


def _said(*command: str) -> str:
    """The first line that a program says; nothing if it is not there."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.splitlines()[0] if said else ""


def _versions() -> dict[str, str]:
    versions = {
        "Hora": _said("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "Open MPI": _said("mpirun", "--version"),
        "PyTorch (and its Gloo)": _said(str(PYTHON), "-c", "import torch; print(torch.__version__)"),
        "Horovod": _said(str(PEERS / "bin/python"), "-c", "import horovod; print(horovod.__version__)"),
        "JAX": _said(str(JAX / "bin/python"), "-c", "import jax; print(jax.__version__)"),
        "mpi4jax": _said(str(JAX / "bin/python"), "-c", "import mpi4jax; print(mpi4jax.__version__)"),
    }
    return {name: version for name, version in versions.items() if version}


def described() -> dict[str, Any]:
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])  # type: ignore[index]
    return {
        "cpu": cpu_model(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / (1 << 20)),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
        "versions": _versions(),
    }
