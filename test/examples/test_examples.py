# SPDX-License-Identifier: Apache-2.0
"""Every example prints what its first lines say."""

import pathlib
import re
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from listed_output import check_output  # noqa: E402
from ranks import ROOT, hrun  # noqa: E402

EXAMPLES = {
    "01_hello.cc": [str(ROOT / "build/default/bin/hello")],
    "02_hello.py": [sys.executable, "examples/02_hello.py"],
    "03_digits.cc": [str(ROOT / "build/default/bin/digits")],
    "04_digits.py": [sys.executable, "examples/04_digits.py"],
    "05_hello.c": [str(ROOT / "build/default/bin/hello_c")],
    "06_hello.f90": [str(ROOT / "build/default/bin/hello_f")],
}


def test_every_example_is_tested():
    assert sorted(EXAMPLES) == sorted(path.name for path in (ROOT / "examples").glob("[0-9]*"))


# An example of LibTorch and its twin in Python.
DIGITS = [pytest.param("03_digits.cc", marks=pytest.mark.libtorch), "04_digits.py"]


@pytest.mark.long
@pytest.mark.parametrize("name", [*sorted(EXAMPLES.keys() - {"03_digits.cc", "04_digits.py"}), *DIGITS])
def test_example_prints_what_it_says(name: str):
    is_built = (ROOT / "build/default/bin/hello_f").exists()
    if name.endswith(".f90") and not is_built and shutil.which("gfortran") is None:
        pytest.skip("needs gfortran: test/packages.txt lists it")
    result = hrun("-np", "2", *EXAMPLES[name])
    assert result.returncode == 0, result.stdout + result.stderr
    check_output(ROOT / "examples" / name, result.stdout)


@pytest.mark.long
@pytest.mark.parametrize("name", DIGITS)
@pytest.mark.parametrize("compression", ["none", "fp16", "bf16"])
def test_digits_are_learned(name: str, compression: str):
    result = hrun("-np", "2", *EXAMPLES[name], "--compression", compression)
    accuracy = re.search(r"held-out accuracy ([0-9.]+)", result.stdout)
    assert accuracy, result.stdout + result.stderr
    assert float(accuracy[1]) >= 0.95
    assert "parameters are equal on all 2 ranks" in result.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", DIGITS)
def test_two_ranks_learn_like_one_with_the_whole_batch(name: str, tmp_path: pathlib.Path):
    losses = []
    for ranks, batch in ((1, 32), (2, 16)):
        file = tmp_path / f"losses{ranks}"
        result = hrun(
            "-np", str(ranks), *EXAMPLES[name], "--epochs", "2", "--batch", str(batch), "--losses", str(file)
        )
        assert result.returncode == 0, result.stdout + result.stderr
        losses.append([float(line) for line in file.read_text().split()])
    assert len(losses[0]) == len(losses[1]) >= 50
    for one, two in zip(losses[0][:50], losses[1][:50], strict=True):
        assert two == pytest.approx(one, rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", DIGITS)
def test_a_checkpoint_can_be_resumed(name: str, tmp_path: pathlib.Path):
    checkpoint = str(tmp_path / "checkpoint")
    first = hrun("-np", "2", *EXAMPLES[name], "--checkpoint", checkpoint)
    assert first.returncode == 0, first.stderr
    second = hrun("-np", "2", *EXAMPLES[name], "--resume", checkpoint, "--epochs", "1")
    assert second.returncode == 0, second.stderr
    loss = re.search(r"epoch  1/1  loss ([0-9.]+)", second.stdout)
    assert loss
    assert float(loss[1]) < 0.2


@pytest.mark.long
@pytest.mark.parametrize("name", DIGITS)
def test_wrong_flags_are_refused(name: str):
    result = hrun("-np", "1", *EXAMPLES[name], "--epoch-count", "2")
    assert result.returncode == 2
    assert "usage" in result.stderr
