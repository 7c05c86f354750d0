# SPDX-License-Identifier: Apache-2.0
"""The newest release of everything that requirements.txt pins, in an environment of its own: build/newest.

The package contains no code for one version of PyTorch, and its part for LibTorch is compiled with a user's
program. Therefore the tests of Python, of the examples and of the package run as they are, with the
interpreter of build/newest and the hora that is installed there.
"""

import subprocess

from . import setup, times
from .shell import ROOT

ENVIRONMENT = ROOT / "build/newest"
PYTHON = ENVIRONMENT / "bin/python"

# The formatter and the checks stay those of .venv: other versions differ in taste.
NOT_TRIED = ("clang-format", "clang-tidy", "nvidia-", "ruff")

ALL = ("test/python", "test/gpu", "test/examples", "test/packaging")

# For every ./dev test: pickled functions, all names and signatures, PyTorch beside NCCL and the fake one, the
# backend of torch.distributed, the programs of the pages.
SAMPLE = (
    "test/python/test_run.py",
    "test/python/test_names.py",
    "test/python/test_gpu_lane.py::test_the_fake_nccl_has_every_function_that_pytorch_expects",
    "test/python/test_which_nccl.py::test_pytorch_can_be_imported_after_hora_has_opened_nccl",
    "test/python/test_gpu_lane.py::test_gradients_lie_side_by_side_in_memory_of_horas",
    "test/packaging/test_packaging.py::test_the_program_of_the_pages_learns_in_cpp",
    "test/packaging/test_packaging.py::test_the_program_of_the_pages_learns_in_python",
    "test/packaging/test_packaging.py::test_torch_distributed_finds_the_backend_without_an_import",
    "test/python/test_distributed.py",
)


def wanted() -> list[str]:
    """The names of requirements.txt without their versions."""
    return [name for name in setup.requirements() if not name.startswith(NOT_TRIED)]


def prepare(upgrade: bool) -> None:
    """Makes the environment if it is not there. `upgrade`: brings what is there to the newest releases."""
    path, mark, done = setup.stamp("newest", "\n".join(wanted()))
    with times.counted("installing the newest packages, beside other suites"):
        if not done or upgrade or not PYTHON.exists():
            setup.step("newest-venv", setup.system_python(), "-m", "venv", ENVIRONMENT)
            pip = (PYTHON, "-m", "pip", "install", "--quiet", "--upgrade", "--upgrade-strategy", "eager")
            setup.step("newest-pip", *pip, "pip")
            setup.step("newest-packages", "nice", "-n", 19, *pip, *wanted())
            setup.leave(path, mark)
        setup.install_into(PYTHON, "newest-hora")


def versions() -> str:
    """The versions that are tried."""
    program = (
        "import importlib.metadata as m, sys; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    )
    return subprocess.check_output(
        [PYTHON, "-c", program, "torch", "numpy", "cloudpickle"], text=True
    ).strip()
