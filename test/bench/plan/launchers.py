# SPDX-License-Identifier: Apache-2.0
"""Ways to start the ranks of a job on this machine."""

import dataclasses
import os
import pathlib
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence

from suites.shell import HRUN, PYTHON, ROOT

PEERS = ROOT / "build/bench/peers"  # the virtual environment of those that the project itself does not need
JAX = ROOT / "build/bench/jax"  # that of rows about JAX
HORA_BENCH = ROOT / "build/default/bin/hora_bench"
JOB_TIMEOUT = 900  # seconds for one job

Environment = dict[str, str]


class JobFailed(Exception):
    """A job did not succeed; the text says why."""


@dataclasses.dataclass(frozen=True)
class Launcher:
    """Runs a program on so many ranks; a process that fails ends the job."""

    name: str
    missing: Callable[[], str | None]  # why it cannot be used here
    commands: Callable[[int, Sequence[str]], list[tuple[list[str], Environment]]]  # one, or one for each rank


def _nothing() -> None:
    return None


def _no_mpi() -> str | None:
    return None if shutil.which("mpirun") else "there is no mpirun here"


_without_peers = False


def do_without_peers() -> None:
    """From now on nothing of build/bench/peers and build/bench/jax is used."""
    global _without_peers
    _without_peers = True


def _not_there(environment: pathlib.Path, path: str, name: str, log: str) -> str | None:
    """Why a peer cannot be used here, whose installation makes this path."""
    if _without_peers:
        return "it was not asked for (--no-peers)"
    there = any(environment.glob(path))
    return None if there else f"{name} could not be built: see build/logs/bench-{log}.log"


def _no_horovodrun() -> str | None:
    return _not_there(PEERS, "bin/horovodrun", "Horovod", "peers")


def no_jax() -> str | None:
    return _not_there(JAX, "lib/python3*/site-packages/optax", "JAX's environment", "jax")


def no_mpi4jax() -> str | None:
    return _not_there(JAX, "lib/python3*/site-packages/mpi4jax", "mpi4jax", "mpi4jax")


def _binding(ranks: int) -> list[str]:
    """A core for each rank, if there are as many: mpirun does this by itself, and hrun is to be compared with
    it."""
    return ["--bind-to", "core" if ranks <= len(os.sched_getaffinity(0)) else "none"]


def _hrun(ranks: int, program: Sequence[str]) -> list[tuple[list[str], Environment]]:
    return [([str(HRUN), "-np", str(ranks), *_binding(ranks), *program], {})]


def _mpirun(ranks: int, program: Sequence[str]) -> list[tuple[list[str], Environment]]:
    return [
        (
            [
                "mpirun",
                "--allow-run-as-root",
                "--oversubscribe",
                *_binding(ranks),
                "-np",
                str(ranks),
                *program,
            ],
            {},
        )
    ]


def _horovodrun(ranks: int, program: Sequence[str]) -> list[tuple[list[str], Environment]]:
    path = f"{PEERS / 'bin'}:{os.environ['PATH']}"
    return [([str(PEERS / "bin/horovodrun"), "--gloo", "-np", str(ranks), *program], {"PATH": path})]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _processes(ranks: int, program: Sequence[str]) -> list[tuple[list[str], Environment]]:
    """The environment that torchrun gives its ranks, without the seconds that torchrun takes to start."""
    port = str(free_port())
    job = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    return [(list(program), {**job, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]


def _torchrun(ranks: int, program: Sequence[str]) -> list[tuple[list[str], Environment]]:
    flags = ["--nproc-per-node", str(ranks), "--master-port", str(free_port()), "--no-python"]
    return [([str(PYTHON), "-m", "torch.distributed.run", *flags, *program], {})]


hrun = Launcher("hrun", _nothing, _hrun)
mpirun = Launcher("mpirun", _no_mpi, _mpirun)
horovodrun = Launcher("horovodrun", _no_horovodrun, _horovodrun)
processes = Launcher("processes", _nothing, _processes)
torchrun = Launcher("torchrun", _nothing, _torchrun)


def end(started: list[subprocess.Popen[bytes]]) -> None:
    """Ends what is left of a job; each of its processes leads a group."""
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_job(
    commands: list[tuple[list[str], Environment]], environment: Environment, log: pathlib.Path
) -> None:
    """Runs the processes of a job until all have ended. Raises JobFailed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    started: list[subprocess.Popen[bytes]] = []
    try:
        with open(log, "wb") as output:
            for command, own in commands:
                settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment, **own}
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=settings,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                started.append(process)
            codes = [process.wait(timeout=JOB_TIMEOUT) for process in started]
    except subprocess.TimeoutExpired as late:
        raise JobFailed(f"it did not end within {JOB_TIMEOUT} s; see {log.relative_to(ROOT)}") from late
    except FileNotFoundError as absent:
        raise JobFailed(f"there is no {absent.filename}") from absent
    finally:
        end(started)
    if any(codes):
        words = log.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(words) if line.strip()), "it said nothing")
        raise JobFailed(f"exit code {next(filter(None, codes))}; see {log.relative_to(ROOT)}: {last}")
