# SPDX-License-Identifier: Apache-2.0
"""The scripts in examples/horovod, which import horovod.torch, train on Hora as they are."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from listed_output import check_output  # noqa: E402
from ranks import HRUN, ROOT, environment_with, hrun  # noqa: E402

FOLDER = ROOT / "examples/horovod"
SCRIPTS = ["elastic_images", "elastic_synthetic", "image_classification", "language_model", "two_models"]


def run_script(name: str, ranks: int, *arguments: str) -> str:
    result = hrun("--horovod", "-np", str(ranks), sys.executable, str(FOLDER / f"{name}.py"), *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def figures(name: str, printed: str) -> list[float]:
    """Each number after this word."""
    return [float(number) for number in re.findall(rf"{name} ([0-9.]+)", printed)]


def test_every_script_is_tested():
    assert sorted(SCRIPTS) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 4])
def test_images_are_classified(ranks: int):
    printed = run_script("image_classification", ranks)
    assert figures("test accuracy", printed)[-1] >= 0.9
    assert f"the parameters are equal on all {ranks} ranks" in printed


@pytest.mark.long
def test_images_are_classified_from_a_checkpoint_as_without_a_break(tmp_path: pathlib.Path):
    """A resumed run trains the same model as the whole run, to the last digit: momentum and all."""
    checkpoints = ["--checkpoint-format", str(tmp_path / "{epoch}.pt")]
    whole = run_script("image_classification", 2, *checkpoints)
    check_output(FOLDER / "image_classification.py", whole)
    assert figures("test accuracy", whole)[-1] >= 0.9
    for epoch in (4, 5):
        (tmp_path / f"{epoch}.pt").unlink()
    resumed = run_script("image_classification", 2, *checkpoints)
    assert "training on 2 ranks from epoch 3 on" in resumed
    for figure in ("train loss", "train accuracy"):
        assert figures(figure, resumed) == figures(figure, whole)[3:]


@pytest.mark.long
def test_a_language_model_learns_alike_on_1_2_and_4_ranks_and_with_sparse_or_dense_gradients():
    """Every step has 8 batches, on one rank or on several: only the order of additions differs, by 6e-8
    each."""
    losses = []
    for ranks in (1, 2, 4):
        printed = run_script("language_model", ranks, "--backward-passes-per-step", str(8 // ranks))
        assert f"the parameters are equal on all {ranks} ranks" in printed
        losses.append(figures("loss", printed))
    dense = run_script("language_model", 2, "--sparse-as-dense")
    check_output(FOLDER / "language_model.py", dense)
    losses.append(figures("loss", dense))
    assert losses[0][-1] < losses[0][0] - 1
    for other in losses[1:]:
        assert other == pytest.approx(losses[0], rel=1e-4)  # of what is printed


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_two_models_train_at_the_same_time_on_process_sets_of_their_own(ranks: int):
    printed = run_script("two_models", ranks)
    if ranks == 2:
        check_output(FOLDER / "two_models.py", printed)
    halves, together = figures("loss [0-9.]+  accuracy", printed), figures("together accuracy", printed)
    assert len(halves) == 2 and together[0] > max(halves)
    assert "the parameters are equal on the ranks of each set" in printed


def run_and_kill(name: str, rank: int, after: str, *words: str) -> tuple[str, str]:
    """Runs an elastic script on three ranks, and kills one of them after this line. Returns stdout, where the
    labels of other processes that have become rank 0 are "[0]", and stderr."""
    command = [HRUN, "--horovod", "-np", "3", "--min-np", "1", *words, sys.executable, FOLDER / f"{name}.py"]
    job = subprocess.Popen(
        command, env=environment_with({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    printed = ""
    while after not in printed:
        line = job.stdout.readline()
        assert line, job.communicate()
        printed += line
    children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    [victim] = [
        int(child)
        for child in children
        if f"\0HORA_RANK={rank}\0" in pathlib.Path(f"/proc/{child}/environ").read_text()
    ]
    os.kill(victim, signal.SIGKILL)
    rest, errors = job.communicate(timeout=60)
    assert job.returncode == 0, errors
    assert f"hrun: rank {rank} (pid {victim}) was killed by signal 9 (Killed); the job goes on" in errors
    return re.sub(r"^\[[0-9]\]", "[0]", printed + rest, flags=re.MULTILINE), errors


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 2])
def test_images_are_classified_although_a_rank_is_killed(rank: int):
    printed, errors = run_and_kill("elastic_images", rank, "epoch 0 ")
    check_output(FOLDER / "elastic_images.py", printed)
    assert [int(epoch) for epoch in re.findall(r"epoch ([0-9]+) ", printed)] == [0, 1, 2, 3, 4]
    assert figures("test accuracy", printed)[-1] >= 0.8
    assert "HOROVOD_" not in errors


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_benchmark_ends_although_a_rank_is_killed(rank: int):
    printed, _ = run_and_kill("elastic_synthetic", rank, "iteration 1:", "--max-replacements", "0")
    check_output(FOLDER / "elastic_synthetic.py", printed)
    assert [int(number) for number in re.findall(r"iteration ([0-9]+):", printed)] == [0, 1, 2, 3, 4]
    assert "images/s in all on 2 ranks" in printed
