# SPDX-License-Identifier: Apache-2.0
"""Trains the digits on two ranks, in C++ and in Python, as a user would: the package in .venv, and a program
that finds it.

It installs and compiles what this takes, and nothing else: no tests and no daemons. Where a developer's
set-up is there, it uses that.
"""

import subprocess

from . import packages, setup
from .progress import Progress, of_ninja
from .shell import PYTHON, ROOT, VENV, run

BUILD = ROOT / "build/demo"
HRUN = VENV / "bin/hrun"

TOOLS = "pip and pybind11"
TORCH = "PyTorch"
HORA = "compiling Hora"
PROGRAM = "compiling the C++ program"
PLAN = {
    packages.LABEL: 50,
    TOOLS: 10,
    TORCH: 90,
    HORA: 120,
    PROGRAM: 40,
}  # about how many seconds each step takes on two cores


def everything() -> int:
    """Installs what is missing, compiles, and trains twice."""
    if (ROOT / "build/default/build.ninja").exists():
        setup.everything()
        with Progress({PROGRAM: 1}) as progress:
            compile_program(progress)
    else:
        lean()
    print("\n== digits in C++ (LibTorch), two ranks: hrun -np 2 build/demo/digits ==", flush=True)
    run([HRUN, "-np", "2", BUILD / "digits"])
    print("\n== digits in Python (PyTorch), two ranks: hrun -np 2 python -m hora.demo ==", flush=True)
    run([HRUN, "-np", "2", PYTHON, "-m", "hora.demo"])
    return 0


def lean() -> None:
    """Compiles Hora while PyTorch is downloaded, then the program, which needs both."""
    with Progress(PLAN) as progress:
        packages.install(packages.missing(packages.FOR_HORA), progress)
        install(progress, TOOLS, "demo-tools", 10, "pybind11", "scikit-build-core", "hatch-fancy-pypi-readme")
        progress.together(
            lambda: install_package(progress),
            lambda: install(progress, TORCH, "demo-torch", 40, "torch", "numpy", "cloudpickle"),
        )
        compile_program(progress)


def install(progress: Progress, label: str, name: str, files: int, *wanted: str) -> None:
    """Installs Python packages into .venv as requirements.txt pins them: usually so many files."""
    what = setup.pinned(*wanted)
    setup.once(
        progress,
        label,
        name,
        "\n".join(what),
        PYTHON,
        lambda: setup.pip_install(progress, label, name, files, *what),
    )


def install_package(progress: Progress) -> None:
    """Compiles the package, and installs it into .venv."""
    command = [
        PYTHON,
        "-m",
        "pip",
        "install",
        "-v",
        "--no-build-isolation",
        "--no-deps",
        "--no-cache-dir",
        "--force-reinstall",
        ".",
    ]

    def compile_it() -> None:
        progress.run(HORA, "demo-package", command, environment={"CXX": "c++"}, reader=of_ninja)

    setup.once(progress, HORA, "demo-package", setup.package_sources(), HRUN, compile_it)


def compile_program(progress: Progress) -> None:
    """examples/ as a project of its own, with the installed package."""
    if not (BUILD / "build.ninja").exists():
        found = subprocess.check_output([PYTHON, "-m", "hora", "--cmake-dir"], text=True).strip()
        setup.step(
            "demo-cmake",
            "cmake",
            "-S",
            "examples",
            "-B",
            BUILD,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            f"-Dhora_DIR={found}",
        )
    progress.run(PROGRAM, "demo-program", ["cmake", "--build", BUILD, "--target", "digits"], reader=of_ninja)
