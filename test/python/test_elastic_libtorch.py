# SPDX-License-Identifier: Apache-2.0
"""hora::elastic::Training, the loop of C++ programs, under hrun."""

import itertools
import pathlib
import random
import signal
import subprocess

import pytest
from ranks import ROOT, hrun
from test_elastic_training import audit_lines, check_audit, printed, results

pytestmark = pytest.mark.libtorch
WORKER = str(ROOT / "build/default/test/training_worker")
STEPS = 15


def train(
    ranks: int, *words: str, deaths: str = "", folder: pathlib.Path | None = None, waits: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    audit = "" if folder is None else str(folder)
    return hrun("-np", str(ranks), *words, WORKER, deaths, audit, *waits, seconds=60)


@pytest.fixture(scope="module")
def alone() -> list[float]:
    numbers = results(train(1), 1)
    assert numbers[0] == STEPS
    assert numbers[4] == pytest.approx(0.05 * 0.5**3), "the learning rate"
    return numbers


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_ranks_train_as_one_process_does(ranks: int, alone: list[float], tmp_path: pathlib.Path):
    assert results(train(ranks, folder=tmp_path), ranks) == pytest.approx(alone, rel=1e-9)
    check_audit(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("place", ["forward", "backward", "step", "evaluate", "epoch"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_that_dies_changes_nothing(rank: int, place: str, alone: list[float], tmp_path: pathlib.Path):
    steps = 5 if place in ("evaluate", "epoch") else 7
    words = ("--min-np", "1", "--max-replacements", "0")
    finished = train(3, *words, deaths=f"{rank}:{steps}:{place}:{signal.SIGKILL:d}", folder=tmp_path)
    assert "the job goes on with 2 of 3 ranks" in finished.stderr
    assert results(finished, 2) == pytest.approx(alone, rel=1e-9)
    check_audit(tmp_path)


@pytest.mark.long
def test_a_rank_that_is_replaced_changes_nothing(alone: list[float], tmp_path: pathlib.Path):
    for rank in (0, 2):
        folder = tmp_path / str(rank)
        deaths = f"{rank}:3:backward:{signal.SIGKILL:d},1:5:backward:{signal.SIGKILL:d}"  # also as it joins
        finished = train(3, "--min-np", "1", deaths=deaths, folder=folder, waits=("5", "8"))
        assert f"rank {rank} (pid " in finished.stderr and " has joined; the job goes on" in finished.stderr
        assert results(finished, 3) == pytest.approx(alone, rel=1e-9)
        check_audit(folder)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["-1", "-2"], ids=["gradients alone change it", "a parameter follows another"]
)
def test_a_rank_that_gets_a_large_state_takes_part_in_steps_meanwhile(kind: str):
    alone = results(train(1, waits=(kind,)), 1)
    deaths = f"2:3:backward:{signal.SIGKILL:d}"
    finished = train(3, "--min-np", "1", deaths=deaths, waits=(kind, "6"))
    assert " has joined; the job goes on with 3 of 3 ranks" in finished.stderr
    assert results(finished, 3) == pytest.approx(alone, rel=1e-9)


@pytest.mark.long
def test_a_large_state_that_the_first_step_makes_comes_too():
    alone = results(train(1, waits=("-1",)), 1)
    finished = train(3, "--min-np", "3", deaths=f"1:0:begin:{signal.SIGKILL:d}", waits=("-1",))
    assert "the job pauses with 2 of 3 ranks" in finished.stderr
    assert results(finished, 3) == pytest.approx(alone, rel=1e-9)


@pytest.mark.long
def test_a_rank_begins_anew_if_another_is_lost_while_it_gets_a_large_state():
    alone = results(train(1, waits=("-1",)), 1)
    deaths = f"2:3:backward:{signal.SIGKILL:d},0:7:backward:{signal.SIGKILL:d}"
    finished = train(3, "--min-np", "1", "--max-replacements", "1", deaths=deaths, waits=("-1", "6"))
    assert "the job goes on with 2 of 3 ranks (generation 4)" in finished.stderr
    assert results(finished, 2) == pytest.approx(alone, rel=1e-9)


@pytest.mark.long
def test_a_hot_spare_takes_the_samples_of_a_rank_that_dies(alone: list[float], tmp_path: pathlib.Path):
    words = ("--min-np", "1", "--spares", "1:hot", "--max-replacements", "0")
    deaths = f"1:7:backward:{signal.SIGKILL:d}"
    finished = train(2, *words, deaths=deaths, folder=tmp_path, waits=("3",))
    assert "the job goes on with 2 of 2 ranks and 1 hot spare (generation 2)" in finished.stderr
    assert "the job goes on with 2 of 2 ranks (generation 3)" in finished.stderr
    assert results(finished, 2) == pytest.approx(alone, rel=1e-9)
    check_audit(tmp_path)


@pytest.mark.long
def test_sigterm_makes_a_rank_leave_between_two_steps(alone: list[float], tmp_path: pathlib.Path):
    finished = train(3, "--min-np", "1", deaths=f"1:4:forward:{signal.SIGTERM:d}", folder=tmp_path)
    assert " has left; the job goes on with 2 of 3 ranks" in finished.stderr
    assert results(finished, 2) == pytest.approx(alone, rel=1e-9)
    check_audit(tmp_path)


@pytest.mark.long
def test_a_process_with_another_model_is_refused_alone(alone: list[float]):
    deaths = f"1:3:forward:{signal.SIGKILL:d}"
    finished = train(3, "--min-np", "1", "--max-replacements", "1", deaths=deaths, waits=("0", "5"))
    assert results(finished, 2) == pytest.approx(alone, rel=1e-9)
    assert "this process cannot join the job, which trains something else:" in finished.stderr
    assert "'model.first.weight' is float64[9,4], and float64[8,4] on rank 0" in finished.stderr


def replay(audit: pathlib.Path, folder: pathlib.Path) -> str:
    """The hash of the model if the same numbers of ranks make the same steps, and none is lost. Several jobs
    go on from each other's checkpoints."""
    ranks_in = sorted({line["step"]: line["ranks"] for line in audit_lines(audit)}.items())
    from_before: tuple[str, ...] = ()
    last = ""
    for ranks, steps in itertools.groupby(ranks_in, key=lambda step: step[1]):
        until = list(steps)[-1][0]
        checkpoint = str(folder / f"{until}.pt")
        waits = (*from_before, "--until", str(until), "--to", checkpoint)
        last = printed(train(ranks, waits=waits), ranks, "bits")
        from_before = ("--from", checkpoint)
    return last


def random_deaths(dice: random.Random, ranks: int) -> str:
    """Of one rank or more, by a kill or in order, but not of all. A rank that joins would have no samples in
    its first step, and so change the order of sums."""
    deaths = []
    for rank in dice.sample(range(ranks), dice.randrange(1, ranks)):
        place = dice.choice(["forward", "backward", "step", "evaluate", "epoch"])
        steps = dice.choice([5, 10]) if place in ("evaluate", "epoch") else dice.randrange(1, 14)
        kind = dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        deaths.append(f"{rank}:{steps}:{place}:{kind:d}")
    return ",".join(deaths)


@pytest.mark.long
def test_a_replay_of_a_training_that_lost_ranks_has_the_same_bits(
    pytestconfig: pytest.Config, tmp_path: pathlib.Path
):
    for seed in range(pytestconfig.getoption("replays")):
        folder = tmp_path / str(seed)
        dice = random.Random(seed)
        ranks = dice.choice([2, 3, 4])
        deaths = random_deaths(dice, ranks)
        finished = train(
            ranks, "--min-np", "1", "--max-replacements", "0", deaths=deaths, folder=folder / "audit"
        )
        left = finished.stdout.count("bits ")
        assert printed(finished, left, "bits") == replay(folder / "audit", folder), f"seed {seed}: {deaths}"
