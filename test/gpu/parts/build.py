# SPDX-License-Identifier: Apache-2.0
"""Building what the parts need, into build/gpu."""

import os
import pathlib
import shutil
import sys

from . import machine
from .processes import Ended, run

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILT = "TEST_GPU_BUILD" in os.environ  # a folder in which all of it has been built
BUILD = pathlib.Path(os.environ.get("TEST_GPU_BUILD", ROOT / "build/gpu"))
CARRIED = ROOT / ".gpu"
TARGETS = [["gpu_programs", "hrun"], ["hora_native"]]  # what needs no Python, even if that cannot be built
FAKES = ["fake_libcuda", "fake_libnccl"]


def environment() -> dict[str, str]:
    """The environment for the build: carried packages are found before those of the machine."""
    variables = {**os.environ}
    if CARRIED.exists():
        variables["NCCL_HOME"] = str(CARRIED / "nccl")
        variables["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(CARRIED / "python"), os.environ.get("PYTHONPATH", "")])
        )
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(CARRIED / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
        )
    variables["PATH"] = os.pathsep.join(
        [str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    )
    return variables


def configuration() -> list[str]:
    words = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    words += [f"-DPython3_EXECUTABLE={sys.executable}", f"-DHORA_CUDA_ARCHITECTURES={machine.architecture()}"]
    words += ["-DHORA_BUILD_TESTS=ON", "-DHORA_BUILD_TORCH=OFF", "-DHORA_BUILD_MPI=OFF"]
    if CARRIED.exists():
        words.append(f"-DCMAKE_MODULE_PATH={ROOT / 'test/gpu/cmake'}")
    if shutil.which("ccache"):
        words.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    return words


def build(log: pathlib.Path, limit: float, fake: bool) -> Ended:
    """Configures, compiles, and puts the Python package together."""
    if BUILT:
        put_together()
        return Ended(0, 0.0, "")
    ended = run(configuration(), log, 60, ROOT, environment())
    if ended.code != 0:
        return ended
    jobs = str(os.cpu_count() or 4)
    for targets in [*TARGETS, FAKES] if fake else TARGETS:
        made = run(
            ["cmake", "--build", str(BUILD), "-j", jobs, "--target", *targets],
            log,
            limit - ended.seconds,
            ROOT,
            environment(),
        )
        ended = Ended(
            ended.code if made.code == 0 else made.code,
            ended.seconds + made.seconds,
            ended.output + made.output,
        )
    put_together()
    return ended


def put_together() -> None:
    """The Python package, beside its native part."""
    shutil.copytree(
        ROOT / "python/hora",
        BUILD / "python/hora",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__", "*.so"),
    )


def run_environment(fake: bool) -> dict[str, str]:
    """The environment for the programs."""
    variables = environment()
    folders = [str(BUILD / "python"), str(ROOT / "test/gpu/programs")]
    variables["PYTHONPATH"] = os.pathsep.join(
        folders + [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    )
    variables["PYTHONUNBUFFERED"] = "1"
    if fake:
        variables["TEST_FAKE_GPU"] = "1"
        variables["FAKE_GPUS"] = "4"
        variables["HORA_NCCL_LIBRARY"] = str(BUILD / "test/fake_gpu/libnccl.so.2")
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(
            [str(BUILD / "test/fake_gpu"), variables.get("LD_LIBRARY_PATH", "")]
        )
    return variables
