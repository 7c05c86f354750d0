# SPDX-License-Identifier: Apache-2.0
"""The pairs in examples/moving: the script before, and the script after, print the same figures."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from listed_output import check_output  # noqa: E402
from ranks import ROOT, hrun  # noqa: E402

FOLDER = ROOT / "examples/moving"
PYTHON = [sys.executable]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
MPIRUN = ["mpirun", "--oversubscribe", "-np", "2", sys.executable]

needs_mpi4py = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed: the script before needs it"
)

PAIRS = {  # how the script before is started
    "amp": TORCHRUN,
    "data_parallel": PYTHON,
    "distributed_data_parallel": TORCHRUN,
    "evaluation": TORCHRUN,
    "mpi4py": MPIRUN,
    "spawn": PYTHON,
    "uneven": TORCHRUN,
}


# The exit codes of scripts with PyTorch's Gloo are not looked at, only what they printed. A thread of Gloo's
# that is slow to let go of a tensor, and does so when the interpreter has ended, aborts the process; by then
# all is done and printed.


def run_before(name: str) -> str:
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    script = FOLDER / f"{name}_before.py"
    result = subprocess.run(
        [*PAIRS[name], str(script)],
        env={**os.environ, **as_root},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    check_output(script, result.stdout + result.stderr)
    return result.stdout


def run_under_hrun(script: str, ranks: int = 2) -> str:
    """The output of rank 0."""
    result = hrun("-np", str(ranks), sys.executable, str(FOLDER / script))
    assert result.returncode == 0 or script.endswith("_before.py"), result.stdout + result.stderr
    return "".join(line.removeprefix("[0] ") for line in result.stdout.splitlines(keepends=True))


def run_after(name: str) -> str:
    printed = run_under_hrun(f"{name}_after.py")
    check_output(
        FOLDER / f"{name}_after.py", "".join(f"[0] {line}" for line in printed.splitlines(keepends=True))
    )
    return printed


def losses(printed: str) -> list[float]:
    return [float(line.split()[3]) for line in printed.splitlines()]


def test_every_pair_is_tested():
    scripts = {path.name for path in FOLDER.glob("*_*.py")}
    assert scripts == {f"{name}_{side}.py" for name in PAIRS for side in ("before", "after")}


# Half a sum and half another are added up on either side: two ranks round alike, so figures are equal to the
# last digit.
@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["amp", "evaluation", pytest.param("mpi4py", marks=needs_mpi4py), "spawn", "uneven"]
)
def test_the_script_after_prints_what_the_script_before_does(name: str):
    assert run_after(name) == run_before(name)


@pytest.mark.long
def test_a_script_for_torchrun_prints_the_same_under_hrun_and_after_the_move():
    name = "distributed_data_parallel"
    before = run_before(name)
    assert run_under_hrun(f"{name}_before.py") == before
    assert run_after(name) == before


@pytest.mark.long
def test_two_ranks_do_what_one_process_with_data_parallel_does():
    """A batch in two halves is added up in another order: 66 steps of float32 (6e-8) differ by less than
    1e-5."""
    before = run_before("data_parallel")
    assert run_under_hrun("data_parallel_after.py", ranks=1) == before
    assert losses(run_after("data_parallel")) == pytest.approx(losses(before), rel=1e-5)
