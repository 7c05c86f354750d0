# SPDX-License-Identifier: Apache-2.0
"""Jobs whose tensors move over MPI, or whose ranks are those of an MPI communicator: started by mpirun."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
import time

import hora
import pytest
from ranks import hrun
from ready_ranks import ready_python

needs_mpi4py = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed: communicators come from it"
)
pytestmark = [
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun"),
    pytest.mark.skipif(not hora.mpi_built(), reason="this Hora has no libhora_mpi.so"),
]


def mpirun(
    ranks: int, script: str, *options: str, operations: str = "mpi", seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    python = ready_python() if "torch" in script else [sys.executable]
    command = [
        "mpirun",
        "--oversubscribe",
        "--allow-run-as-root",
        *options,
        "-np",
        str(ranks),
        *python,
        "-c",
        textwrap.dedent(script),
    ]
    environment = {**os.environ, "HORA_CPU_OPERATIONS": operations, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


def good(ranks: int, script: str, operations: str = "mpi") -> str:
    result = mpirun(ranks, script, operations=operations)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


OPERATIONS = """
    import torch, hora.torch as hvd
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    assert hvd.mpi_built() and hvd.mpi_enabled() and hvd.mpi_threads_supported()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        total = hvd.allreduce(torch.full((70_001,), rank + 1, dtype=dtype), op=hvd.Sum)
        assert total.dtype == dtype and (total == size * (size + 1) // 2).all()
    halves = torch.full((4000,), 2048.0 if rank == 0 else 1.0, dtype=torch.float16)
    assert (hvd.allreduce(halves, op=hvd.Sum) == torch.tensor(2048.0 + size - 1).half()).all()  # one rounding
    assert hvd.allgather(torch.full((rank + 1, 2), rank)).tolist() == [[r, r] for r in range(size) for _ in range(r + 1)]
    assert (hvd.broadcast(torch.full((300_000,), rank), root_rank=size - 1) == size - 1).all()
    received, splits = hvd.alltoall(torch.full((size,), rank), torch.ones(size, dtype=torch.int32))
    assert received.tolist() == list(range(size)) and splits.tolist() == [1] * size
    assert hvd.reducescatter(torch.arange(size * 3.0), op=hvd.Sum).tolist() == [size * x for x in range(rank * 3, rank * 3 + 3)]
    upper = hvd.add_process_set(range(1, size))
    if upper.included():
        assert hvd.allreduce(torch.ones(5), op=hvd.Sum, process_set=upper).tolist() == [size - 1] * 5
    assert hvd.allgather_object({rank}) == [{r} for r in range(size)]
    assert hvd.join() >= 0
    hvd.shutdown()
    hvd.init()  # MPI is still there
    hvd.barrier()
    print("rank", rank, "is through")
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_operations_work_over_mpi(ranks: int):
    assert good(ranks, OPERATIONS).count("is through") == ranks


@needs_mpi4py
def test_the_program_may_start_mpi_itself_and_use_it_beside():
    script = """
        from mpi4py import MPI
        import torch, hora.torch as hvd
        hvd.init()
        handles = [hvd.allreduce_async(torch.full((50_000,), float(hvd.rank())), name=str(i), op=hvd.Sum) for i in range(20)]
        for _ in range(200):
            assert MPI.COMM_WORLD.allreduce(1) == hvd.size()
        assert all((hvd.synchronize(handle) == 1).all() for handle in handles)
        assert (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()) == (hvd.rank(), hvd.size())
    """
    good(2, script)


@needs_mpi4py
@pytest.mark.parametrize("operations", ["mpi", "auto", "tcp"])
def test_a_communicator_is_a_job(operations: str):
    script = """
        from mpi4py import MPI
        import numpy as np, hora
        world = MPI.COMM_WORLD
        half = world.Split(world.rank % 2, -world.rank)
        hora.init(comm=half)
        assert (hora.rank(), hora.size(), hora.local_size()) == (half.rank, half.size, half.size)
        assert hora.mpi_enabled() and hora.mpi_threads_supported()
        expected = sum(rank for rank in range(4) if rank % 2 == world.rank % 2)
        assert (hora.allreduce(np.full(1000, world.rank), op=hora.Sum) == expected).all()
        hora.shutdown()
        hora.init(comm=world)
        assert (hora.rank(), hora.size()) == (world.rank, 4)
        hora.shutdown()
        try:
            hora.init(comm=MPI.COMM_NULL)
        except ValueError as error:
            assert "COMM_NULL" in str(error)
        else:
            raise AssertionError
    """
    good(4, script, operations)


@needs_mpi4py
def test_a_communicator_that_does_not_know_the_ranks_is_refused():
    """Under plain hrun each rank is alone for MPI, and would train alone."""
    script = "from mpi4py import MPI; import hora; hora.init(comm=MPI.COMM_WORLD)"
    result = hrun("-np", "2", sys.executable, "-c", script)
    assert result.returncode != 0
    assert (
        "hrun has started 2 ranks, but MPI knows of 1 process, this one" in result.stderr
        and "hrun --mpi -np 2" in result.stderr
    ), result.stderr


@needs_mpi4py
def test_a_world_of_mpi4py_without_the_other_ranks_is_told_in_one_line():
    script = "from mpi4py import MPI; import hora; hora.init()"
    result = hrun("-np", "2", sys.executable, "-c", script)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("mpi4py's COMM_WORLD has 1: start with `hrun --mpi`") == 1, result.stderr
    assert "COMM_WORLD" not in hrun("--mpi", "-np", "2", "--", sys.executable, "-c", script).stderr


@needs_mpi4py
def test_mpi_without_threads_is_refused_with_the_remedy():
    script = """
        import mpi4py
        mpi4py.rc.thread_level = "funneled"
        from mpi4py import MPI
        import hora
        try:
            hora.init()
        except hora.HoraError as error:
            assert "MPI_THREAD_MULTIPLE" in str(error)
        else:
            raise AssertionError
        print("refused")
    """
    assert good(2, script).count("refused") == 2


def test_ranks_that_mpi_does_not_know_are_told_how_to_start():
    result = hrun(
        "-np",
        "2",
        sys.executable,
        "-c",
        "import hora; hora.init()",
        environment={"HORA_CPU_OPERATIONS": "mpi"},
    )
    assert result.returncode != 0
    assert "the job has 2 ranks, and Open MPI" in result.stderr and "mpirun -np 2" in result.stderr, (
        result.stderr
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [(), ("--enable-recovery",)], ids=["ended by mpirun", "left alone by mpirun"]
)
def test_a_rank_that_is_killed_ends_the_others_at_once(options: tuple[str, ...]):
    script = """
        import os, signal, sys, numpy as np, hora
        hora.init()
        data = np.ones(1_000_000)
        for step in range(1_000_000):
            if step == 50 and hora.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                hora.allreduce(data, name="x")
            except hora.HoraError as error:
                print("told:", error, file=sys.stderr, flush=True)
                sys.exit(7)
    """
    start = time.monotonic()
    result = mpirun(3, script, *options)
    assert time.monotonic() - start < 30
    if options:  # then mpirun takes no notice of exit codes
        assert result.stderr.count("told: ") == 2 and "rank 1" in result.stderr, result.stderr
    else:
        assert result.returncode != 0


@pytest.mark.long
def test_an_exception_of_one_rank_is_what_the_others_hear():
    script = """
        import numpy as np, hora
        hora.init()
        for step in range(1000):
            if step == 20 and hora.rank() == 1:
                raise RuntimeError("out of data")
            hora.allreduce(np.ones(100_000), name="x")
    """
    result = mpirun(2, script)
    assert result.returncode == 1
    assert "out of data" in result.stderr
