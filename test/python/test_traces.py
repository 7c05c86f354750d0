# SPDX-License-Identifier: Apache-2.0
"""The output for a user when a program's ranks do not do the same, or one fails: the cause, the own lines,
the remedy; and its length."""

import itertools
import json
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

import pytest
from ranks import hrun
from ready_ranks import ready_python

MOST_LINES = 25 + 2  # those of ready_server.py
# Triton 3.9, which PyTorch 2.15 brings, says at exit that it has leaked what ready_server.py has imported.
OF_TRITON = re.compile(r"^\[\d+\] *(nanobind: |- (leaked|\.\.\.) |See https://nanobind).*\n", re.MULTILINE)
FOLDED = re.compile(r"\(\d+ frames? of hora and torch; HORA_FULL_TRACES=1 shows them\)")
SHORT_LIMITS = {"HORA_MISSING_WARNING": "1", "HORA_MISSING_TIMEOUT": "2"}
PROGRAM = """
    import torch, hora.torch as hvd
    hvd.init()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters())

    def step():
        optimizer.zero_grad()
        loss = net(torch.ones(2, 4)).sum()
        loss.backward()  # as all do
        optimizer.step()
        return loss.detach()

    def train():
"""
# The mistake; of the program: its rest; of the summary: the hint, and the lines that it names, by their
# comments.
PITFALLS = {
    "one batch fewer": (
        """
        for batch in range(5 - (hvd.rank() == 1)):
            step()
    train()
    """,
        [
            "Did you mean hvd.join()? Rank 1 took fewer steps than others: call hvd.join()",
            "or backward() on all ranks",
        ],
        ["as all do"],
    ),
    "a backward() that is left out before the end": (
        """
        for batch in range(5):
            if hvd.rank() != 1 or batch != 3:
                step()
    train()
    """,
        ["Did you mean hvd.join()?", "or backward() on all ranks in every step"],
        ["as all do"],
    ),
    "a backward() that is left out before another operation": (
        """
        for batch in range(5):
            if hvd.rank() != 1 or batch != 3:
                step()
            hvd.allreduce(torch.ones(1), name="loss")  # goes on
    train()
    """,
        [
            "Rank 1 did not call backward() in this step, and went on: call backward() on all "
            "ranks in every step"
        ],
        ["as all do", "goes on"],
    ),
    "an operation that only rank 0 calls": (
        """
        for batch in range(5):
            loss = step()
            if hvd.rank() == 0 and batch == 2:
                hvd.allreduce(loss, name="loss")  # alone
    train()
    """,
        ["Only rank 0 called it; call it on all ranks, not inside `if hvd.rank() == 0`"],
        ["as all do", "alone"],
    ),
    "an operation that only rank 0 calls at the end": (
        """
        loss = step()
        if hvd.rank() == 0:
            hvd.allreduce(loss, name="loss")  # alone
    train()
    """,
        ["So far only rank 0 called it; call it on all ranks, not inside `if hvd.rank() == 0`"],
        ["alone"],
    ),
}


def write(path: pathlib.Path, program: str) -> pathlib.Path:
    path.write_text(textwrap.dedent(program))
    return path


def line_with(script: pathlib.Path, comment: str) -> str:
    (number,) = [number for number, line in enumerate(script.read_text().splitlines(), 1) if comment in line]
    return f"{script.name}:{number}"


def summary_of(errors: str) -> str:
    """The summary that hrun prints at the end, behind an empty line."""
    *_, summary = re.split(r"^\nhrun: ", errors, flags=re.MULTILINE)
    return summary


@pytest.mark.parametrize(("pitfall", "ranks"), list(zip(PITFALLS, itertools.cycle([2, 4]), strict=False)))
def test_a_pitfall_ends_with_its_cause_the_lines_of_the_program_and_the_remedy(
    pitfall: str, ranks: int, tmp_path: pathlib.Path
):
    body, hints, comments = PITFALLS[pitfall]
    script = write(tmp_path / "train.py", PROGRAM + body)
    result = hrun("-np", str(ranks), *ready_python(), str(script), environment=SHORT_LIMITS, seconds=60)
    assert result.returncode == 1
    said = OF_TRITON.sub("", result.stdout + result.stderr)
    assert len(said.splitlines()) <= MOST_LINES, said
    assert said.count("Traceback (most recent call last)") == 1 and len(FOLDED.findall(said)) == 1, said
    summary = summary_of(result.stderr)
    assert re.match(r"rank \d \(pid \d+\) failed first: it exited with code 1\n", summary), said
    assert "'gradient.0.0.weight'" in summary or "'allreduce.loss'" in summary, said
    for part in [*hints, *(f" at {line_with(script, comment)}" for comment in comments)]:
        assert part in summary, said
    told = re.findall(r"^hrun: ranks? ([\d, and-]+?) (?:at|exited)", summary, re.MULTILINE)
    assert sorted(rank for ranks_told in told for rank in listed(ranks_told)) == list(range(ranks)), said


def listed(ranks: str) -> list[int]:
    """The ranks of "0, 2-3" or "1 and 2"."""
    parts = [part.split("-") for part in re.split(", | and ", ranks)]
    return [rank for part in parts for rank in range(int(part[0]), int(part[-1]) + 1)]


def test_full_traces_are_printed_as_python_does_if_they_are_wanted(tmp_path: pathlib.Path):
    script = write(tmp_path / "train.py", PROGRAM + PITFALLS["one batch fewer"][0])
    result = hrun(
        "-np",
        "3",
        *ready_python(),
        str(script),
        environment={**SHORT_LIMITS, "HORA_FULL_TRACES": "1"},
        seconds=60,
    )
    for rank in (0, 2):
        own = "".join(
            line.removeprefix(f"[{rank}] ") + "\n"
            for line in result.stderr.splitlines()
            if line.startswith(f"[{rank}] ")
        )
        assert (
            "torch/autograd/__init__.py" in own
            and "hora/torch/_optimizer/rounds.py" in own
            and not FOLDED.search(own)
        ), result.stderr
    assert "means nothing" not in result.stderr
    assert f"ranks 0 and 2 at {line_with(script, 'as all do')} in step" in summary_of(result.stderr)


def test_files_have_the_trace_of_each_rank_and_the_summary_its_reason_and_place(tmp_path: pathlib.Path):
    script = write(tmp_path / "train.py", PROGRAM + PITFALLS["one batch fewer"][0])
    hrun(
        "-np",
        "3",
        "--output-filename",
        str(tmp_path / "out"),
        *ready_python(),
        str(script),
        environment=SHORT_LIMITS,
        seconds=60,
    )
    ranks = json.loads((tmp_path / "out/summary.json").read_text())["ranks"]
    for rank in (0, 2):
        kept = (tmp_path / f"out/rank.{rank}/stderr").read_text()
        assert kept.startswith("Traceback (most recent call last):\n") and FOLDED.search(kept)
        assert ranks[rank]["reason"].startswith(
            "HoraInternalError: 'gradient.0.0.weight': rank 1 has left the job"
        )
        assert ranks[rank]["where"].startswith(line_with(script, "as all do") + " in step, ")
        assert ranks[rank]["lines"]["stderr"] == len(kept.splitlines())
    assert (ranks[1]["reason"], ranks[1]["where"]) == (None, None)


# A program of one process that does not end well; of its stderr, what must be there, and what must not.
ALONE = {
    "of the program alone": ("raise ValueError('bad batch')", [], [FOLDED.pattern]),
    "of Hora": (
        "hora.broadcast(np.ones(1), root_rank=7)",
        [r"\(\d+ frames? of hora", "HoraArgumentError"],
        ["_arrays.py"],
    ),
    "after one of Hora": (
        "\ntry:\n    hora.broadcast(np.ones(1), root_rank=7)\nexcept ValueError as error:\n    raise "
        "KeyError('x') from error",
        [r"\(\d+ frames? of hora", "HoraArgumentError", "direct cause", "KeyError: 'x'"],
        ["_arrays.py"],
    ),
}


@pytest.mark.parametrize("kind", ALONE)
def test_an_exception_is_folded_only_where_hora_has_a_part_in_it(kind: str, tmp_path: pathlib.Path):
    ending, there, absent = ALONE[kind]
    script = write(tmp_path / "train.py", f"import hora, numpy as np\nhora.init()\n{ending}\n")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f'File "{script}", line ' in result.stderr
    for pattern in there:
        assert re.search(pattern, result.stderr), result.stderr
    for pattern in absent:
        assert not re.search(pattern, result.stderr), result.stderr


def test_an_exception_of_the_program_is_printed_to_the_letter_as_without_hora(tmp_path: pathlib.Path):
    body = "def load():\n    return {}['x' + 'y'] + 1\ntry:\n    load()\nexcept KeyError:\n    raise ValueError('bad batch')\n"
    script = tmp_path / "train.py"
    said = []
    for first in ("import math\n", "import hora\n"):
        script.write_text(first + body)
        said.append(
            subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False).stderr
        )
    assert said[0] == said[1]


def test_the_exception_keeps_its_whole_traceback_and_the_programs_hook_gets_it(tmp_path: pathlib.Path):
    script = write(
        tmp_path / "train.py",
        """
        import sys, traceback, hora, numpy as np
        def own(kind, value, trace):
            print("own hook:", [frame.name for frame in traceback.extract_tb(trace)], trace is value.__traceback__)
        before = sys.excepthook
        sys.excepthook = own
        hora.init()
        hora.broadcast(np.ones(1), root_rank=7)
        """,
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert re.match(r"own hook: \['<module>', 'broadcast', .*\] True\n", result.stdout), result.stdout
    assert "Traceback" not in result.stderr


def test_the_first_cause_is_told_with_its_reason_though_others_fail_of_it(tmp_path: pathlib.Path):
    script = write(
        tmp_path / "train.py",
        PROGRAM
        + """
        for batch in range(5):
            if batch == 3 and hvd.rank() == 2:
                raise ValueError("bad batch")  # the cause
            step()
    train()
    """,
    )
    result = hrun("-np", "4", *ready_python(), str(script), environment=SHORT_LIMITS, seconds=60)
    summary = summary_of(result.stderr)
    assert re.match(
        r"rank 2 \(pid \d+\) failed first: it exited with code 1\nhrun: ValueError: bad batch\nhrun: rank 2 at train.py",
        summary,
    ), result.stderr
    assert f"hrun: rank 2 at {line_with(script, 'the cause')} in train, " in summary
    assert "[2] ValueError: bad batch\n" in result.stderr


def test_a_trace_goes_where_the_rank_sends_its_stderr(tmp_path: pathlib.Path):
    script = write(tmp_path / "train.py", PROGRAM + PITFALLS["one batch fewer"][0])
    command = f"exec {shlex.join(ready_python())} {script} 2>{tmp_path}/$HORA_RANK.log"
    result = hrun("-np", "2", "sh", "-c", command, environment=SHORT_LIMITS, seconds=60)
    assert "Traceback" in (tmp_path / "0.log").read_text()
    assert "Traceback" not in result.stderr
    assert f"hrun: rank 0 at {line_with(script, 'as all do')} in step" in summary_of(result.stderr)


def test_a_job_that_fails_while_all_ranks_end_well_says_so(tmp_path: pathlib.Path):
    script = write(
        tmp_path / "train.py",
        PROGRAM
        + """
        if hvd.rank() == 0:
            hvd.allreduce(torch.ones(1), name="loss")
        else:
            step()
    try:
        train()
    except hvd.HoraError:
        pass
    """,
    )
    result = hrun("-np", "2", *ready_python(), str(script), environment=SHORT_LIMITS, seconds=60)
    assert result.returncode == 0
    assert (
        "\nhrun: the job failed, and all ranks ended well: 'allreduce.loss' (allreduce "
        "float32[1]) has been waited for" in result.stderr
    )
