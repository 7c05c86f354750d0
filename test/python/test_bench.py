# SPDX-License-Identifier: Apache-2.0
"""The benchmark plan: that ./dev bench runs, checks results, and judges figures; not how fast anything is."""

import copy
import dataclasses
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bench.plan import (  # noqa: E402
    figures,
    gradients,
    interleave,
    main,
    page,
    recovery,
    runs,
    sizes,
    table,
    targets,
    trainings,
)
from bench.plan.ranks import recovering  # noqa: E402

PUBLISHED = {
    "ResNet-50": (161, 25_557_032),
    "VGG16": (32, 138_357_544),
    "BERT-base": (199, 109_482_240),
    "BERT-large": (391, 335_141_888),
    "GPT-2": (148, 124_439_808),
}


@pytest.mark.parametrize("model", gradients.MODELS)
def test_gradient_lists_have_as_many_tensors_and_parameters_as_the_models(model: str):
    counts = gradients.MODELS[model]()
    assert (len(counts), sum(counts)) == PUBLISHED[model]


def figure(*blocks: float) -> figures.Figure:
    return figures.Figure(list(blocks))


def comparison(ours: float, limit: float | None = None, **peers: float) -> targets.Comparison:
    return targets.Comparison(
        "1 MiB",
        {},
        figure(ours),
        {name: figure(time) for name, time in peers.items()},
        figure(limit) if limit else None,
    )


def test_a_peer_target_is_met_by_the_fastest_peer_alone():
    target = targets.times(3)
    assert target.verdict(comparison(10, mpi=31, gloo=100)).met is True
    assert target.verdict(comparison(10, mpi=29, gloo=100)).met is False
    assert target.verdict(comparison(10)).met is None
    assert targets.times(3, "gloo").verdict(comparison(10, mpi=29, gloo=100)).met is True


def test_a_peer_target_counts_as_met_at_the_limit():
    target = targets.times(3, or_limit=0.85)
    assert target.verdict(comparison(10, limit=8.6, mpi=20)).met is True
    assert target.verdict(comparison(10, limit=8.4, mpi=20)).met is False


def test_a_ratio_tells_the_least_and_the_most_of_its_blocks():
    found = figures.ratio(figure(20, 30, 60), figure(10, 10, 15))
    assert found == figures.Ratio(3.0, 2.0, 4.0)


def test_a_difference_that_is_lost_in_noise_has_no_ratio():
    target = targets.times(3)
    assert target.verdict(comparison(-1, mpi=10)).met is True
    assert target.verdict(comparison(10, mpi=-1)).met is None
    assert figures.ratio(figure(10), figure(-1)) is None


def test_sizes_are_read_as_they_are_written():
    for size in (8, 1000, 4096, 1 << 20, 3 << 20):
        assert sizes.size_of(sizes.named(size)) == size
    assert sizes.size_of("hot, 64 KiB") == 65536
    assert sizes.size_of("ResNet-50") is None


def test_every_row_of_the_plan_can_be_planned():
    for settings in (table.Settings(), table.Settings(quick=True)):
        for key in table.MODULES:
            row = table.row(key)
            assert row.key == key
            planned = {experiment.key for experiment in row.experiments(settings)}
            assert planned <= {view.experiment for view in row.views()}


def test_a_text_chooses_experiments_of_a_row_by_their_names():
    rows = [table.row("b6"), table.row("b13")]
    chosen = main.planned(rows, table.Settings(), "BERT-base")
    assert [experiment.key for experiment in chosen] == [
        "list, BERT-base",
        "backward, BERT-base",
        "overlap, BERT-base",
    ]
    assert len(main.planned(rows, table.Settings(), "")) > 3
    with pytest.raises(
        ValueError, match="no experiment has 'LeNet' in its name; there are: list, ResNet-50;"
    ):
        main.planned(rows, table.Settings(), "LeNet")


def test_a_kill_costs_the_time_until_a_step_counts_without_the_lost_rank():
    def steps(*milliseconds: int) -> list[recovery.Commit]:
        return [
            recovery.Commit(at * 10**6, number + 1, 3 if number < 4 else 2)
            for number, at in enumerate(milliseconds)
        ]

    # Step 3 counted before the kill on one rank, and step 4 with what the lost rank had sent before. A normal
    # step takes 10 ms.
    commits = {71: steps(10, 20, 30, 40, 85, 95), 72: steps(10, 20, 31, 41, 90, 100), 73: steps(10, 20)}
    assert recovery.stand_stills(commits, {30_500_000: 73}) == [90 - 31 - 2 * 10]
    again = [recovery.Commit(one.at + 70 * 10**6, one.step + 3, 3) for one in steps(10, 20)]
    restarted = {71: steps(10, 20, 30), 73: steps(10, 20, 30), 74: again, 75: again}
    assert recovery.stand_stills(restarted, {30_500_000: 73}) == [80 - 30 - 10]


def test_each_kill_has_a_job_of_its_own_where_ranks_are_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
):
    jobs: list[int] = []

    def times(self: recovery.RecoveryJob, kills: int, *_: object) -> list[float]:
        jobs.append(kills)
        return [10.0] * kills

    monkeypatch.setattr(recovery.RecoveryJob, "_times", times)
    monkeypatch.setattr(recovery, "log_of", lambda name: tmp_path / name)
    assert recovery.RecoveryJob("name", "hora", 3).run() == {"kill": {"name": figures.Sample(10, 10, 10)}}
    assert recovery.RecoveryJob("name", "reconfigured", 3).run().keys() == {"kill"}
    assert jobs == [3, 1, 1, 1]


def test_each_training_in_which_ranks_are_killed_can_be_started():
    planned = {job.library for job in table.row("b17").experiments(table.Settings())[0].jobs}
    assert planned == trainings.TRAININGS.keys() == recovering.TRAININGS.keys()


class Weather:
    """A job whose processors move away for a while."""

    name = "weather"

    def __init__(self) -> None:
        self.runs = 0

    def missing(self) -> None:
        return None

    def run(self) -> figures.Samples:
        self.runs += 1
        return {"case": {"weather": figures.Sample(float(self.runs))}}


def test_a_block_is_made_again_if_the_machine_changed_meanwhile(monkeypatch: pytest.MonkeyPatch):
    distances = iter([1.0, 5.0, 1.0, 1.2])
    monkeypatch.setattr(interleave.machine, "fingerprint", lambda: {"round_trip_us": next(distances)})
    first, second = Weather(), Weather()
    result = interleave.measure(interleave.Experiment("key", "title", [first, second]), 1, lambda text: None)
    assert (first.runs, result.redone, result.unlike) == (2, 1, 0)
    assert result.cases["case"]["weather"].blocks == [2.0, 2.0]


class Broken(Weather):
    name = "broken"

    def run(self) -> figures.Samples:
        raise interleave.JobFailed("it fell over")


def test_a_contender_that_fails_is_told_of_and_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interleave.machine, "fingerprint", lambda: {"round_trip_us": 1.0})
    result = interleave.measure(
        interleave.Experiment("key", "title", [Broken(), Weather()]), 2, lambda text: None
    )
    assert result.missing == {"broken": "it fell over"}
    assert result.cases["case"]["weather"].blocks == [1.0, 2.0]


@pytest.mark.long
def test_a_quick_run_writes_figures_and_a_page_that_can_be_written_again(tmp_path: pathlib.Path):
    arguments = ["--quick", "--blocks", "1", "--no-peers", "--output", str(tmp_path)]
    assert main.run(main.parse([*arguments, "b1", "b16"])) == 0
    results = next((tmp_path / "results").iterdir())
    saved = json.loads(results.read_text())
    assert saved["rows"] == ["b1", "b16"]
    assert {"hora arena", "limit"} <= saved["experiments"]["plane, 2 ranks"]["cases"]["8 B"].keys()
    assert saved["experiments"]["broadcast, ResNet-50, 2"]["cases"]["ResNet-50"].keys() >= {"hora", "gloo"}
    written = (tmp_path / "RESULTS.md").read_text()
    assert "## B1: " in written and "## B16: " in written and "quick run" in written
    (tmp_path / "RESULTS.md").unlink()
    assert main.run(main.parse([*arguments, "--page"])) == 0
    assert (tmp_path / "RESULTS.md").read_text() == written


MACHINE = {
    "cpu": "Some(R) CPU",
    "processors": 2,
    "memory_gib": 24,
    "kernel": "6",
    "load_before": 0.0,
    "load_after": 0.0,
    "versions": {"Hora": "1"},
}


def a_run(file: str, date: str, rows: list[str], experiments: list[str]) -> runs.Run:
    results = {
        key: dataclasses.asdict(figures.Result(file, "us", {"8 B": {"hora arena": figure(1.0)}}))
        for key in experiments
    }
    return runs.Run(
        pathlib.Path(file),
        {"date": date, "quick": False, "blocks": 5, "rows": rows, "machine": MACHINE, "experiments": results},
    )


def test_the_page_shows_each_row_as_it_was_measured_last(tmp_path: pathlib.Path):
    older = a_run("older.json", "2026-01-01", ["b1", "b4"], ["plane, 2 ranks", "plane, 4 ranks"])
    newer = a_run("newer.json", "2026-02-01", ["b4", "b9"], ["plane, 4 ranks"])
    for run in (older, newer):
        runs.write(dataclasses.replace(run, file=tmp_path / run.file))
    chosen = runs.newest_of_rows(runs.kept(tmp_path, quick=False))
    assert {key: run.file.name for key, run in chosen.items()} == {
        "b1": "older.json",
        "b4": "newer.json",
        "b9": "newer.json",
    }
    written = page.text_of(chosen, {"newer.json": {"plane, 4 ranks": "four.svg"}})
    assert "[2026-02-01](results/newer.json) | B4, B9 | Some CPU" in written
    assert "![newer.json](plots/four.svg)" in written
    assert runs.kept(tmp_path, quick=True) == []


def test_rows_are_added_to_an_earlier_run_that_they_can_be_compared_with(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(main.machine, "described", lambda: copy.deepcopy(MACHINE))
    before = main.begin(["b1", "b3"], table.Settings(quick=True), 2)
    before["experiments"] = {"plane, 2 ranks": "kept"}
    before["machine"]["versions"]["Hora"] = "older"
    now = main.begin(["b16", "b3"], table.Settings(quick=True), 2)
    both = main.added(now, before)
    assert both["rows"] == ["b1", "b3", "b16"]
    assert both["experiments"] == {"plane, 2 ranks": "kept"}
    assert both["machine"]["versions"]["Hora"] == "older, 1"
    with pytest.raises(ValueError, match="another number of blocks: 2, not 5"):
        main.added(main.begin(["b16"], table.Settings(quick=True), 5), before)


def test_wrong_results_are_told_of_on_the_page():
    assert page.written(figures.Figure([1.0], wrong=3), "us") == "1 us **(3 wrong)**"


def test_unknown_rows_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main.parse(["b77"])
    assert "there is no row b77" in capsys.readouterr().err


def test_a_run_is_kept_with_a_line_for_each_figure(tmp_path: pathlib.Path):
    result = figures.Result("sums", "us", {"1 MiB": {"hora": figure(1.5, 1 / 3), "gloo": figure(2.0, 3.0)}})
    saved = {
        "date": "2026-01-02",
        "rows": ["b1"],
        "machine": {},
        "experiments": {"sums": dataclasses.asdict(result)},
    }
    run = runs.Run(tmp_path / "run.json", saved)
    runs.write(run)
    assert '"hora": {"blocks": [1.5, 0.333333], ' in run.file.read_text()
    assert len([line for line in run.file.read_text().splitlines() if "blocks" in line]) == 2
    assert runs.read(run.file).saved["experiments"]["sums"]["cases"]["1 MiB"]["gloo"]["blocks"] == [2, 3]
