# SPDX-License-Identifier: Apache-2.0
"""Frameworks that train on Hora, in an environment of their own: build/frameworks.

It has what examples/frameworks/requirements.txt pins. It finds PyTorch, Hora and the packages of the tests in
.venv, behind its own packages.
"""

import pathlib
import subprocess

from . import setup, shell, times
from .shell import ROOT, Failed

ENVIRONMENT = ROOT / "build/frameworks"
PYTHON = ENVIRONMENT / "bin/python"
REQUIREMENTS = ROOT / "examples/frameworks/requirements.txt"
TESTS = "test/examples/test_frameworks.py"


def pinned() -> list[str]:
    """The packages with their versions."""
    return [line for line in REQUIREMENTS.read_text().splitlines() if "==" in line]


def packages_of(python: pathlib.Path) -> pathlib.Path:
    """The folder in which an interpreter has its packages."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return pathlib.Path(subprocess.check_output([python, "-c", program], text=True).strip())


def prepare() -> None:
    """Makes the environment if it is not there. Without packages in it, their tests are skipped."""
    both = [(ROOT / "requirements.txt").read_text(), *pinned()]
    path, mark, done = setup.stamp("frameworks", "\n".join(both))
    if done and PYTHON.exists():
        return
    with times.counted("installing frameworks, beside other suites"):
        setup.step("frameworks-venv", setup.system_python(), "-m", "venv", "--clear", ENVIRONMENT)
        (packages_of(PYTHON) / "shared.pth").write_text(f"{packages_of(shell.PYTHON)}\n")
        pip = (PYTHON, "-m", "pip", "install", "--quiet")
        setup.step("frameworks-pip", *pip, *setup.pinned("pip"))
        try:
            setup.step("frameworks-packages", "nice", "-n", 19, *pip, *pinned())
        except Failed as failure:
            print(f"    tests of frameworks will be skipped: {failure}", flush=True)
        else:
            setup.leave(path, mark)


def versions() -> str:
    """The versions that are tried."""
    return ", ".join(pinned()).replace("==", " ")
