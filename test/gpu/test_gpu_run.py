# SPDX-License-Identifier: Apache-2.0
"""test/gpu/run itself, without a GPU."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "programs")]

from models import KNOWN, gradients  # noqa: E402
from parts.figures import Check, Figure, Findings, as_json, as_markdown, merged, read  # noqa: E402
from parts.parts import Part, carry_out  # noqa: E402
from parts.predictions import predicted  # noqa: E402
from parts.processes import run  # noqa: E402

MACHINE = {"device": "a GPU", "date": "today"}


def test_aims_count_as_they_are_meant():
    assert Figure("a", 95, "GB/s", limit=100, limit_is="copy", of_limit=0.9).verdict() == "ok"
    assert Figure("a", 85, "GB/s", limit=100, limit_is="copy", of_limit=0.9).verdict() == "short"
    assert Figure("a", 95, "GB/s", limit=100, of_limit=0.9, peer=100, of_peer=1.0).verdict() == "short"
    assert Figure("a", 10, "us", lower=True, peer=30, of_peer=3.0).verdict() == "ok"
    assert Figure("a", -1, "us", lower=True, peer=30, of_peer=1.0, most=10).verdict() == "ok"
    assert Figure("a", 25, "us", lower=True, most=20).verdict() == "short"
    assert Figure("a", 25, "us", lower=True).verdict() == ""


def test_lines_of_programs_are_read_also_behind_a_rank_and_wrong_ones_are_failures():
    said = """[1] CHECK {"name": "x", "ok": true}
CHECK {"name": "x", "ok": false, "text": "rank 0"}
FIGURE {"name": "f", "value": 1, "unit": "us"}
nothing
NOTE {"text": "n"}
FIGURE {"name": 1}
"""
    found = read(said)
    assert [figure.name for figure in found.figures] == ["f"] and found.notes == ["n"]
    checks = merged(found.checks)
    assert [(check.name, check.ok) for check in checks] == [
        ("x", False),
        ("a line that a program printed", False),
    ]
    assert "rank 0" in checks[0].text


def test_the_report_has_everything():
    found = Findings(
        [Figure("f", 1.5, "us", lower=True, most=2, note="see")], [Check("c", False, "why")], ["n"]
    )
    text = as_markdown(found, MACHINE, aims_count=True)
    for part in ("0 of 1 good", "FAILED", "why", "1.5 us", "<= 2", "ok", "f: see", "- n"):
        assert part in text
    assert '"verdict": "ok"' in as_json(found, MACHINE)


def test_a_program_that_hangs_is_stopped_with_what_it_has_started(tmp_path: pathlib.Path):
    ended = run(
        ["sh", "-c", "echo here; sleep 1000 & sleep 1000"], tmp_path / "log", 0.5, tmp_path, dict(os.environ)
    )
    assert ended.code is None and ended.output.startswith("here") and ended.seconds < 30


def test_parts_that_fail_hang_or_say_too_little_are_failures(tmp_path: pathlib.Path):
    def outcome(*commands: str, limit: float = 30, checks: int = 0) -> Check:
        part = Part("p", [["sh", "-c", command] for command in commands], limit, checks=checks)
        return carry_out(part, tmp_path / "log", limit, dict(os.environ)).checks[-1]

    assert outcome("true").ok
    assert not outcome("echo reason; exit 3", "true").ok and "reason" in outcome("echo reason; exit 3").text
    assert not outcome("sleep 100", limit=0.3).ok
    assert not outcome("true", checks=1).ok
    assert not outcome("/there/is/no/such/program").ok


BUILD = HERE.parents[1] / "build/default"


@pytest.mark.long
@pytest.mark.skipif(
    not (BUILD / "test/gpu_launch_times").exists(),
    reason="build/default has no gpu_launch_times: build it with CUDA's and NCCL's headers",
)
def test_parts_go_well_on_gpus_that_are_none(tmp_path: pathlib.Path):
    wanted = "operations on 2|killed rank of 2|shared|G1|G3|G4"
    command = [sys.executable, str(HERE / "run"), "--fake", "--only", wanted, "--results", str(tmp_path)]
    ended = subprocess.run(
        command,
        env={**os.environ, "TEST_GPU_BUILD": str(BUILD)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["machine"]["driver"] == "fake" and len(found["checks"]) > 40
    assert {figure["name"].split()[0] for figure in found["figures"]} >= {"G1", "G2", "G3", "G4", "exception"}
    assert "ok" in (tmp_path / "report.md").read_text()


def test_models_are_those_that_everybody_knows():
    for model in KNOWN:
        gradients(model)


def test_what_bytes_decide_is_predicted_within_a_fifth():
    """Of the runs that are kept. The least bytes that kernels have to move decide these figures."""
    for kept in (HERE / "results").glob("*/figures.json"):
        run_of = json.loads(kept.read_text())
        figures = {figure["name"]: figure["value"] for figure in run_of["figures"]}
        moves = [
            name
            for name in figures
            if name.startswith(("copy rate, plain", "G1 ", "G2 ")) and "both ways" not in name
        ]
        assert moves
        for name in moves:
            expected = predicted(run_of["machine"]["device"], name)
            assert expected is not None, name
            assert expected / 1.2 <= figures[name] <= expected * 1.2, (name, expected, figures[name])


def test_the_table_of_predictions_is_what_counting_gives():
    rows = re.findall(
        r"^\| ([^|]+) \| ([\d.]+) \S+ \| ([\d.]+) \S+ \| .* \|$", (HERE / "README.md").read_text(), re.M
    )
    assert len(rows) == 8
    for figure, *values in rows:
        for device, value in zip(("H100", "H200"), values, strict=True):
            assert predicted(device, figure) == pytest.approx(float(value), rel=5e-3), (device, figure)


def test_every_figure_that_counting_decides_has_a_prediction():
    assert predicted("NVIDIA H200", "G3 host time per batch, float32") == 16.0
    assert predicted("NVIDIA H200", "G7 staged allreduce, 16 MiB") is not None
    assert predicted("NVIDIA H200", "G4 added to ncclAllReduce, 4 KiB, one at a time") is not None
    assert predicted("NVIDIA H200", "G5 exposed time of a step") is None
    assert predicted("Fake GPU", "G1 pack ResNet-50") is None
