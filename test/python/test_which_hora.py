# SPDX-License-Identifier: Apache-2.0
"""The report of a Hora about itself: `python -m hora`, and an import that cannot work."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

import hora
import pytest

PACKAGE = pathlib.Path(hora.__file__).parent
HRUN = pathlib.Path(sys.executable).parent / "hrun"
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


def python(*arguments: str, path: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    setting = {**os.environ, **environment, **({"PYTHONPATH": path} if path else {})}
    return subprocess.run(
        [sys.executable, *arguments], env=setting, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_report_names_the_package_what_it_can_use_and_a_next_step():
    report = python("-m", "hora")
    assert report.returncode == 0, report.stderr
    assert report.stdout.startswith(f"Hora {hora.__version__} for Python {platform.python_version()}, ")
    assert f"  package      {PACKAGE}\n" in report.stdout
    assert "  [x] shm " in report.stdout
    assert report.stdout.endswith("\nNext: hrun -np 2 python -m hora.demo\n")
    assert "warning" not in report.stdout


def test_a_second_hora_in_the_path_is_named(tmp_path: pathlib.Path):
    (tmp_path / "hora").mkdir()
    (tmp_path / "hora/__init__.py").touch()
    shutil.copy("/bin/true", tmp_path / "hrun")
    # The environment's own comes first in sys.path; the other one follows.
    program = f"import sys, runpy; sys.path.append({str(tmp_path)!r}); sys.argv = ['hora']; runpy.run_module('hora', run_name='__main__')"
    report = python("-c", program, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (
        f"warning: another Hora is in {tmp_path}/hora, further on in sys.path: remove one of the two"
        in report.stdout
    )
    assert (
        f"warning: PATH has another hrun, {tmp_path}/hrun: put {HRUN.parent} before it, or remove "
        "one of the two" in report.stdout
    )


def test_the_files_for_cmake_are_found():
    folder = pathlib.Path(python("-m", "hora", "--cmake-dir").stdout.strip())
    assert (folder / "hora-config.cmake").is_file()


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (
            ["_native.cpython-39-x86_64-linux-gnu.so"],
            f"was built for Python 3.9, and {sys.executable} is Python {THIS}: install Hora with that "
            "Python's own pip",
        ),
        (
            ["_native.cpython-39-x86_64-linux-gnu.so", "_native.cpython-310-x86_64-linux-gnu.so"],
            "was built for Python 3.9 and 3.10, and",
        ),
        (
            [f"_native.cpython-{THIS.replace('.', '')}-aarch64-linux-gnu.so"],
            f"was built for another kind of Python {THIS} than {sys.executable}",
        ),
        ([], "is Hora's source and not an installed Hora: leave it out of PYTHONPATH"),
    ],
)
def test_a_hora_that_this_python_cannot_load_says_why(modules: list[str], said: str, tmp_path: pathlib.Path):
    shutil.copytree(PACKAGE, tmp_path / "hora", ignore=shutil.ignore_patterns("_native.*.so"))
    for module in modules:
        (tmp_path / "hora" / module).touch()
    failed = python("-c", "import hora", path=str(tmp_path))
    assert failed.returncode == 1
    assert said in failed.stderr.splitlines()[-1]
    assert "circular" not in failed.stderr


def test_a_pytorch_that_is_missing_or_too_old_is_said():
    missing = python("-c", "import sys; sys.modules['torch'] = None; import hora.torch")
    assert (
        missing.stderr.splitlines()[-1]
        == "ImportError: hora.torch needs PyTorch 2.6 or newer, and none is installed here: pip install torch"
    )
    program = "import sys, types; sys.modules['torch'] = types.SimpleNamespace(__version__='2.5.1+cpu', __path__=['/old']); import hora.torch"
    old = python("-c", program)
    assert (
        old.stderr.splitlines()[-1]
        == "ImportError: hora.torch needs PyTorch 2.6 or newer, and this one, in /old, is 2.5.1+cpu: pip install --upgrade torch"
    )
