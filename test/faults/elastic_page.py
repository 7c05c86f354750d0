# SPDX-License-Identifier: Apache-2.0
"""Writes what was seen of the faults of elastic jobs down in RESULTS.md, as a section of its own."""

from elastic_performance import elastic_shortcomings, time_to_all_ranks, times_to_next_step
from elastic_table import OWN_FAULTS, PHASES, ElasticCell, cannot_be, elastic_cells, victims_of
from page import ELASTIC, brief, percentile, replace_section, section
from performance import Outcome
from table import RANKS, Fault, Phase

INTRODUCTION = f"""\
{ELASTIC}

Each fault was made to happen in each phase of a step of a job that `hrun --min-np 1` started with {RANKS} ranks; it trains a model
whose weights tell which steps count. A cell says: after how many milliseconds the next step counted on the last of the other ranks,
less a normal step; after how many a step counted on {RANKS} ranks again; hrun's exit code. **Short** marks a cell that is not as it
should be; the reasons are at the end of the section.

In every cell was looked for what the other cells of this page are looked for, and: that each step counted exactly once, in one
generation, on all ranks that were there to tell; that all ranks ended with the same weights, and with those of all steps. A host that is
cut off is not replaced. A job begins when all its ranks are there; if one is lost before, the job ends.
"""


def write(seen: dict[str, Outcome]) -> None:
    """Puts the section in the place of the one that the page has."""
    parts = [INTRODUCTION, _summary(seen)]
    parts += [_table(fault, seen) for fault in OWN_FAULTS]
    parts.append(_shortcomings(seen))
    replace_section(ELASTIC, "\n".join(parts))


def missing() -> list[str]:
    """The rows that the section must have, and has not."""
    lines = section(ELASTIC).splitlines()
    return [
        _label(fault, phase)
        for fault in OWN_FAULTS
        for phase in PHASES
        if not any(line.startswith(f"| {_label(fault, phase)} |") for line in lines)
    ]


def _label(fault: Fault, phase: Phase) -> str:
    return f"{fault.name}, {phase.title}"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * max(seconds, 0):.0f}"


def _next(outcome: Outcome, cell: ElasticCell) -> float | None:
    times = times_to_next_step(cell, outcome.said, outcome.acted)
    own = [times[member] for member in cell.survivors if member in times]
    return max(own) if own and cell.all_go_on else None


def _summary(seen: dict[str, Outcome]) -> str:
    lines = [
        "| fault | cells | short | next step, median | p99 | most |",
        "|---|---|---|---|---|---|",
    ]
    cells = elastic_cells()
    for fault in OWN_FAULTS:
        own = [cell for cell in cells if cell.fault == fault]
        times = [time for cell in own if (time := _next(seen[cell.name], cell)) is not None]
        short = sum(bool(elastic_shortcomings(cell, seen[cell.name])) for cell in own)
        spread = " | ".join(_milliseconds(percentile(times, part)) for part in (0.5, 0.99, 1.0))
        lines.append(f"| {fault.title} | {len(own)} | {short} | {spread} |")
    return "\n".join([*lines, ""])


def _table(fault: Fault, seen: dict[str, Outcome]) -> str:
    lines = [
        "| | rank 0 | another rank | two ranks | the rank that gets the state |",
        "|---|---|---|---|---|",
    ]
    for phase in PHASES:
        reason = cannot_be(fault, phase)
        texts = [f"cannot be: {reason}"] if reason else []
        if not reason:
            texts = [_cell(ElasticCell(fault, phase, victims), seen) for victims in victims_of(phase)]
        lines.append(f"| {_label(fault, phase)} | " + " | ".join([*texts, "", "", ""][:4]) + " |")
    return "\n".join([*lines, ""])


def _cell(cell: ElasticCell, seen: dict[str, Outcome]) -> str:
    outcome = seen[cell.name]
    short = " **short**" if elastic_shortcomings(cell, outcome) else ""
    times = f"{_milliseconds(_next(outcome, cell))} → {_milliseconds(time_to_all_ranks(outcome))}"
    return f"{times}, {'–' if outcome.code is None else outcome.code}{short}"


def _shortcomings(seen: dict[str, Outcome]) -> str:
    lines = []
    for cell in elastic_cells():
        found = elastic_shortcomings(cell, seen[cell.name])
        if found:
            lines.append(f"- `{cell.name}`: {brief(found)}")
    return "\n".join(lines or ["No cell is short."])
