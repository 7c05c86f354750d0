# SPDX-License-Identifier: Apache-2.0
"""Trains the digits on two ranks, in C++ and in Python, as a user would: the package in .venv, and a program that finds it.

It installs and compiles what this takes, and nothing else: no tests and no daemons. Where a developer's set-up is there, it uses that.
"""

import concurrent.futures
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
PLAN = {packages.LABEL: 50, TOOLS: 10, TORCH: 90, HORA: 120, PROGRAM: 40}  # about how many seconds each step takes on two cores


def everything() -> int:
    """Installs what is missing, compiles, and trains twice."""
    if (ROOT / "build/build.ninja").exists():
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
        install(progress, TOOLS, "demo-tools", "pybind11", "scikit-build-core", "hatch-fancy-pypi-readme")
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            parts = [threads.submit(install_package, progress), threads.submit(install, progress, TORCH, "demo-torch", "torch", "numpy", "cloudpickle")]
            try:
                for part in concurrent.futures.as_completed(parts):
                    part.result()
            except BaseException:
                progress.stop()
                raise
        compile_program(progress)


def install(progress: Progress, label: str, name: str, *wanted: str) -> None:
    """Installs Python packages into .venv as requirements.txt pins them."""
    what = setup.pinned(*wanted)
    path, mark, done = setup.stamp(name, "\n".join(what))
    if done and PYTHON.exists():
        progress.skip(label)
        return
    setup.make_environment()
    setup.pip_install(progress, label, name, *what)
    setup.leave(path, mark)


def install_package(progress: Progress) -> None:
    """Compiles the package with few large files, and installs it into .venv."""
    path, mark, done = setup.stamp("demo-package", setup.package_sources())
    if done and HRUN.exists():
        progress.skip(HORA)
        return
    command = [PYTHON, "-m", "pip", "install", "-v", "--no-build-isolation", "--no-deps", "--no-cache-dir", "--force-reinstall", "."]
    progress.run(HORA, "demo-package", command, environment={"CXX": "c++"}, reader=of_ninja)
    setup.leave(path, mark)


def compile_program(progress: Progress) -> None:
    """examples/ as a project of its own, with the installed package."""
    if not (BUILD / "build.ninja").exists():
        found = subprocess.check_output([PYTHON, "-m", "hora", "--cmake-dir"], text=True).strip()
        setup.step("demo-cmake", "cmake", "-S", "examples", "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-Dhora_DIR={found}")
    progress.run(PROGRAM, "demo-program", ["cmake", "--build", BUILD, "--target", "digits"], reader=of_ninja)
