# SPDX-License-Identifier: Apache-2.0
"""The ways in which a program can end: a sample of the table, or, with FAULTS=all in the environment, the
whole of it, which is then written down in RESULTS.md."""

import json
import os
import pathlib
import sys

import endings_page
import pytest
from endings import RANKS, WITHIN, Cell, cells, matches, program
from ranks import HRUN, hrun

ALL = os.environ.get("FAULTS") == "all"
PROGRAM = pathlib.Path(HRUN).resolve().parents[1] / "test/ending_rank"

seen: dict[str, str] = {}


def command(cell: Cell, folder: pathlib.Path) -> list[str]:
    if not cell.ending.python:
        return [str(PROGRAM), cell.ending.name, str(cell.victim), "1" if cell.waited else "0"]
    script = folder / "program.py"
    script.write_text(program(cell))
    return [sys.executable, str(script)]


def first_causes(summary: dict[str, object]) -> list[int]:
    ranks = summary["ranks"]
    assert isinstance(ranks, list)
    return [rank["rank"] for rank in ranks if rank["first_cause"]]


@pytest.mark.parametrize("cell", cells(ALL), ids=lambda cell: cell.name)
def test_an_ending_is_told_and_blamed_on_its_rank_if_it_is_a_failure_and_else_is_none(
    cell: Cell, tmp_path: pathlib.Path
):
    environment = {
        "OMP_NUM_THREADS": "1",
        "HORA_DUMP_DIR": str(tmp_path / "dumps"),
        **({"HORA_CPU_OPERATIONS": "tcp"} if cell.plane == "tcp" else {}),
    }
    result = hrun(
        "-np",
        str(RANKS),
        "--output-filename",
        str(tmp_path / "out"),
        *command(cell, tmp_path),
        seconds=WITHIN,
        environment=environment,
    )
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    blamed = first_causes(summary)
    everything = f"{result.stdout}\n{result.stderr}\n{summary}"
    survivors = [rank for rank in range(RANKS) if rank != cell.victim]
    if cell.healthy:
        assert (result.returncode, blamed) == (0, []), everything
    elif cell.first_cause:
        assert (result.returncode, blamed) == (cell.ending.code or 1, [cell.victim]), everything
        assert f"hrun: rank {cell.victim} (" in result.stderr and " failed first: it " in result.stderr, (
            everything
        )
    else:
        assert blamed[0] in survivors and result.returncode != 0, everything
    if cell.waited and cell.ending.told:
        for rank in survivors:
            assert matches(
                cell.ending.told.format(rank=cell.victim), (tmp_path / f"out/rank.{rank}/stderr").read_text()
            ), everything
    seen[cell.name] = endings_page.verdict(
        result.returncode, blamed, (tmp_path / f"out/rank.{survivors[0]}/stderr").read_text(), cell
    )


def test_the_page_has_all_endings():
    if ALL and {cell.name for cell in cells(True)} <= seen.keys():
        endings_page.write(seen)
    assert endings_page.listed() == endings_page.all_titles()
