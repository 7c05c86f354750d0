# SPDX-License-Identifier: Apache-2.0
"""Programs whose ranks do not do the same: each ends with an error that names the tensor and who is
missing."""

import pathlib
import re
import textwrap

import pytest
from ranks import hrun, run_python
from ready_ranks import ready_python, run_ready

# An operation that other ranks wait for is reported missing after half a second, and fails after two.
SHORT_LIMITS = {"HORA_MISSING_WARNING": "0.5", "HORA_MISSING_TIMEOUT": "2"}
MODEL = """
    import sys, time, torch, hora.torch as hvd
    hvd.init()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters())
    def step():
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    def busy():
        sys.stdin.read() if hvd.rank() == 0 else time.sleep(60)
"""


def fail(program: str, ranks: int = 2, environment: dict[str, str] | None = None) -> str:
    """The stderr of a program that fails. hrun's prefixes are taken off, and times and numbers of
    processes."""
    script = textwrap.dedent(MODEL) + textwrap.dedent(program)
    words = (
        "-np",
        str(ranks),
        "--grace",
        "1",
        *ready_python(),
        "-c",
        script,
    )  # who is busy does not end by itself
    result = hrun(*words, environment={**SHORT_LIMITS, **(environment or {})}, seconds=60)
    assert result.returncode != 0, result.stdout + result.stderr
    return re.sub(r"^\[\d+\] ", "", result.stderr, flags=re.MULTILINE)


@pytest.mark.long
def test_an_allreduce_of_one_rank_alone():
    said = fail("""
        if hvd.rank() == 0:
            hvd.allreduce(torch.ones(3), name="loss")
        else:
            def evaluate():
                time.sleep(60)
            evaluate()
    """)
    assert "warning: 'allreduce.loss' (allreduce float32[3]) has been waited for" in said
    assert "The job ends: HORA_MISSING_TIMEOUT is 2 s" in said
    error = said.split("hora._errors.HoraInternalError: ")[-1]
    assert re.search(
        r"rank 0 asked for it; missing:\n +rank 1 \(pid \d+ on .*\)\. It lives; it (has )?finished", error
    ), said
    place = (
        r"<string>:\d+ in evaluate, called from <string>:\d+ in <module>, ready_server\.py:\d+ in <module>"
    )
    assert re.search(rf"main thread is at {place}\n", error), said


@pytest.mark.long
def test_a_rank_that_does_not_come_to_backward_of_ddp():
    said = fail("""
        import torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        layers = torch.nn.Linear(4, 3), torch.nn.Linear(3, 1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
        model.register_comm_hook(model, hora.torch.distributed.ddp_hook)
        for epoch in range(3):
            if epoch == 2 and dist.get_rank() == 1:
                busy()
            model(torch.ones(2, 4)).sum().backward()
    """)
    # The optimizer of `net` has the label gradient.0.
    assert re.search(
        r"warning: 'allreduce\.gradient\.1\.1\.bias\.\.0\.weight' .* has been waited for", said
    ), said
    assert "missing:\n  rank 1 (" in said
    assert " in busy, called from " in said
    assert "HoraInternalError: 'allreduce.gradient.1.1.bias..0.weight' " in said, said


@pytest.mark.long
def test_a_backward_that_one_rank_leaves_out():
    said = fail("""
        for epoch in range(5):
            if epoch == 3 and hvd.rank() == 1:
                busy()
            step()
    """)
    assert re.search(r"'\S*(weight|bias)' \(allreduce float32\[\d+(,\d+)?\], step 4\)", said), said
    assert (
        "missing:\n  rank 1 (" in said
        and "It lives; it finished '" in said
        and " in busy, called from " in said
    )


def test_one_batch_less_on_one_rank():
    said = fail("""
        for batch in range(5 - hvd.rank()):
            step()
    """)
    assert re.search(r"'\S*(weight|bias)': rank 1 has left the job without submitting it", said), said


def test_other_code_on_one_rank():
    said = fail("""
        hvd.allreduce(torch.ones(3), name="a" if hvd.rank() == 0 else "b")
    """)
    assert "'allreduce.a' (allreduce float32[3]) has been waited for" in said
    assert "It waits itself, for 'allreduce.b', which others have not submitted" in said


def test_another_order_of_parameters_is_no_error():
    lines = run_ready(
        2,
        MODEL
        + """
    hvd.shutdown()
    hvd.init()
    layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    named = [(f"{i}.{name}", value) for i, layer in enumerate(layers) for name, value in layer.named_parameters()]
    if hvd.rank() == 1:
        named.reverse()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([value for _, value in named], 0.1), named)
    layers[1](layers[0](torch.ones(1, 2) * hvd.rank())).sum().backward()
    optimizer.step()
    print("done")
    """,
    )
    assert lines == [["done"], ["done"]]


@pytest.mark.long
def test_an_exception_that_one_rank_catches_and_goes_on():
    said = fail("""
        for batch in range(3):
            try:
                if batch == 1 and hvd.rank() == 1:
                    raise RuntimeError("a bad sample")
                step()
            except RuntimeError as error:
                if isinstance(error, hvd.HoraError):
                    raise
                busy()
    """)
    assert (
        "missing:\n  rank 1 (" in said
        and "It lives; it finished '" in said
        and " in busy, called from " in said
    )


@pytest.mark.long
def test_a_checkpoint_can_be_written_after_the_error(tmp_path: pathlib.Path):
    said = fail(f"""
        step()
        try:
            if hvd.rank() == 1:
                time.sleep(3)
            step()
        except hvd.HoraInternalError:
            torch.save(net.state_dict(), "{tmp_path}/{{}}.pt".format(hvd.rank()))
            raise
    """)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.pt", "1.pt"], said


@pytest.mark.long
def test_who_expects_to_be_busy_is_not_missed():
    lines = run_ready(
        2,
        MODEL
        + """
    step()
    if hvd.rank() == 1:
        with hvd.expect_delay("evaluation", seconds=30):
            time.sleep(3)
    step()
    print("done")
    """,
        environment=SHORT_LIMITS,
    )
    assert lines == [["done"], ["done"]]


@pytest.mark.parametrize("seconds", ["0", "-1", "float('nan')", "1e300"])
def test_a_delay_that_makes_no_sense_is_refused(seconds: str):
    program = f"""
        import hora
        hora.init()
        try:
            with hora.expect_delay("evaluation", {seconds}):
                pass
        except ValueError as error:
            print(error)
    """
    [[said]] = run_python(1, program)
    assert said.startswith("expect_delay('evaluation') takes a time of more than 0 and up to 2592000 s, not ")


def test_who_holds_the_others_up_is_named():
    program = textwrap.dedent(MODEL) + textwrap.dedent("""
        for batch in range(25):
            if hvd.rank() == 2:
                time.sleep(0.05)
            step()
    """)
    result = hrun("-np", "3", *ready_python(), "-c", program)
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if "holds the others up" in line]
    found = re.search(
        r"rank 0 warning: rank 2 \(pid \d+ on \S+\) holds the others up: in \d+ of the last 20 steps it was the last, and they waited ([\d.]+) ms",
        line,
    )
    assert found and float(found[1]) >= 45, line
