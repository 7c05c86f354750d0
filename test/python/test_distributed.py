# SPDX-License-Identifier: Apache-2.0
"""Hora as a backend of torch.distributed: every collective, DDP, FSDP2, DTensor; how the ranks join; and what
happens when one dies."""

import functools
import pathlib
import re
import subprocess
import sys
import textwrap

import distributed_cases
import pytest
from ranks import environment_with, hrun, run_python

CASES = pathlib.Path(distributed_cases.__file__)
LAUNCHED = {
    "2-shm": (2, {}),
    "2-tcp": (2, {"HORA_CPU_OPERATIONS": "tcp"}),
    "4-shm": (4, {}),
    "4-tcp": (4, {"HORA_CPU_OPERATIONS": "tcp"}),
}


@functools.cache
def outcomes(launched: str) -> tuple[int, str]:
    """How many ranks there are, and what they print."""
    ranks, environment = LAUNCHED[launched]
    result = hrun(
        "-np", str(ranks), sys.executable, str(CASES), environment={"OMP_NUM_THREADS": "1", **environment}
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return ranks, result.stdout


def torchrun(ranks: int, *program: str, seconds: float = 100) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *program]
    return subprocess.run(
        words,
        env=environment_with({"OMP_NUM_THREADS": "1"}),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.mark.parametrize("case", [case.__name__ for case in distributed_cases.CASES])
@pytest.mark.parametrize(
    "launched",
    ["2-shm", *(pytest.param(each, marks=pytest.mark.long) for each in LAUNCHED if each != "2-shm")],
)
def test_torch_distributed(launched: str, case: str):
    ranks, output = outcomes(launched)
    said = re.findall(rf"\] {case} (.*)", output)
    assert said == ["ok"] * ranks, "\n".join(said)


@pytest.mark.long
def test_ranks_of_torchrun_meet_by_its_store():
    result = torchrun(2, str(CASES))
    assert result.returncode == 0, result.stdout + result.stderr
    for case in distributed_cases.CASES:
        assert result.stdout.count(f"{case.__name__} ok") == 2, result.stdout + result.stderr


@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_that_dies_in_backward_is_an_error_with_its_cause_on_all_others(
    killed: int, tmp_path: pathlib.Path
):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import os, signal, time, torch, torch.distributed as dist
            import hora.torch.distributed
            dist.init_process_group("hora")
            layers = [torch.nn.Linear(64, 64) for _ in range(8)]
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.02)
            for step in range(3):
                model(torch.randn(4, 64)).sum().backward()
            if dist.get_rank() == {killed}:
                layers[3].weight.register_hook(lambda gradient: os.kill(os.getpid(), signal.SIGKILL))
            begin = time.monotonic()
            try:
                model(torch.randn(4, 64)).sum().backward()
            except RuntimeError as error:
                print("heard", time.monotonic() - begin < 1, str(error).replace(chr(10), " "), flush=True)
                raise SystemExit(5)
            """
        )
    )
    result = hrun("-np", "3", sys.executable, str(program))
    heard = re.findall(r"heard (\w+) (.*)", result.stdout)
    assert len(heard) == 2, result.stdout + result.stderr
    for soon, text in heard:
        assert soon == "True"
        assert re.search(rf"rank {killed} \(pid \d+ on \S+\) is gone: it was killed by signal 9", text), text
    assert f"hrun: rank {killed} (" in result.stderr


def test_a_wait_with_a_timeout_names_the_operation():
    lines = run_python(
        2,
        """
        import datetime, torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        if dist.get_rank() == 0:
            work = dist.irecv(torch.zeros(1), 1)
            try:
                work.wait(datetime.timedelta(seconds=0.1))
            except RuntimeError as error:
                print(error)
            dist.barrier()
            work.wait()
        else:
            dist.barrier()
            dist.send(torch.ones(1), 0)
        """,
    )
    assert lines[0] == ["'recv' has not ended within 0.1 s, the timeout of its group or of this call"]


def test_a_group_that_was_destroyed_refuses_to_work_and_another_one_can_be_made():
    lines = run_python(
        2,
        """
        import torch, torch.distributed as dist, hora.torch.distributed
        for job in range(2):
            dist.init_process_group("hora")
            group = dist.group.WORLD
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            print(tensor.item())
            dist.destroy_process_group()
        try:
            group.allreduce([tensor])
        except RuntimeError as error:
            print(error)
        """,
    )
    said = "'all_reduce': its process group has been destroyed; make a new one"
    assert lines == [["2.0", "2.0", said]] * 2


def test_ranks_that_differ_from_those_of_the_job_are_refused(tmp_path: pathlib.Path):
    lines = run_python(
        2,
        f"""
        import hora, torch.distributed as dist, hora.torch.distributed
        hora.init()
        try:
            dist.init_process_group(
                "hora", init_method="file://{tmp_path}/store", rank=1 - hora.rank(), world_size=2
            )
        except ValueError as error:
            print(str(error).split(" of its job:")[0])
        """,
    )
    said = "this process is rank {} of 2 for torch.distributed, but rank {} of 2"
    assert lines == [[said.format(1, 0)], [said.format(0, 1)]]
