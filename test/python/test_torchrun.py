# SPDX-License-Identifier: Apache-2.0
"""Programs of torchrun under hrun, and Hora under torchrun."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from ranks import ROOT
from ready_ranks import run_ready


def torchrun(
    ranks: int, program: str, folder: pathlib.Path, environment: dict[str, str] | None = None
) -> list[str]:
    """Runs a program on every rank of a torchrun of this host; the lines that they printed, sorted."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(ranks),
        str(script),
    ]
    result = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(result.stdout.splitlines())


def test_a_program_for_torchrun_runs_under_hrun_also_inside_a_torchrun():
    lines = run_ready(
        3,
        """
        import os, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.full((2,), dist.get_rank() + 1.0)
        dist.all_reduce(total)
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
        print(dist.get_rank(), dist.get_world_size(), total.tolist(), *(os.environ[name] for name in names))
        dist.barrier()
        dist.destroy_process_group()
    """,
        environment={
            "RANK": "7",
            "WORLD_SIZE": "8",
            "MASTER_PORT": "1",
            "TORCHELASTIC_RUN_ID": "outer",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        },
    )
    assert lines == [[f"{rank} 3 [6.0, 6.0] {rank} 3 {rank} 3 0"] for rank in range(3)]


@pytest.mark.long
def test_ranks_of_a_torchrun_join_and_leave_and_join_again(tmp_path: pathlib.Path):
    lines = torchrun(
        2,
        """
        import sys, torch, torch.distributed as dist, hora.torch as hvd
        dist.init_process_group("gloo")
        for _ in range(2):
            hvd.init()
            mine, theirs = torch.full((2,), hvd.rank() + 1.0), torch.full((2,), dist.get_rank() + 1.0)
            dist.all_reduce(theirs)
            assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), theirs)
            place = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
            sys.stdout.write(f"{place}\\n")
            hvd.shutdown()
        dist.barrier()
        dist.destroy_process_group()
    """,
        tmp_path,
    )
    assert lines == [str((rank, 2, rank, 2, 0, 1)) for rank in (0, 0, 1, 1)]


@pytest.mark.long
def test_ranks_of_a_torchrun_name_the_one_that_does_not_come(tmp_path: pathlib.Path):
    lines = torchrun(
        3,
        """
        import os, sys, hora
        try:
            if os.environ["RANK"] != "1":
                hora.init()
        except hora.HoraTimeoutError as error:
            sys.stdout.write(f"{error}\\n")
    """,
        tmp_path,
        {"HORA_START_TIMEOUT": "4"},
    )
    late = "rank 1 of this job of torchrun did not come within 4 s: look whether it called init(); a longer wait is HORA_START_TIMEOUT"
    assert lines == [late] * 2


@pytest.mark.long
def test_ranks_of_a_torchrun_on_several_hosts_want_a_secret(tmp_path: pathlib.Path):
    lines = torchrun(
        3,
        """
        import os, sys, hora
        os.environ.update(LOCAL_WORLD_SIZE="2", LOCAL_RANK="0", MASTER_ADDR="n1")
        try:
            hora.init()
        except hora.HoraArgumentError as error:
            sys.stdout.write(f"{error}\\n")
    """,
        tmp_path,
        {"HORA_START_TIMEOUT": "4"},
    )
    refusal = (
        "torchrun started 3 ranks on several hosts, and they share no secret: make a file that only you can "
        "read and all hosts see, and start again: "
        "(umask 077; head -c 32 /dev/urandom > ~/.hora-secret); export HORA_SECRET_FILE=~/.hora-secret"
    )
    assert lines == [refusal] * 3
