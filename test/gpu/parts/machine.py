# SPDX-License-Identifier: Apache-2.0
"""The description of the machine, for the report."""

import datetime
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def said_by(*command: str) -> str:
    """The output of a command; nothing if it fails."""
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def _of_gpu(field: str) -> str:
    lines = said_by("nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader").splitlines()
    return lines[0].strip() if lines else ""


def architecture() -> str:
    """The GPU's architecture for CMake: "90"."""
    return _of_gpu("compute_cap").replace(".", "") or "90"


def commit() -> str:
    carried = ROOT / ".gpu/commit"
    return said_by("git", "describe", "--always", "--dirty") or (
        carried.read_text().strip() if carried.exists() else "unknown"
    )


def _processor() -> str:
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def describe(fake: bool) -> dict[str, str]:
    """Never fails: a value that cannot be found out is left empty."""
    versions = said_by(
        sys.executable, "-c",
        "import torch; there = torch.cuda.is_available(); print(torch.__version__, torch.version.cuda, "
        "'.'.join(map(str, torch.cuda.nccl.version())) if there else '-', torch.cuda.get_device_name(0) if "
        "there else '')",
    ).split(maxsplit=3)  # fmt: skip
    torch, cuda, nccl, name = [*versions, "", "", "", ""][:4]
    nvcc = re.search(
        r"release (\S+),", said_by("nvcc", "--version") or said_by("/usr/local/cuda/bin/nvcc", "--version")
    )
    return {
        "device": "a GPU that is none" if fake else _of_gpu("name") or name or "unknown",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "driver": "fake" if fake else _of_gpu("driver_version"),
        "CUDA": f"{nvcc[1] if nvcc else ''} (nvcc), {cuda} (PyTorch)",
        "NCCL": "fake" if fake else nccl,
        "PyTorch": torch,
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
    }
