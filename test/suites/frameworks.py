# SPDX-License-Identifier: Apache-2.0
"""Frameworks that train on Hora, in an environment of their own: build/frameworks.

It has what examples/frameworks/requirements.txt pins. It finds PyTorch, Hora and the packages of the tests in
.venv, behind its own packages.
"""

from . import setup, times
from .shell import ROOT, VENV, Failed

ENVIRONMENT = ROOT / "build/frameworks"
PYTHON = ENVIRONMENT / "bin/python"
REQUIREMENTS = ROOT / "examples/frameworks/requirements.txt"
TESTS = ("test/examples/test_frameworks.py", "test/examples/test_jax.py", "test/examples/test_keras.py")


def pinned() -> list[str]:
    """The packages with their versions."""
    return [line for line in REQUIREMENTS.read_text().splitlines() if "==" in line]


def prepare() -> None:
    """Makes the environment if it is not there. Without packages in it, their tests are skipped."""
    both = [(ROOT / "requirements.txt").read_text(), *pinned()]
    path, mark, done = setup.stamp("frameworks", "\n".join(both))
    if done and PYTHON.exists():
        return
    with times.counted("installing frameworks, beside other suites"):
        setup.step("frameworks-venv", setup.system_python(), "-m", "venv", "--clear", ENVIRONMENT)
        (setup.site_packages(ENVIRONMENT) / "shared.pth").write_text(f"{setup.site_packages(VENV)}\n")
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
