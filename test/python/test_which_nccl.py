# SPDX-License-Identifier: Apache-2.0
"""The NCCL of a process that asks Hora for one before it imports PyTorch. A process has one NCCL, and PyTorch
is given whichever is there. The fake NCCL takes the place of those that differ from PyTorch's, such as the
one of the system."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import hora
import pytest
from ranks import ROOT

FAKES = pathlib.Path(os.environ.get("FAKE_GPU_FOLDER", ROOT / "build/default/test/fake_gpu"))
ASK = """
import ctypes, hora, sys
if len(sys.argv) > 1:
    ctypes.CDLL(sys.argv[1])
print(hora.nccl_built())
def print_loaded():
    with open("/proc/self/maps") as maps:
        print(*{line.split()[-1] for line in maps if "libnccl.so" in line})
print_loaded()
"""

pytestmark = [
    pytest.mark.skipif(
        not (FAKES / "libnccl.so.2").exists(),
        reason=f"there is no {FAKES}/libnccl.so.2: build it with CUDA's and NCCL's headers",
    ),
    pytest.mark.skipif(
        not hora.cuda_built(),
        reason="there is no libhora_nccl.so beside libhora: build it with CUDA's and NCCL's headers",
    ),
]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a Hora that does not lie among the packages of this Python."""
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(
        pathlib.Path(hora.__file__).parent,
        folder / "hora",
        ignore=shutil.ignore_patterns("include", "src", "__pycache__"),
    )
    return folder


def fake_nccl(folder: pathlib.Path) -> str:
    """One of its own in a folder, which is made."""
    folder.mkdir(parents=True)
    return str(shutil.copy(FAKES / "libnccl.so.2", folder))


def ask(program: str, *arguments: str, path: str, **environment: str) -> list[str]:
    """The words that a Python prints whose first packages are those in `path`."""
    words = [sys.executable, "-c", program, *arguments]
    own = {**os.environ, "PYTHONPATH": path, **environment}
    asked = subprocess.run(words, env=own, capture_output=True, text=True, timeout=120, check=False)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    return asked.stdout.split()


@pytest.mark.parametrize("first", ["loaded", "named", "packaged", "system"])
def test_the_one_that_is_loaded_comes_before_the_named_the_packaged_and_the_systems(
    first: str, elsewhere: pathlib.Path, tmp_path: pathlib.Path
):
    order = ["loaded", "named", "packaged", "system"]
    there = {place: tmp_path / place for place in order[order.index(first) :]}
    if "packaged" in there:
        there["packaged"] = tmp_path / "nvidia/nccl/lib"
    else:
        (tmp_path / "nvidia").mkdir()
        (
            tmp_path / "nvidia/__init__.py"
        ).touch()  # a package without NCCL, which hides those that are installed
    files = {place: fake_nccl(folder) for place, folder in there.items()}
    environment = {"LD_LIBRARY_PATH": str(tmp_path / "system"), "HORA_NCCL_LIBRARY": files.get("named", "")}
    arguments = [files["loaded"]] if "loaded" in files else []
    assert ask(ASK, *arguments, path=f"{tmp_path}:{elsewhere}", **environment)[1:] == [files[first]]


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorch_can_be_imported_after_hora_has_opened_nccl(elsewhere: pathlib.Path, tmp_path: pathlib.Path):
    try:
        assert importlib.util.find_spec("nvidia.nccl") is not None
    except ModuleNotFoundError:
        pytest.skip("PyTorch's NCCL is not installed as the package nvidia.nccl")
    fake_nccl(tmp_path / "system")
    program = ASK + "import torch; print_loaded(); print(*torch.cuda.nccl.version())"
    version, before, after, *of_pytorch = ask(
        program, path=str(elsewhere), LD_LIBRARY_PATH=str(tmp_path / "system")
    )
    major, minor, patch = map(int, of_pytorch)
    assert int(version) == 10000 * major + 100 * minor + patch
    assert before == after and after.endswith("/nvidia/nccl/lib/libnccl.so.2")
