# SPDX-License-Identifier: Apache-2.0
"""The same programs, C++ and Python, under srun, mpirun, mpiexec, torchrun, hrun and alone, with no flag of
Hora's."""

import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import machines
import pytest
import slurm
from machines import Cluster
from ranks import HRUN, ROOT
from slurm import Slurm

BIN = pathlib.Path(HRUN).resolve().parent
HELLO = str(BIN / "hello")
DIGITS = {"C++": [str(BIN / "digits")], "Python": [sys.executable, str(ROOT / "examples/04_digits.py")]}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
# Open MPI wants to be told that root knows what he does. Threads change the order of sums within one rank.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}

# Prints a rank's place in the job, and a sum.
PLACE = textwrap.dedent("""
    import sys, hora, numpy as np
    hora.init()
    place = (hora.rank(), hora.size(), hora.local_rank(), hora.local_size(), hora.cross_rank(), hora.cross_size())
    total = hora.allreduce(np.full(3, hora.rank() + 1.0), op=hora.Sum)
    sys.stdout.write(f"{place} {total.tolist()}\\n")
    hora.shutdown()
    """)


def run(
    *words: str, seconds: float = 120, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """On this machine, to its end."""
    given = {**os.environ, **ENVIRONMENT, **(environment or {})}
    return subprocess.run(
        words,
        cwd=ROOT,
        env=given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def lines(result: "subprocess.CompletedProcess[str]") -> list[str]:
    """The sorted lines of output of a job that must have succeeded."""
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return sorted(result.stdout.splitlines())


def places(*numbers: tuple[int, int, int, int]) -> list[str]:
    """The sorted lines that ranks with these numbers print: local rank, local size, cross rank, cross
    size."""
    size = len(numbers)
    return sorted(
        f"({rank}, {size}, {', '.join(map(str, rest))}) {[size * (size + 1) / 2] * 3}"
        for rank, rest in enumerate(numbers)
    )


ON_ONE_HOST = places((0, 4, 0, 1), (1, 4, 0, 1), (2, 4, 0, 1), (3, 4, 0, 1))
ON_TWO_HOSTS = places((0, 2, 0, 2), (1, 2, 0, 2), (0, 2, 1, 2), (1, 2, 1, 2))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm of two nodes, a and b."""
    reason = machines.missing() or slurm.missing()
    if reason:
        pytest.skip(reason)
    with (
        Cluster(tmp_path_factory.mktemp("nodes"), "a", "b") as cluster,
        Slurm(cluster, tmp_path_factory.mktemp("slurm")) as made,
    ):
        yield made


@pytest.fixture
def secret(tmp_path: pathlib.Path) -> pathlib.Path:
    """A secret's file, as docs/clusters.md makes it."""
    path = tmp_path / "hora-secret"
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(32))
    return path


def on_nodes(
    nodes: Slurm, *words: str, secret: pathlib.Path | None = None, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    given = {**ENVIRONMENT, **(environment or {}), **({"HORA_SECRET_FILE": str(secret)} if secret else {})}
    return nodes.run(*words, seconds=120, environment=given, directory=ROOT)


# ---- losses


@pytest.mark.long
@pytest.mark.parametrize("language", ["C++", "Python"])
def test_the_same_losses_under_every_launcher(
    nodes: Slurm, secret: pathlib.Path, tmp_path: pathlib.Path, language: str
):
    program = DIGITS[language]
    if not pathlib.Path(program[-1]).exists():
        pytest.skip(f"{program[-1]} is not built: LibTorch was not found")
    torchrun = [
        *TORCHRUN,
        "--nproc-per-node",
        "4",
        *(["--no-python", *program] if language == "C++" else program[1:]),
    ]

    def training(name: str, batch: int = 8) -> list[str]:
        return ["--epochs", "1", "--batch", str(batch), "--losses", str(tmp_path / name)]

    results = {
        "alone": run(*program, *training("alone", 32)),
        "hrun": run(HRUN, "-np", "4", *program, *training("hrun")),
        "mpirun": run(*MPIRUN, "-np", "4", *program, *training("mpirun")),
        "torchrun": run(*torchrun, *training("torchrun")),
        "srun": on_nodes(nodes, "srun", "-N2", "-n4", *program, *training("srun"), secret=secret),
        "srun on one": on_nodes(nodes, "srun", "-N1", "-n4", *program, *training("srun on one")),
    }
    for name, result in results.items():
        assert result.returncode == 0, f"{name}\n{result.stdout}\n{result.stderr}"
        assert f"parameters are equal on all {1 if name == 'alone' else 4} ranks" in result.stdout
    found = {name: [float(line) for line in (tmp_path / name).read_text().split()] for name in results}
    assert len(found["alone"]) >= 40
    for name in ("mpirun", "torchrun", "srun on one"):  # one host, rank after rank: the same bits
        assert found[name] == found["hrun"], name
    for name in ("hrun", "srun"):
        assert found[name] == pytest.approx(found["alone"], rel=1e-5), name


# ---- one host


def test_mpirun(tmp_path: pathlib.Path):
    if shutil.which("mpirun") is None:
        pytest.skip("needs Open MPI's mpirun")
    assert lines(run(*MPIRUN, "-np", "4", sys.executable, "-c", PLACE)) == ON_ONE_HOST
    assert len(lines(run(*MPIRUN, "-np", "3", HELLO))) == 4


def test_mpiexec_of_mpich():
    mpiexec = shutil.which("mpiexec.hydra")
    if mpiexec is None:
        pytest.skip("needs MPICH's mpiexec.hydra")
    assert lines(run(mpiexec, "-np", "4", sys.executable, "-c", PLACE)) == ON_ONE_HOST
    wrapped = run(mpiexec, "-np", "3", "sh", "-c", f"{HELLO}; true")
    assert len(lines(wrapped)) == 4


@pytest.mark.long
def test_torchrun_of_a_program_that_is_not_python():
    result = run(*TORCHRUN, "--nproc-per-node", "3", "--no-python", HELLO)
    assert len(lines(result)) == 4


@pytest.mark.long
def test_torchruns_of_several_agents_on_one_host_meet():
    """Each thinks that it is a host; their address is this machine's own."""
    words = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "2", "--master-port", "29617"]
    given = {**os.environ, **ENVIRONMENT}
    agents = [
        subprocess.Popen(
            [*words, "--node-rank", str(rank), "--no-python", sys.executable, "-c", PLACE],
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [agent.communicate(timeout=120) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], told
    assert sorted("".join(out for out, _ in told).splitlines()) == ON_TWO_HOSTS


@pytest.mark.long
def test_one_rank_needs_nothing():
    alone = places((0, 1, 0, 1))
    assert lines(run(sys.executable, "-c", PLACE)) == alone
    assert lines(run(*MPIRUN, "-np", "1", sys.executable, "-c", PLACE)) == alone
    assert lines(run(*TORCHRUN, "--nproc-per-node", "1", "--no-python", sys.executable, "-c", PLACE)) == alone


def test_two_jobs_of_one_launcher_do_not_mix(tmp_path: pathlib.Path):
    if shutil.which("mpirun") is None:
        pytest.skip("needs Open MPI's mpirun")
    given = {**os.environ, **ENVIRONMENT}
    # Open MPI makes and removes one folder for all of a user's jobs, and fails when two do so at once.
    folders = [tmp_path / str(job) for job in range(4)]
    for folder in folders:
        folder.mkdir()
    jobs = [
        subprocess.Popen(
            [*MPIRUN, "--mca", "orte_tmpdir_base", folder, "-np", "3", HELLO],
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for folder in folders
    ]
    for job in jobs:
        out, _ = job.communicate(timeout=120)
        assert job.returncode == 0, out
        assert "the sum of all ranks + 1 is 6" in out


def test_who_is_missing_is_named():
    if shutil.which("mpirun") is None:
        pytest.skip("needs Open MPI's mpirun")
    program = 'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then sleep 3; else exec "$0"; fi'
    result = run(*MPIRUN, "-np", "4", "sh", "-c", program, HELLO, environment={"HORA_START_TIMEOUT": "1"})
    assert result.returncode != 0
    assert "rank 2 of this job of Open MPI did not come within 1 s" in result.stderr


# ---- Slurm


@pytest.mark.long
def test_srun_on_one_node_needs_no_secret(nodes: Slurm):
    assert lines(on_nodes(nodes, "srun", "-N1", "-n4", sys.executable, "-c", PLACE)) == ON_ONE_HOST
    assert lines(on_nodes(nodes, "srun", "-N1", "-n1", sys.executable, "-c", PLACE)) == places((0, 1, 0, 1))


@pytest.mark.long
def test_srun_on_two_nodes(nodes: Slurm, secret: pathlib.Path):
    two_each = ["srun", "-N2", "-n4", "--ntasks-per-node=2"]
    assert lines(on_nodes(nodes, *two_each, sys.executable, "-c", PLACE, secret=secret)) == ON_TWO_HOSTS
    assert len(lines(on_nodes(nodes, *two_each, HELLO, secret=secret))) == 5
    cyclic = on_nodes(nodes, *two_each, "--distribution=cyclic", sys.executable, "-c", PLACE, secret=secret)
    assert lines(cyclic) == places((0, 2, 0, 2), (0, 2, 1, 2), (1, 2, 0, 2), (1, 2, 1, 2))
    uneven = on_nodes(nodes, "srun", "-N2", "-n3", sys.executable, "-c", PLACE, secret=secret)
    assert lines(uneven) == places((0, 2, 0, 2), (1, 2, 0, 1), (0, 1, 1, 2))


def test_srun_that_speaks_pmi(nodes: Slurm, secret: pathlib.Path):
    words = ["srun", "--mpi=pmi2", "-N2", "-n4", "--ntasks-per-node=2"]
    assert lines(on_nodes(nodes, *words, sys.executable, "-c", PLACE, secret=secret)) == ON_TWO_HOSTS


def test_steps_of_one_allocation_do_not_mix(nodes: Slurm, secret: pathlib.Path):
    step = f"srun -N2 -n2 --overlap {HELLO}"
    result = on_nodes(
        nodes,
        "salloc",
        "-N2",
        "--ntasks-per-node=4",
        "sh",
        "-c",
        f"{step} & {step} & {step} & wait",
        secret=secret,
    )
    assert lines(result).count("the sum of all ranks + 1 is 3") == 3


def test_two_nodes_want_a_secret(nodes: Slurm, secret: pathlib.Path):
    result = on_nodes(nodes, "srun", "-N2", "-n2", HELLO)
    assert result.returncode != 0
    assert (
        "Slurm started 2 ranks on several hosts, and they share no secret: make a file that only you can "
        "read and all hosts see, and start again: "
        "(umask 077; head -c 32 /dev/urandom > ~/.hora-secret); export HORA_SECRET_FILE=~/.hora-secret"
    ) in result.stderr
    secret.chmod(0o640)
    result = on_nodes(nodes, "srun", "-N2", "-n2", HELLO, secret=secret)
    assert (
        f"HORA_SECRET_FILE='{secret}': others may use it, too (mode 0640): chmod 600 {secret}"
        in result.stderr
    )


@pytest.mark.long
def test_torchrun_on_two_nodes_of_slurm(nodes: Slurm, secret: pathlib.Path):
    agent = [
        *TORCHRUN,
        "--nnodes",
        "2",
        "--nproc-per-node",
        "2",
        "--master-addr",
        nodes.head.address,
        "--master-port",
        "29618",
    ]
    words = [
        "sh",
        "-c",
        'exec "$@" --node-rank "$SLURM_NODEID" --no-python "$0" -c "$PLACE"',
        sys.executable,
        *agent,
    ]
    assert (
        lines(on_nodes(nodes, "srun", "-N2", "-n2", *words, secret=secret, environment={"PLACE": PLACE}))
        == ON_TWO_HOSTS
    )


@pytest.mark.long
def test_ddp_under_srun_has_the_losses_of_gloo(nodes: Slurm):
    """A program of torch.distributed as it is, with PyTorch's variables from those of Slurm."""
    script = str(ROOT / "examples/frameworks/torchrun_ddp.py")
    place = 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS exec "$@"'
    meeting = {"MASTER_ADDR": nodes.head.address, "MASTER_PORT": "29620"}
    words = ["srun", "-N2", "-n2", "sh", "-c", place, "sh", sys.executable, script, "hora"]
    on_hora = lines(on_nodes(nodes, *words, environment=meeting))
    # A thread of Gloo that is slow to let go of a tensor may abort a process which has ended well.
    on_gloo = run(*TORCHRUN, "--standalone", "--nproc-per-node", "2", script, "gloo").stdout
    assert len(on_hora) == 4
    assert on_hora == sorted(on_gloo.splitlines())


@pytest.mark.long
def test_mpirun_on_two_nodes_meets_through_mpi_or_at_an_address(nodes: Slurm, secret: pathlib.Path):
    """Through MPI neither an address nor a secret is needed. Open MPI itself takes the docker0 of both for
    one network."""
    words = [
        "salloc",
        "-N2",
        "--ntasks-per-node=2",
        *MPIRUN,
        "--mca",
        "btl_tcp_if_exclude",
        "lo,docker0",
        "-np",
        "4",
    ]
    assert lines(on_nodes(nodes, *words, sys.executable, "-c", PLACE)) == ON_TWO_HOSTS
    told = ["-x", f"HORA_COORDINATOR={nodes.head.address}:29619"]
    assert lines(on_nodes(nodes, *words, *told, sys.executable, "-c", PLACE, secret=secret)) == ON_TWO_HOSTS


@pytest.mark.long
def test_the_job_script(nodes: Slurm, tmp_path: pathlib.Path):
    script = str(ROOT / "examples/slurm/train.sbatch")
    given = {**nodes.environment, **ENVIRONMENT, "HORA_SECRET_FILE": str(tmp_path / "made")}
    result = nodes.run(
        "sbatch", "--wait", script, sys.executable, "-c", PLACE, environment=given, directory=tmp_path
    )
    logs = list(tmp_path.glob("digits-*.log"))
    said = "".join(log.read_text() for log in logs)
    assert result.returncode == 0, result.stderr + said
    assert sorted(said.splitlines()) == ON_TWO_HOSTS
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600


# ---- hrun


def test_hrun_takes_the_hosts_of_an_allocation(nodes: Slurm):
    job = [HRUN, "--no-prefix", sys.executable, "-c", PLACE]
    assert lines(on_nodes(nodes, "salloc", "-Q", "-N2", "--ntasks-per-node=2", *job)) == ON_TWO_HOSTS
    few = on_nodes(nodes, "salloc", "-Q", "-N2", "--ntasks-per-node=2", HRUN, "-np", "2", *job[1:])
    assert lines(few) == places((0, 2, 0, 1), (1, 2, 0, 1))
    many = on_nodes(nodes, "salloc", "-Q", "-N2", "--ntasks-per-node=2", HRUN, "-np", "5", *job[1:])
    assert "--oversubscribe" in many.stderr


def test_hrun_ends_what_srun_started_for_it(nodes: Slurm):
    program = 'if [ "$HORA_RANK" = 3 ]; then exit 7; else exec sleep 100; fi'
    result = on_nodes(
        nodes, "salloc", "-Q", "-N2", "--ntasks-per-node=2", HRUN, "--grace", "0.1", "sh", "-c", program
    )
    assert result.returncode == 7
    assert "rank 3" in result.stderr
    assert [
        each.command
        for host in nodes.cluster.hosts
        for each in host.processes()
        if "sleep 100" in each.command
    ] == []


def test_hrun_hands_over_to_mpirun():
    if shutil.which("mpirun") is None:
        pytest.skip("needs Open MPI's mpirun")
    job = [HRUN, "--launcher", "mpi", "-np", "4", "--mpi-args", "--report-bindings -x ANOTHER=2"]
    check = 'import os; assert (os.environ["GREETING"], os.environ["ANOTHER"]) == ("good day", "2")'
    result = run(*job, "-x", "GREETING=good day", sys.executable, "-c", PLACE + check)
    assert lines(result) == ON_ONE_HOST
    # One write for each line: mpirun passes on what is written as it comes, also half lines of several ranks.
    over = 'import sys, hora; hora.init(); sys.stdout.write(f"{hora.rank()} {hora.mpi_enabled()}\\n")'
    over_mpi = run(HRUN, "--mpi", "-np", "2", sys.executable, "-c", over)
    assert lines(over_mpi) == ["0 True", "1 True"]
    torn = run(HRUN, "--mpi", "--launcher", "ssh", "-np", "2", HELLO)
    assert (torn.returncode, "--mpi and --launcher ssh contradict each other" in torn.stderr) == (2, True)


def test_hrun_refuses_a_launcher_that_is_not_there():
    outside = run(HRUN, "--launcher", "slurm", "-np", "2", HELLO)
    assert (outside.returncode, "this is no allocation of Slurm's" in outside.stderr) == (2, True)
    unknown = run(HRUN, "--launcher", "pbs", "-np", "2", HELLO)
    assert (unknown.returncode, "must be one of ssh, slurm, mpi, not 'pbs'" in unknown.stderr) == (2, True)
    alone = run(HRUN, "--mpi-args", "-v", "-np", "2", HELLO)
    assert (alone.returncode, "--mpi-args needs --mpi or --launcher mpi" in alone.stderr) == (2, True)
