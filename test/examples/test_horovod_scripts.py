# SPDX-License-Identifier: Apache-2.0
"""The scripts in examples/horovod, which import horovod.torch, train on Hora as they are."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from listed_output import check_output  # noqa: E402
from ranks import ROOT, hrun  # noqa: E402

FOLDER = ROOT / "examples/horovod"
SCRIPTS = ["image_classification", "language_model", "two_models"]


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
