# SPDX-License-Identifier: Apache-2.0
"""`python -m hora` says which Hora this is, what it can use here, and what to do next.

python -m hora
cmake -S . -B build -Dhora_DIR=$(python -m hora --cmake-dir)
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import hora
from hora._launch import find_hrun

_PACKAGE = pathlib.Path(__file__).resolve().parent
_FRAMEWORKS = ("torch", "numpy", "jax", "tensorflow", "cupy")


def _cmake_folder() -> pathlib.Path:
    """Where hora-config.cmake is.

    Raises:
        SystemExit: this Hora came without the files for C++.
    """
    folder = _PACKAGE / "cmake"
    if not (folder / "hora-config.cmake").is_file():
        sys.exit(
            f"hora: {folder} has no hora-config.cmake: this Hora was installed without the files for C++; "
            "install the wheel"
        )
    return folder


def _frameworks() -> str:
    """The versions of those that are installed here, none of which is imported."""
    versions = []
    for name in _FRAMEWORKS:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(versions)


def _others(hrun: str) -> list[str]:
    """Of each other Hora that a program may meet instead of this one: where it is, and the remedy. `hrun`:
    this one's."""
    found = []
    for folder in sys.path:
        package = pathlib.Path(folder or ".").resolve() / "hora"
        if (package / "__init__.py").is_file() and package != _PACKAGE:
            found.append(f"another Hora is in {package}, further on in sys.path: remove one of the two")
    first = shutil.which("hrun")
    if first and not os.path.samefile(first, hrun):
        found.append(
            f"PATH has another hrun, {first}: put {os.path.dirname(hrun)} before it, or remove one of the two"
        )
    return found


def _report() -> None:
    hrun = find_hrun()
    print(
        f"Hora {hora.__version__} for Python {platform.python_version()}, {platform.machine()}, "
        f"{' '.join(platform.libc_ver())}"
    )
    print(f"  package      {_PACKAGE}")
    print(f"  hrun         {hrun}")
    print(f"  frameworks   {_frameworks()}")
    checked = subprocess.run(
        [hrun, "--check-build"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if checked.returncode != 0:
        sys.exit(f"hora: {hrun} --check-build failed: {(checked.stderr or checked.stdout).strip()}")
    print(checked.stdout.partition("\n")[2], end="")
    for other in _others(hrun):
        print(f"\nwarning: {other}")
    if importlib.util.find_spec("torch"):
        print("\nNext: hrun -np 2 python -m hora.demo")
    else:
        print("\nNext: pip install torch && hrun -np 2 python -m hora.demo")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m hora",
        description="Says which Hora this is, what it can use here, and what to do next.",
    )
    parser.add_argument(
        "--cmake-dir",
        action="store_true",
        help="print the folder of hora-config.cmake, for find_package(hora): -Dhora_DIR=FOLDER",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    flags = parser.parse_args()
    if flags.cmake_dir:
        print(_cmake_folder())
    elif flags.version:
        print(hora.__version__)
    else:
        _report()


if __name__ == "__main__":
    main()
