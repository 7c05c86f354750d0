# SPDX-License-Identifier: Apache-2.0
"""Everything between a fresh machine and a built tree. What is done already is skipped."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from .shell import PYTHON, ROOT, VENV, Failed, end_of_log, run_quietly

STAMPS = ROOT / "build/stamps"


def everything() -> None:
    system_packages()
    virtual_environment()
    build()
    install_package()


def wanted_packages() -> list[str]:
    lines = (ROOT / "docker/packages.txt").read_text().splitlines()
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


def missing_packages() -> list[str]:
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"], capture_output=True, text=True, check=False)
    installed = {line.split()[0] for line in listed.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in wanted_packages() if name not in installed]


def system_packages() -> None:
    if shutil.which("dpkg-query") is None:
        raise Failed("this is neither Debian nor Ubuntu: install what docker/packages.txt lists, then build with cmake")
    missing = missing_packages()
    if not missing:
        return
    command = f"apt-get update && apt-get install -y --no-install-recommends {' '.join(missing)}"
    as_root = os.geteuid() == 0
    if not as_root and not can_sudo():
        raise Failed(f"these system packages are missing: {' '.join(missing)}\nInstall them as root:\n  {command}")
    print(f"installing system packages: {' '.join(missing)}", flush=True)
    prefix = [] if as_root else ["sudo", "-n"]
    step("apt", *prefix, "env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", command)


def can_sudo() -> bool:
    return shutil.which("sudo") is not None and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0


def step(name: str, *command: object, environment: dict[str, str] | None = None) -> None:
    """Runs a command quietly. Throws Failed, with the end of its log, if it fails."""
    if not run_quietly(name, [str(word) for word in command], environment):
        raise Failed(f"{name} failed; its log is {end_of_log(name)}")


def stamp(name: str, content: str) -> tuple[pathlib.Path, str, bool]:
    """Where a step leaves its mark, what it is, and whether it is there already."""
    path = STAMPS / name
    mark = hashlib.sha256(content.encode()).hexdigest()
    return path, mark, path.exists() and path.read_text() == mark


def leave(path: pathlib.Path, mark: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(mark)


def system_python() -> str:
    """A Python with venv and headers: the distribution's, which packages.txt brings, else the one that runs this."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def virtual_environment() -> None:
    path, mark, done = stamp("venv", (ROOT / "requirements.txt").read_text())
    if done and PYTHON.exists():
        return
    print("making .venv with PyTorch and the rest of requirements.txt", flush=True)
    if not PYTHON.exists():
        step("venv", system_python(), "-m", "venv", VENV)
    step("pip", PYTHON, "-m", "pip", "install", "--quiet", "-r", "requirements.txt")
    leave(path, mark)


def configure(preset: str) -> None:
    """What CMakePresets.json says, with the Python of .venv."""
    step(f"cmake-{preset}", "cmake", "--preset", preset, f"-DPython3_EXECUTABLE={PYTHON}")


def compile_all(preset: str, niceness: int = 0) -> None:
    step(f"build-{preset}", "nice", "-n", niceness, "cmake", "--build", "--preset", preset)


def build() -> None:
    if not (ROOT / "build/build.ninja").exists():
        configure("default")
    print("building into build/", flush=True)
    compile_all("default")


def package_sources() -> str:
    """The contents of everything that goes into the wheel."""
    parts = []
    for folder in ("core", "runner", "python", "frameworks/torch", "examples", "docker/cmake"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                parts.append(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    for name in ("CMakeLists.txt", "pyproject.toml"):
        parts.append((ROOT / name).read_text())
    return "\n".join(parts)


def install_package() -> None:
    path, mark, done = stamp("package", package_sources())
    if done:
        return
    print("installing the package hora into .venv", flush=True)
    step(
        "package",
        *(PYTHON, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--force-reinstall"),
        # As the presets say, and the compiler by the name that CMake finds it by: ccache goes by names, too.
        "--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache",
        "--config-settings=cmake.define.CMAKE_UNITY_BUILD=OFF",
        "--config-settings=cmake.define.HORA_OLDER_LIBSTDCXX=OFF",
        ".",
        environment={"CCACHE_NOHASHDIR": "1", "CXX": "c++"},
    )
    leave(path, mark)
