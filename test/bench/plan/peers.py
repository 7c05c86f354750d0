# SPDX-License-Identifier: Apache-2.0
"""The virtual environments of the benchmark's own. build/bench/peers has Horovod, built from PyPI's source
distribution, torchft and matplotlib; build/bench/jax has JAX and mpi4jax.

They see the project's .venv, so that all contenders use one PyTorch; nothing is ever installed there. Horovod
0.28.1 does not build as it comes: its CMake files ask for older standards than this PyTorch needs, for a
policy that CMake has dropped, and for a CUDA compiler; and it relies on headers that other headers no longer
bring.
"""

import os
import pathlib
import re
import shutil
import sys

from suites import setup
from suites.shell import ROOT, VENV, Failed, run_quietly

from .launchers import JAX, PEERS

HOROVOD = "horovod==0.28.1"
TORCHFT = "torchft==0.2.0"  # a wheel for Python 3.11 alone
TOOLS = [
    "setuptools<80",
    "wheel",
    "cmake>=4",
    "ninja",
    "packaging",
    "cffi",
    "psutil",
    "pyyaml",
    "cloudpickle",
    "matplotlib==3.11.2",
    "opentelemetry-exporter-otlp-proto-http>=1.39",  # of torchft
]
FOR_JAX = ["jax==0.10.2", "jaxlib==0.10.2", "optax==0.2.8", *setup.pinned("mpi4py")]
MPI4JAX = "mpi4jax==0.9.1.post2"  # a source distribution: it is compiled with mpicc
SUBSTITUTIONS = (
    (r"CMAKE_CXX_STANDARD (11|14)\b", "CMAKE_CXX_STANDARD 17"),
    (r"-std=c\+\+(11|14)\b", "-std=c++17"),
    (r"check_language\(CUDA\)", ""),
)
BUILD = {
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    "CXXFLAGS": "-include cstdint -include string -include stdexcept -include array",
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITH_GLOO": "1",
}


def prepare() -> None:
    """Makes the peers that are not there yet. A peer that cannot be made is left out: its rows say so, and
    the next run tries again."""
    _prepare_peers()
    _prepare_jax()


def _prepare_peers() -> None:
    recipe = repr((HOROVOD, TORCHFT, TOOLS, SUBSTITUTIONS, BUILD))
    path, mark, done = setup.stamp("bench-peers", recipe)
    if done and PEERS.exists():
        return
    print(
        "making build/bench/peers: Horovod, torchft and matplotlib; this takes some minutes, once", flush=True
    )
    shutil.rmtree(PEERS, ignore_errors=True)
    try:
        _make_environment(PEERS, "tools", TOOLS)
        torchft = map(str, [PEERS / "bin/pip", "install", "--quiet", "--no-deps", TORCHFT])
        run_quietly("bench-torchft", list(torchft))  # else its rows say that it is missing
        _build_horovod()
    except Failed as failure:
        print(f"bench: {failure}; going on without it", file=sys.stderr, flush=True)
        return
    setup.leave(path, mark)


def _step(name: str, *command: object, environment: dict[str, str] | None = None) -> None:
    if not run_quietly(f"bench-{name}", list(map(str, command)), environment):
        raise Failed(f"{name} failed; its log is build/logs/bench-{name}.log")


def _make_environment(environment: pathlib.Path, name: str, packages: list[str]) -> None:
    """Only then does it see .venv: pip removes what it sees and wants in another version."""
    _step("venv", setup.system_python(), "-m", "venv", environment)
    _step(name, environment / "bin/pip", "install", "--quiet", *packages)
    link = f"import site; site.addsitedir({str(setup.site_packages(VENV))!r})\n"
    (setup.site_packages(environment) / "project.pth").write_text(link)


def _prepare_jax() -> None:
    path, mark, done = setup.stamp("bench-jax", repr((FOR_JAX, MPI4JAX)))
    if done and JAX.exists():
        return
    print("making build/bench/jax: JAX and mpi4jax; this takes some minutes, once", flush=True)
    shutil.rmtree(JAX, ignore_errors=True)
    try:
        _make_environment(JAX, "jax", FOR_JAX)
        _step("mpi4jax", "nice", JAX / "bin/pip", "install", "--quiet", MPI4JAX)
    except Failed as failure:
        print(f"bench: {failure}; going on without it", file=sys.stderr, flush=True)
        return
    setup.leave(path, mark)


def _build_horovod() -> None:
    sources = ROOT / "build/bench/horovod"
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir(parents=True)
    unset = {"PIP_FIND_LINKS": ""}
    pip = PEERS / "bin/pip"
    _step(
        "download",
        pip,
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--no-build-isolation",
        "--dest",
        sources,
        HOROVOD,
        environment=unset,
    )
    archive = next(sources.glob("horovod-*.tar.gz"))
    shutil.unpack_archive(archive, sources)
    folder = next(path for path in sources.iterdir() if path.is_dir())
    _substitute(folder)
    path = f"{PEERS / 'bin'}:{os.environ['PATH']}"
    settings = {**BUILD, **unset, "PATH": path, "MAKEFLAGS": f"-j{os.cpu_count()}"}
    _step(
        "peers",
        "nice",
        pip,
        "install",
        "--verbose",
        "--no-deps",
        "--no-build-isolation",
        folder,
        environment=settings,
    )
    shutil.rmtree(sources)


def _substitute(folder: pathlib.Path) -> None:
    for path in [*folder.rglob("CMakeLists.txt"), *folder.rglob("*.cmake")]:
        text = path.read_text(errors="surrogateescape")
        for pattern, replacement in SUBSTITUTIONS:
            text = re.sub(pattern, replacement, text)
        path.write_text(text, errors="surrogateescape")
