# SPDX-License-Identifier: Apache-2.0
"""Faults in every phase of a job: a sample of the table, or, with FAULTS=all in the environment, the whole of
it, which is then written down in RESULTS.md."""

import os
import pathlib

import page
import pytest
from machines import Cluster
from performance import Outcome, Performance
from table import DEFAULT_HEARTBEAT, HEARTBEAT, Cell, cells, sample
from verdict import shortcomings

ALL = os.environ.get("FAULTS") == "all"
TRIES = 3  # of a cell whose phase was over before the fault could happen: chance, which says nothing
BY_DEFAULT = ("stop-idle-first", "stop-shm-other", "stop-tcp-two", "cut-idle-other", "cut-tcp-first")

seen: dict[str, Outcome] = {}
seen_by_default: dict[str, Outcome] = {}


Case = tuple[Cell, float]  # with the heartbeat


def cases() -> list[Case]:
    if not ALL:
        return [(cell, HEARTBEAT) for cell in sample()]
    by_default = [cell for cell in cells() if cell.name in BY_DEFAULT]
    return [*((cell, HEARTBEAT) for cell in cells()), *((cell, DEFAULT_HEARTBEAT) for cell in by_default)]


def name_of(case: Case) -> str:
    return case[0].name + ("" if case[1] == HEARTBEAT else "-by-default")


def play(case: Case, machines: Cluster, folder: pathlib.Path) -> Outcome:
    """Once, or until the fault was in time."""
    for attempt in range(TRIES):
        outcome = Performance(case[0], machines, folder / str(attempt), case[1]).run()
        if outcome.happened() is not None:
            break
    return outcome


def explain(outcome: Outcome, found: list[str]) -> str:
    return "\n".join([*found, "", *map(str, outcome.said), "", outcome.errors])


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_a_fault_is_told_and_leaves_nothing(case: Case, machines: Cluster, tmp_path: pathlib.Path):
    cell, heartbeat = case
    outcome = play(case, machines, tmp_path)
    (seen if heartbeat == HEARTBEAT else seen_by_default)[cell.name] = outcome
    found = shortcomings(cell, outcome, heartbeat)
    assert not found, explain(outcome, found)


def test_the_page_has_the_cells_that_the_table_has():
    if page.all_named() <= seen.keys():
        page.write(seen, seen_by_default)
    assert page.listed(page.PAGE.read_text()) == page.all_named()
