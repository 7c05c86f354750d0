# SPDX-License-Identifier: Apache-2.0
"""Everything between a fresh machine and a built tree. A step that is done already is skipped."""

import hashlib
import os
import pathlib
import sys
import textwrap
from collections.abc import Callable

from . import packages
from .progress import Progress, of_ninja, of_pip
from .remedies import explained
from .shell import PYTHON, ROOT, VENV, Failed, run_quietly

STAMPS = ROOT / "build/stamps"

REQUIREMENTS = "PyTorch and the other Python packages"
CORE = "compiling what needs no Python package"
BUILD = "compiling"
PACKAGE = "the package hora"
LONGEST_BUILD = 7200.0  # seconds, beside suites that take both cores
WHOLE = {
    packages.LABEL: 60,
    REQUIREMENTS: 150,
    CORE: 300,
    BUILD: 300,
    PACKAGE: 40,
}  # about how many seconds each step takes on two cores


def everything(preset: str = "default") -> None:
    """Everything that developers need: all packages, .venv with all of requirements.txt, what a build preset
    makes in build/default, and hora in .venv."""
    absent = packages.missing(packages.FOR_HORA, packages.FOR_TESTS)
    announce(absent)
    with Progress(WHOLE) as progress:
        packages.install(absent, progress)
        progress.together(lambda: virtual_environment(progress), lambda: compile_core(progress))
        build(progress, preset)
        install_package(progress)


def announce(absent: list[str]) -> None:
    """Says what is going to be installed, before it is. `absent`: system packages."""
    if absent:
        print(f"./dev installs {len(absent)} system packages, and starts no service of them:")
        print(
            textwrap.fill(
                " ".join(absent), 110, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )
        )
    if not stamp("venv", (ROOT / "requirements.txt").read_text())[2] or not PYTHON.exists():
        print(
            "./dev installs PyTorch and the other Python packages of requirements.txt "
            "into .venv, which takes 6 GB."
        )
    if not (ROOT / "build/default/build.ninja").exists():
        print(
            "./dev builds all of Hora and its tests in build/default, which takes 10 minutes on two cores. "
            "(./dev demo needs 3 and no tests.)"
        )
    sys.stdout.flush()


def step(
    name: str, *command: object, environment: dict[str, str] | None = None, seconds: float = 1800
) -> None:
    """Runs a command quietly. Throws Failed, with the end of its log, if it fails."""
    if not run_quietly(name, [str(word) for word in command], environment, seconds):
        raise Failed(f"{name} failed; its log is {explained(name)}")


def site_packages(environment: pathlib.Path) -> pathlib.Path:
    """The folder in which a virtual environment has its packages."""
    return next(environment.glob("lib/python3*/site-packages"))


def requirements() -> list[str]:
    """The names in requirements.txt."""
    return [
        line.split("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line
    ]


def pinned(*names: str) -> list[str]:
    """These packages as requirements.txt pins them."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line.split("==")[0] in names]


def stamp(name: str, content: str) -> tuple[pathlib.Path, str, bool]:
    """Where a step leaves its mark, what it is, and whether it is there already."""
    path = STAMPS / name
    mark = hashlib.sha256(content.encode()).hexdigest()
    return path, mark, path.exists() and path.read_text() == mark


def leave(path: pathlib.Path, mark: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(mark)


def once(
    progress: Progress, label: str, name: str, content: str, made: pathlib.Path, act: Callable[[], None]
) -> None:
    """Does a step, unless it was done with this content and the file that it makes is there."""
    path, mark, done = stamp(name, content)
    if done and made.exists():
        progress.skip(label)
        return
    act()
    leave(path, mark)


def system_python() -> str:
    """A Python with venv and headers: the distribution's, which packages.txt brings, else the one that runs
    this."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def make_environment() -> None:
    """.venv, with a pip that goes on with a download that broke off, and says how far it is: Debian's does
    neither."""
    if not PYTHON.exists() or not run_quietly("venv-check", [PYTHON, "-m", "pip", "--version"]):
        step("venv", system_python(), "-m", "venv", "--clear", VENV)
    step("pip", PYTHON, "-m", "pip", "install", "--quiet", *pinned("pip"))


def pip_install(progress: Progress, label: str, name: str, files: int, *what: object) -> None:
    """`pip install` into .venv as a step, which usually downloads so many files."""
    make_environment()
    progress.run(
        label, name, [PYTHON, "-m", "pip", "install", "--progress-bar", "raw", *what], reader=of_pip(files)
    )


def virtual_environment(progress: Progress) -> None:
    def install() -> None:
        pip_install(progress, REQUIREMENTS, "requirements", 40, "-r", "requirements.txt")

    once(progress, REQUIREMENTS, "venv", (ROOT / "requirements.txt").read_text(), PYTHON, install)


def configure(preset: str) -> None:
    """Configures a preset of CMakePresets.json, with the Python of .venv."""
    step(f"cmake-{preset}", "cmake", "--preset", preset, f"-DPython3_EXECUTABLE={PYTHON}")


def compile_all(preset: str, niceness: int = 0) -> None:
    step(
        f"build-{preset}",
        "nice",
        "-n",
        niceness,
        "cmake",
        "--build",
        "--preset",
        preset,
        seconds=LONGEST_BUILD,
    )


def compile_core(progress: Progress) -> None:
    """Compiles the core and hrun, so that ccache has them when all of Hora is compiled for the first time."""
    if (ROOT / "build/default/build.ninja").exists():
        progress.skip(CORE)
        return
    configure("core-only")
    progress.run(CORE, "build-core", ["cmake", "--build", "--preset", "core"], reader=of_ninja)


def build(progress: Progress, preset: str) -> None:
    path, mark, done = stamp("cmake-default", (ROOT / "CMakePresets.json").read_text())
    if not done or not (ROOT / "build/default/build.ninja").exists():
        configure("default")
        leave(path, mark)
    progress.run(BUILD, "build-default", ["cmake", "--build", "--preset", preset], reader=of_ninja)


def package_sources() -> str:
    """The contents of everything that goes into the wheel."""
    parts = []
    for folder in ("core", "runner", "python", "frameworks", "examples", "docker/cmake"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                parts.append(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    for name in ("CMakeLists.txt", "pyproject.toml"):
        parts.append((ROOT / name).read_text())
    return "\n".join(parts)


def install_package(progress: Progress) -> None:
    def install() -> None:
        progress.run(
            PACKAGE, "package", package_command(PYTHON), environment=PACKAGE_ENVIRONMENT, reader=of_ninja
        )

    once(progress, PACKAGE, "package", package_sources(), VENV / "bin/hrun", install)


def install_into(python: pathlib.Path, name: str) -> None:
    """The package, quietly, into another environment."""
    path, mark, done = stamp(name, package_sources())
    if not done or not (python.parent / "hrun").exists():
        step(name, *package_command(python), environment=PACKAGE_ENVIRONMENT)
        leave(path, mark)


# Paths of the source tree count from the build folder on: build/default, build/core-only and build/wheel lie
# alike.
PACKAGE_ENVIRONMENT = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", "CXX": "c++"}


def package_command(python: pathlib.Path) -> list[object]:
    """Compiles what build/default has for the tests, too: ccache knows it."""
    return [
        *(python, "-m", "pip", "install", "-v", "--no-build-isolation", "--no-deps", "--force-reinstall"),
        # As the presets say, and the compiler by the name that CMake finds it by: ccache goes by names, too.
        "--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache",
        "--config-settings=cmake.define.HORA_OLDER_LIBSTDCXX=OFF",
        ".",
    ]
