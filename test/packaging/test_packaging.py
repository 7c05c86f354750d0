# SPDX-License-Identifier: Apache-2.0
"""The interfaces that an installed Hora offers to projects outside this tree, and the programs of README.md
and docs/ as they stand there."""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HRUN = pathlib.Path(sys.executable).parent / "hrun"
BUILD = pathlib.Path(os.environ.get("HORA_BUILD", ROOT / "build/default"))
# The packages that libhora is built with are private to it: no consumer looks for them.
NOT_FOUND_HERE = [
    f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON"
    for name in ("fmt", "PkgConfig", "CLI11", "GTest", "MPI", "Python3")
]


def run(*words: str | pathlib.Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def succeed(*words: str | pathlib.Path, seconds: float = 120) -> str:
    result = run(*words, seconds=seconds)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def block(page: str, language: str) -> str:
    """The one block of a page in a language, verbatim."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1, f"{page} should have one block in {language}, and has {len(blocks)}"
    return blocks[0]


def losses(output: str) -> list[float]:
    """The numbers that rank 0 printed, one a line."""
    return [float(line.removeprefix("[0] ")) for line in output.splitlines()]


def configure(source: pathlib.Path, *settings: str) -> subprocess.CompletedProcess[str]:
    return run("cmake", "-S", source, "-B", source / "build", "-G", "Ninja", *NOT_FOUND_HERE, *settings)


def build(source: pathlib.Path, *settings: str) -> None:
    configured = configure(source, *settings)
    assert configured.returncode == 0, configured.stdout + configured.stderr
    succeed("cmake", "--build", source / "build", seconds=300)


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An installed Hora, moved after the installation: nothing in it may remember where that was."""
    installed = tmp_path_factory.mktemp("installed")
    succeed("cmake", "--install", BUILD, "--prefix", installed / "first")
    return (installed / "first").rename(installed / "hora")


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_the_core_serves_a_project_outside(language: str, prefix: pathlib.Path, tmp_path: pathlib.Path):
    source = tmp_path / "sum"
    shutil.copytree(HERE / language, source)
    build(source, f"-DCMAKE_PREFIX_PATH={prefix}")
    output = succeed(prefix / "bin/hrun", "-np", "2", source / "build/sum")
    assert sorted(output.splitlines()) == ["[0] rank 0: 3", "[1] rank 1: 3"]


@pytest.fixture(scope="session")
def package() -> str:
    """Where the installed Python package has what CMake needs, as a setting for CMake."""
    return f"-Dhora_DIR={succeed(sys.executable, '-m', 'hora', '--cmake-dir').strip()}"


@pytest.mark.long
def test_the_program_of_the_pages_learns_in_cpp(package: str, tmp_path: pathlib.Path):
    (tmp_path / "CMakeLists.txt").write_text(block("docs/cpp.md", "cmake"))
    (tmp_path / "train.cc").write_text(block("docs/cpp.md", "cpp"))
    build(tmp_path, package, "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed")  # as the compilers of Ubuntu link
    assert "[libtorch.so]" in succeed("readelf", "-d", tmp_path / "build/train"), (
        "it loads no part of LibTorch for CUDA"
    )
    found = losses(succeed(HRUN, "-np", "2", tmp_path / "build/train"))
    assert len(found) == 5
    assert found[-1] < 0.01 * found[0]


def test_the_program_of_the_pages_sums_in_c(tmp_path: pathlib.Path):
    (tmp_path / "hello.c").write_text(block("docs/cpp.md", "c"))
    commands = block("docs/cpp.md", "sh")
    expected = commands.split("# ")[1].strip()
    path = f"PATH={HRUN.parent}:{os.environ['PATH']}"
    output = succeed("env", "-C", tmp_path, path, "sh", "-ec", commands)
    assert sorted(output.splitlines()) == [expected, expected.replace("[0]", "[1]")]


@pytest.mark.long
def test_the_program_of_the_pages_learns_in_python(tmp_path: pathlib.Path):
    (tmp_path / "train.py").write_text(block("README.md", "python"))
    found = losses(succeed(HRUN, "-np", "2", sys.executable, tmp_path / "train.py"))
    assert len(found) == 5
    assert found[-1] < 0.01 * found[0]


@pytest.mark.long
def test_torch_distributed_finds_the_backend_without_an_import(tmp_path: pathlib.Path):
    (tmp_path / "program.py").write_text(block("docs/distributed.md", "python"))
    succeed(HRUN, "-np", "2", sys.executable, tmp_path / "program.py")
    loaded = succeed(
        sys.executable,
        "-c",
        "import sys, torch; print([name for name in sys.modules if name.split('.')[0] == 'hora'])",
    )
    assert loaded == "[]\n"  # so that `import torch` takes no longer


@pytest.mark.long
def test_the_demo_of_the_package_learns(tmp_path: pathlib.Path):
    lines = succeed(
        "env", "-C", tmp_path, HRUN, "-np", "2", sys.executable, "-m", "hora.demo", "--epochs", "2"
    ).splitlines()
    assert lines[-1] == "[0] parameters are equal on all 2 ranks"
    assert re.match(r"\[0\] epoch  2/2  loss \d", lines[1])


def refusal(tmp_path: pathlib.Path, find_package: str, *settings: str) -> str:
    """Why a project with that line cannot be configured, in one line."""
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(train LANGUAGES CXX)\n{find_package}\n"
    )
    result = configure(tmp_path, *settings)
    assert result.returncode != 0, result.stdout
    return " ".join(result.stderr.split())


def test_a_missing_libtorch_is_said(prefix: pathlib.Path, tmp_path: pathlib.Path):
    nowhere = [
        f"-DLibTorch_INCLUDE_DIR={tmp_path}",
        "-DLibTorch_c10_LIBRARY=LibTorch_c10_LIBRARY-NOTFOUND",
        "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
    ]
    text = refusal(
        tmp_path, "find_package(hora REQUIRED COMPONENTS torch)", f"-DCMAKE_PREFIX_PATH={prefix}", *nowhere
    )
    assert "the component torch needs LibTorch" in text
    assert "CMAKE_PREFIX_PATH" in text


def other_libtorch(folder: pathlib.Path, version: str) -> pathlib.Path:
    """A folder that is taken for a LibTorch of that version, with nothing in its files."""
    header = folder / "include/torch/csrc/api/include/torch/version.h"
    for name in ("include/torch/script.h", "lib/libtorch.so", "lib/libtorch_cpu.so", "lib/libc10.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    header.parent.mkdir(parents=True)
    numbers = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    header.write_text("".join(f"#define TORCH_VERSION_{part} {number}\n" for part, number in numbers))
    return folder


def test_a_libtorch_too_old_is_refused(prefix: pathlib.Path, tmp_path: pathlib.Path):
    other = other_libtorch(tmp_path / "libtorch", "1.13.1")
    text = refusal(
        tmp_path, "find_package(hora REQUIRED COMPONENTS torch)", f"-DCMAKE_PREFIX_PATH={prefix};{other}"
    )
    assert re.search(r"needs LibTorch 2\.6 or newer, and \S+ is LibTorch 1\.13\.1", text)


def test_a_libtorch_with_another_kind_of_strings_is_refused(prefix: pathlib.Path, tmp_path: pathlib.Path):
    other = other_libtorch(tmp_path / "libtorch", "2.6.0")
    config = other / "share/cmake/Torch/TorchConfig.cmake"
    config.parent.mkdir(parents=True)
    config.write_text('  set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")\n')
    text = refusal(
        tmp_path, "find_package(hora REQUIRED COMPONENTS torch)", f"-DCMAKE_PREFIX_PATH={prefix};{other}"
    )
    assert re.search(
        r"needs a LibTorch of the C\+\+11 ABI, and \S+ was compiled with _GLIBCXX_USE_CXX11_ABI=0", text
    )


def test_the_adapter_is_compiled_with_the_headers_of_hora_and_libtorch_alone(prefix: pathlib.Path):
    sources = [
        *(prefix / "share/hora/src/frameworks").glob("*/*.cc"),
        *(prefix / "share/hora/src/frameworks").glob("*/*.h"),
    ]
    foreign = {
        f"{path.name}: {name}"
        for path in sources
        for name in re.findall(r"#include <(\w+/.*)>", path.read_text())
        if not re.match(r"(ATen|c10|hora|torch)/", name)
    }
    assert sources and not foreign


def test_another_minor_version_is_refused(prefix: pathlib.Path, tmp_path: pathlib.Path):
    text = refusal(tmp_path, "find_package(hora 0.0 REQUIRED)", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert "0.0" in text


def test_the_package_has_all_that_programs_need_and_no_library_twice():
    files = [str(path) for path in importlib.metadata.files("hora") or []]
    unexpected = [path for path in files if not re.match(r"hora/|hora-[^/]*\.dist-info/|__pycache__/", path)]
    assert sorted(pathlib.PurePath(path).name for path in unexpected) == [
        "hora_horovod.pth",
        "hora_torch_backend.py",
        "hrun",
    ]
    libraries = [re.sub(r"(\.cpython.*)?\.so.*", "", path) for path in files if ".so" in path]
    modules = {  # where the wheel was built with JAX, with MPI, with CUDA and NCCL
        "hora/libhora_jax",
        "hora/libhora_mpi",
        "hora/libhora_nccl",
    }
    assert (
        sorted(set(libraries) - modules)
        == sorted(name for name in libraries if name not in modules)
        == ["hora/_native", "hora/libhora"]
    )
    headers = {path.removeprefix("hora/include/") for path in files if path.startswith("hora/include/")}
    assert headers == {
        str(path.relative_to(ROOT / "core/include")) for path in (ROOT / "core/include").rglob("*.h")
    }
    assert {
        "hora/_horovod/horovod/torch/__init__.py",
        "hora/demo.py",
        "hora/data/digits.csv",
        "hora/py.typed",
    } <= set(files)
