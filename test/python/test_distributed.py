# SPDX-License-Identifier: Apache-2.0
"""Hora as a backend of torch.distributed: every collective, DDP, FSDP2, DTensor; how the ranks join; and what
happens when one dies."""

import functools
import pathlib
import re
import subprocess
import sys
import textwrap

import distributed_calls
import distributed_cases
import pytest
import torch
import torch.distributed as dist
from ranks import environment_with, hrun, run_python

CASES = pathlib.Path(distributed_cases.__file__)
CALLS = pathlib.Path(distributed_calls.__file__)
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


BY_LAUNCH = pytest.mark.parametrize(
    "launched",
    ["2-shm", *(pytest.param(each, marks=pytest.mark.long) for each in LAUNCHED if each != "2-shm")],
)


@pytest.mark.long
@pytest.mark.parametrize("case", [case.__name__ for case in distributed_cases.CASES])
@BY_LAUNCH
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


@pytest.mark.long
def test_ranks_of_torchrun_meet_again_by_the_same_store(tmp_path: pathlib.Path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys, torch, torch.distributed as dist, hora.torch.distributed
            for job in range(3):
                dist.init_process_group("hora")
                tensor = torch.ones(1)
                dist.all_reduce(tensor)
                dist.destroy_process_group()
            sys.stdout.write(f"{tensor.item()}\\n")
            """
        )
    )
    result = torchrun(2, str(program))
    assert result.stdout.split() == ["2.0", "2.0"], result.stdout + result.stderr


HOOK = "model.register_comm_hook(model, hora.torch.distributed.ddp_hook)"


@pytest.mark.long
@pytest.mark.parametrize(
    ("killed", "change"),
    [pytest.param(0, "", id="0"), pytest.param(1, "", id="1"), pytest.param(1, HOOK, id="hook")],
)
def test_a_rank_that_dies_in_backward_is_an_error_with_its_cause_on_all_others(
    killed: int, change: str, tmp_path: pathlib.Path
):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import os, signal, time, torch, torch.distributed as dist
            import hora.torch.distributed
            dist.init_process_group("hora")
            dist.new_group([0, 1, 2])
            layers = [torch.nn.Linear(64, 64) for _ in range(8)]
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.02)
            {change}
            for step in range(3):
                model(torch.randn(4, 64)).sum().backward()
            if dist.get_rank() == {killed}:
                layers[3].weight.register_hook(lambda gradient: os.kill(os.getpid(), signal.SIGKILL))
            begin = time.monotonic()
            try:
                model(torch.randn(4, 64)).sum().backward()
            except RuntimeError as error:
                print("heard", time.monotonic() - begin < 1, str(error).replace(chr(10), " "), flush=True)
                dist.destroy_process_group()
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_monitored_barrier_names_all_ranks_that_are_missing_on_all_others():
    lines = run_python(
        4,
        """
        import datetime, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        group = dist.group.WORLD

        def enter(seconds):
            try:
                group.monitored_barrier(datetime.timedelta(seconds=seconds))
                print("passed")
            except RuntimeError as error:
                print(error)

        for late in ((1, 3), (0,)):
            if dist.get_rank() not in late:
                enter(0.5)
            dist.barrier()
            if dist.get_rank() in late:
                enter(60)
        enter(60)
        """,
    )
    named = "monitored_barrier: ranks 1, 3 of the group have not called it in time: call it on all ranks"
    silent = "monitored_barrier: rank 0 of the group has not called it in time: call it on all ranks"
    assert lines == [
        [named, "passed", "passed"],
        *[[named, silent, "passed"]] * 3,
    ]


@pytest.mark.long
def test_each_call_may_have_a_time_of_its_own_and_what_was_not_waited_for_ends_with_its_group():
    lines = run_python(
        2,
        """
        import datetime, torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        group = dist.group.WORLD
        if dist.get_rank() == 0:
            try:
                group.barrier(timeout=datetime.timedelta(seconds=0.1)).wait()
            except RuntimeError as error:
                print(error)
        else:
            group.barrier().wait()
        group.allreduce(torch.ones(1), dist.ReduceOp.MAX).wait()
        work = dist.all_reduce(torch.ones(1), async_op=True)
        dist.destroy_process_group()
        for _ in range(2):
            try:
                work.wait()
            except RuntimeError as error:
                print(error)
        """,
    )
    ended = "'all_reduce': its process group was destroyed before anybody waited for it"
    late = "'barrier' has not ended within 0.1 s, the timeout of its group or of this call"
    assert lines[0][-2:] == lines[1] == [ended] * 2
    assert lines[0][:-2] in ([], [late])  # rank 1 may be there in time


@pytest.mark.long
def test_the_job_goes_on_after_a_monitored_barrier_however_long():
    lines = run_python(
        2,
        """
        import datetime, time, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        if dist.get_rank() == 0:
            try:
                dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=0.1))
            except RuntimeError as error:
                print(error)
        time.sleep(2)
        dist.barrier()
        """,
        environment={"HORA_MISSING_WARNING": "0.2", "HORA_MISSING_TIMEOUT": "1"},
    )
    assert lines == [
        ["monitored_barrier: rank 1 of the group has not called it in time: call it on all ranks"],
        [],
    ]


@pytest.mark.long
def test_outputs_that_do_not_fit_are_an_error_of_each_wait():
    lines = run_python(
        2,
        """
        import torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        work = dist.group.WORLD.allgather([[torch.zeros(1, 3), torch.zeros(2)]], [torch.ones(2)])
        for _ in range(2):
            try:
                work.wait()
            except RuntimeError as error:
                print(error)
        print(work.is_success())
        dist.barrier()
        """,
    )
    said = "the outputs have 20 bytes, and the result has 16: give outputs of the shapes that the ranks send"
    assert lines == [[said, said, "False"]] * 2


@pytest.mark.long
def test_a_group_that_another_rank_has_destroyed_says_so():
    lines = run_python(
        2,
        """
        import torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        group = dist.new_group([0, 1])
        if dist.get_rank() == 0:
            dist.destroy_process_group(group)
        else:
            try:
                dist.all_reduce(torch.ones(1), group=group)
            except RuntimeError as error:
                print(str(error).splitlines()[0])
        dist.barrier()
        """,
    )
    assert lines == [
        [],
        ["'allreduce.noname.1': rank 0 has removed the process set without submitting it"],
    ]


@pytest.mark.long
def test_the_hook_names_the_parameters_of_a_bucket_that_waits_for_a_rank():
    lines = run_python(
        2,
        """
        import torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(2, 2)))
        model.register_comm_hook(model, hora.torch.distributed.ddp_hook)
        if dist.get_rank() == 0:
            try:
                model(torch.ones(1, 2)).sum().backward()
            except RuntimeError as error:
                print(str(error).splitlines()[0])
        """,
    )
    said = "'allreduce.gradient.0.0.weight..0.bias': rank 1 has left the job without submitting it"
    assert lines[0][0].endswith(said)


def test_pytorch_reads_the_last_operations_of_ranks_that_disagree(tmp_path: pathlib.Path):
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15):
        pytest.skip("torchfrtrace reads operations of other libraries than NCCL from PyTorch 2.15 on")
    run_python(
        2,
        """
        import torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        dist.all_reduce(torch.ones(4))
        if dist.get_rank() == 0:
            dist.send(torch.ones(4), 1)
        else:
            dist.recv(torch.ones(4), 0)
        try:
            dist.broadcast(torch.ones(2 + dist.get_rank()), 0)
        except RuntimeError:
            pass
        """,
        environment={"TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/rank_"},
    )
    read = subprocess.run(
        [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", tmp_path, "--prefix", "rank_"],
        capture_output=True,
        text=True,
        check=True,
    )
    said = read.stdout + read.stderr
    assert "collective: hora:broadcast" in said
    assert "Expected input sizes: '[[2]]' does not match found input sizes: '[[3]]'" in said


@pytest.mark.long
def test_a_path_to_which_the_last_operations_cannot_be_written_hides_no_error():
    program = """
        import torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        try:
            dist.broadcast(torch.ones(2 + dist.get_rank()), 0)
        except RuntimeError as error:
            print(str(error).split(":")[0])
        """
    environment = {"TORCH_FR_DUMP_TEMP_FILE": "/nowhere/rank_"}
    result = hrun("-np", "2", sys.executable, "-c", textwrap.dedent(program), environment=environment)
    assert result.stdout.count("'broadcast.noname.1'") == 2, result.stdout + result.stderr
    assert result.stderr.count("hora: the last operations of this rank could not be written: ") == 2


@pytest.mark.long
def test_a_group_that_was_destroyed_refuses_to_work_and_another_one_can_be_made(
    tmp_path: pathlib.Path,
):
    lines = run_python(
        2,
        f"""
        import os, torch, torch.distributed as dist, hora.torch.distributed
        for job in range(2):
            store = f"file://{tmp_path}/{{job}}"  # servers of two jobs would share a port
            dist.init_process_group("hora", init_method=store, rank=int(os.environ["RANK"]), world_size=2)
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


@pytest.mark.long
def test_mistakes_are_sentences_and_the_job_goes_on():
    lines = run_python(
        2,
        """
        import datetime, os, torch, torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        rank = dist.get_rank()
        def say(call):
            try:
                call()
            except (RuntimeError, ValueError) as error:
                print(str(error).splitlines()[0], flush=True)
        say(lambda: dist.all_reduce(torch.ones(2, device="meta")))
        say(lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)))
        say(lambda: dist.all_reduce(torch.ones(2 + rank)))
        dist.barrier()
        child = os.fork()
        if child == 0:
            say(lambda: dist.all_reduce(torch.ones(1)))
            os._exit(0)
        os.waitpid(child, 0)
        dist.barrier()
        """,
    )
    for said in lines:
        assert said[0] == (
            "'allreduce.noname.1': the tensor is on meta, so it has no elements; give one on the CPU or on a GPU"
        )
        assert said[1] == (
            "'allreduce.noname.1': float8_e4m3fn is moved between ranks, and not reduced; convert the tensor to "
            "bfloat16"
        )
        assert said[2] == (
            "'allreduce.noname.1': tensor differs between ranks: float32[2] on rank 0, float32[3] on rank 1"
        )
        assert re.match(r"this process \(pid \d+\) was forked from the rank \(pid \d+\) and is none", said[3])


@pytest.mark.long
def test_a_world_size_that_is_not_hruns_is_refused_at_once(tmp_path: pathlib.Path):
    lines = run_python(
        2,
        f"""
        import torch.distributed as dist, hora.torch.distributed
        store = dist.FileStore("{tmp_path}/store", 3)
        try:
            dist.init_process_group("hora", store=store, rank=0, world_size=3)
        except ValueError as error:
            print(str(error).split(" of its job:")[0])
        """,
    )
    said = "this process is rank 0 of 3 for torch.distributed, but rank {} of 2"
    assert lines == [[said.format(rank)] for rank in range(2)]


@pytest.mark.long
def test_a_store_without_rank_0_is_an_error_that_says_so():
    program = """
        import datetime, torch.distributed as dist, hora.torch.distributed
        store = dist.HashStore()
        store.set_timeout(datetime.timedelta(seconds=0.1))
        try:
            dist.init_process_group("hora", store=store, rank=1, world_size=2)
        except RuntimeError as error:
            print(error)
        """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment_with({}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "rank 1 of 2 has not found rank 0 in PyTorch's store, which all ranks must have" in result.stdout


@pytest.mark.long
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


@functools.cache
def answers(backend: str, launched: str) -> dict[str, list[str]]:
    """The outcomes that the ranks print, by the call."""
    ranks, environment = LAUNCHED[launched]
    words = ("-np", str(ranks), sys.executable, str(CALLS), backend)
    result = hrun(*words, environment={"OMP_NUM_THREADS": "1", **environment})
    # A thread of Gloo that is slow to let go of a tensor may abort a process which has ended well.
    assert result.returncode == 0 or backend == "gloo", result.stdout + result.stderr
    found = sorted(re.findall(r"^\[\d+\] (\d+) (\S+) (.*)", result.stdout, re.MULTILINE))
    said: dict[str, list[str]] = {}
    for _, call, outcome in found:
        said.setdefault(call, []).append(outcome)
    assert all(len(outcomes) == ranks for outcomes in said.values())
    return said


@pytest.mark.long
@BY_LAUNCH
def test_calls_have_the_outcomes_of_gloo_if_gloo_can_do_them(launched: str):
    ours, peers = answers("hora", launched), answers("gloo", "4-shm" if launched[0] == "4" else "2-shm")
    assert peers.keys() == ours.keys() - set(distributed_calls.WRONG)
    differ = {call: (ours[call], said) for call, said in peers.items() if ours[call] != said}
    assert {call: both for call, both in differ.items() if not both[1][0].startswith("error")} == {}


@BY_LAUNCH
@pytest.mark.parametrize("call", distributed_calls.WRONG)
def test_a_wrong_call_is_an_error_on_each_rank_and_the_job_goes_on(launched: str, call: str):
    for outcome in answers("hora", launched)[call]:
        assert re.match("error .*(TypeError|ValueError|RuntimeError)", outcome)


@pytest.mark.skipif(not hasattr(dist, "_reconfigure"), reason="PyTorch has reconfigure() from 2.15 on")
def test_processes_go_on_in_another_group_when_a_rank_has_died(tmp_path: pathlib.Path):
    """Three ranks, of which one dies in backward(); the two that are left, in another order; then a new one with
    them."""
    program = """
        import os, signal, sys, torch, torch.distributed as dist, hora.torch.distributed
        from torch.nn.parallel import DistributedDataParallel

        number, folder = int(sys.argv[1]), sys.argv[2]
        store = dist.FileStore(folder + "/handles", -1)
        dist.init_process_group("hora", store=dist.HashStore(), rank=0, world_size=1, enable_reconfigure=True)
        assert dist._supports_reconfigure()
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            print(error, flush=True)

        def meet(uuid, members, kind):
            store.set(f"{uuid} {number}", dist._get_reconfigure_handle())
            handles = [store.get(f"{uuid} {member}").decode() for member in members]
            dist._reconfigure(uuid, kind(handles)).wait()
            assert dist.get_world_size() == len(members)
            if kind is list:
                assert members[dist.get_rank()] == number
            assert dist.get_process_group_ranks(None) == list(range(len(members)))
            numbers = [None] * len(members)
            dist.all_gather_object(numbers, number, group=dist.new_group(list(range(len(members)))))
            print(uuid, sorted(numbers), flush=True)

        def train(members):
            torch.manual_seed(1)
            layers = [torch.nn.Linear(8, 8) for _ in range(4)]
            model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.0001)
            for _ in range(3):
                model.zero_grad()
                model(torch.full((2, 8), number + 1.0)).sum().backward()
            own = layers[0].weight.grad
            model.module.zero_grad()
            model.module(torch.full((2, 8), sum(members) / len(members) + 1.0)).sum().backward()
            torch.testing.assert_close(own, layers[0].weight.grad)  # the model is linear
            return model, layers

        if number < 3:
            meet(1, [0, 1, 2], list)
            model, layers = train([0, 1, 2])
            if number == 1:
                layers[1].weight.register_hook(lambda gradient: os.kill(os.getpid(), signal.SIGKILL))
            try:
                model(torch.ones(2, 8)).sum().backward()
            except RuntimeError as error:
                print("heard", "rank 1" in str(error), flush=True)
            dist.group.WORLD.abort()
            meet(2, [2, 0], list)
            train([2, 0])
        meet(3, [0, 2, 3], set)
        train([0, 2, 3])
        for wrong in ([], ["gloo:0:-1:0"]):
            try:
                dist._reconfigure(4, wrong)
            except ValueError as error:
                print(str(error).split(":")[0], flush=True)
        dist.destroy_process_group()
        """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(number), str(tmp_path)],
            env=environment_with({"OMP_NUM_THREADS": "1"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    try:
        said = [process.communicate(timeout=100) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, -9, 0, 0], said
    alone = (
        "'all_reduce': its process group was made with enable_reconfigure=True, and has no ranks before "
        "reconfigure()"
    )
    ended = [f"the {count} handles of reconfigure() do not have this process's" for count in (0, 1)]
    for number in (0, 2):
        lines = [alone, "1 [0, 1, 2]", "heard True", "2 [0, 2]", "3 [0, 2, 3]", *ended]
        assert said[number][0].splitlines() == lines, said
    assert said[3][0].splitlines() == [alone, "3 [0, 2, 3]", *ended], said
