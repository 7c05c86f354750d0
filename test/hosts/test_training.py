# SPDX-License-Identifier: Apache-2.0
"""Digits, in C++ and in Python, learn the same on two hosts as on one and alone."""

import pathlib
import sys

import pytest
from launch import DIGITS, ROOT, hrun
from machines import Cluster, Host

TWINS = {"C++": [DIGITS], "Python": [sys.executable, ROOT / "examples/04_digits.py"]}
BATCH = 256  # images in a step, on all ranks together
TWO_HOSTS = ("-np", "8", "-H", "a:4,b:4")

Learned = tuple[bytes, list[float]]  # the checkpoint at the end, and the loss of every step


@pytest.fixture(params=[pytest.param("C++", marks=pytest.mark.libtorch), "Python"])
def twin(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def train(on: Host, folder: pathlib.Path, twin: str, *flags: str, ranks: int = 8) -> Learned:
    """Runs in a folder of its own: a checkpoint contains its file's name."""
    folder.mkdir()
    output = ["--checkpoint", folder / "net.pt", "--losses", folder / "losses"]
    result = hrun(
        on, *flags, *TWINS[twin], "--epochs", "2", "--batch", str(BATCH // ranks), *output, seconds=300
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    assert f"[0] parameters are equal on all {ranks} ranks\n" in result.stdout
    return (folder / "net.pt").read_bytes(), [float(line) for line in (folder / "losses").read_text().split()]


@pytest.mark.long
def test_two_runs_on_two_hosts_are_equal_and_learn_what_one_rank_does(
    hosts: Cluster, tmp_path: pathlib.Path, twin: str
):
    first = train(hosts["a"], tmp_path / "first", twin, *TWO_HOSTS)
    assert train(hosts["a"], tmp_path / "second", twin, *TWO_HOSTS) == first
    alone = train(hosts["a"], tmp_path / "alone", twin, "-np", "1", ranks=1)
    assert len(first[1]) == 2 * (1437 // BATCH)
    assert first[1] == pytest.approx(alone[1], rel=1e-5)


@pytest.mark.libtorch
@pytest.mark.long
def test_two_hosts_learn_what_one_host_does(hosts: Cluster, tmp_path: pathlib.Path):
    apart = train(hosts["a"], tmp_path / "apart", "C++", *TWO_HOSTS)
    together = train(hosts["a"], tmp_path / "together", "C++", "-np", "8", "-H", "a:8")
    assert apart[1] == pytest.approx(together[1], rel=1e-5)


@pytest.mark.libtorch
@pytest.mark.long
def test_deterministic_sums_do_not_depend_on_what_travels_together(hosts: Cluster, tmp_path: pathlib.Path):
    runs = [
        train(
            hosts["a"],
            tmp_path / threshold,
            "C++",
            *TWO_HOSTS,
            "-x",
            "HORA_DETERMINISTIC=1",
            "-x",
            f"HORA_FUSION_THRESHOLD={threshold}",
        )
        for threshold in ("1", "5000", "67108864")
    ]
    assert runs[1] == runs[0]
    assert runs[2] == runs[0]
