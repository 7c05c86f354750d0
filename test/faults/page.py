# SPDX-License-Identifier: Apache-2.0
"""Writes what was seen of all cells down as a page of the documentation, RESULTS.md."""

import datetime
import math
import os
import pathlib
import platform
import re

from performance import BUILD, Outcome
from table import (
    DEFAULT_HEARTBEAT,
    FAULTS,
    HEARTBEAT,
    MISSING,
    PHASES,
    RANKS,
    START,
    VICTIMS,
    Cell,
    Fault,
    cells,
    impossible,
)
from verdict import hrun_returns_after, notice_times, shortcomings

PAGE = pathlib.Path(__file__).with_name("RESULTS.md")
LONGEST_QUOTE = 160
LONGEST_SHORTCOMING = 400
ENDINGS = "## How a program ends"  # a section that endings_page.py writes
ELASTIC = "## Elastic jobs"  # a section that elastic_page.py writes

INTRODUCTION = """\
<!-- SPDX-License-Identifier: Apache-2.0; written by `./dev test --faults` -->
# Faults and their effects

Each fault was made to happen in each phase of a job of {ranks} ranks to rank 0, to another rank, and to two; {cells} cells, played by
`test/faults`. A cell says: after how many milliseconds the last of the other ranks knew (its error, or, where it was leaving, the
return of `shutdown`); after how many hrun returned; hrun's exit code. **Short** marks a cell that is not as it should be; the
reasons are at the end. That a phase was hit is seen by the rank itself: "inside a collective" is when a part of the output was
written, and not all of it.

In every cell was looked for: processes, files in `/dev/shm`, System V segments, listening ports, local sockets and temporary files
that were not there before; descriptors that a rank has still when it has left the job, and such as hrun gave it without need.

Most cells have `HORA_HEARTBEAT_TIMEOUT={heartbeat:g}`, `HORA_START_TIMEOUT={start:g}` and `HORA_MISSING_TIMEOUT={missing:g}`; those called
"default" have the heartbeat of {default:g} s. hrun has its default grace of 5 s. Over mpi hrun hands over to
mpirun, which is told to leave the other ranks alone (`--enable-recovery`), and then takes no notice of exit codes.

An exception is told to the others when its process has ended, so that a launcher never takes a consequence for the cause, but after
two seconds at the latest. PyTorch's interpreter may take longer to end where the machine is busy, as after the loss of a worker:
then hrun names whoever ended first, and the others' error alone has the cause.

{machine}; {date}. The machine has {cores} processors and was shared with others meanwhile.
"""


def write(outcomes: dict[str, Outcome], by_default: dict[str, Outcome]) -> None:
    """All cells, and some more with the default heartbeat."""
    parts = [
        INTRODUCTION.format(
            ranks=RANKS,
            cells=len(outcomes),
            heartbeat=HEARTBEAT,
            start=START,
            missing=MISSING,
            default=DEFAULT_HEARTBEAT,
            machine=f"{platform.system()} {platform.release()} on {platform.machine()}",
            date=datetime.date.today().isoformat(),
            cores=os.cpu_count(),
        )
    ]
    parts.append(_summary(outcomes, by_default))
    parts += [_table(fault, outcomes) for fault in FAULTS]
    parts.append(_defaults(by_default))
    parts.append(_words(outcomes))
    parts += [section(ENDINGS), section(ELASTIC)]
    parts.append(_shortcomings(outcomes, by_default))
    PAGE.write_text("\n".join(parts))


def section(headline: str) -> str:
    """A section that the page has."""
    return headline + PAGE.read_text().partition(headline)[2].partition("\n## ")[0]


def replace_section(headline: str, text: str) -> None:
    """Puts a text, which begins with its headline, in the place of the section that the page has."""
    PAGE.write_text(PAGE.read_text().replace(section(headline), text.rstrip("\n") + "\n"))


def listed(page: str) -> set[str]:
    """The names of the cells that a page has."""
    found = set()
    for fault in FAULTS:
        section = re.search(
            rf"^## {re.escape(_headline(fault))}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL
        )
        for phase in PHASES:
            row = re.search(
                rf"^\| {re.escape(phase.title)} \|(.*)\|$", section[1] if section else "", re.MULTILINE
            )
            for victims, text in zip(VICTIMS, row[1].split("|") if row else [], strict=False):
                if re.search(r"→", text):
                    found.add(Cell(fault, phase, victims).name)
    return found


def _headline(fault: Fault) -> str:
    return fault.title[0].upper() + fault.title[1:]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f}"


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]


def _spread(values: list[float]) -> str:
    if not values:
        return "– | – | –"
    return " | ".join(_milliseconds(percentile(values, part)) for part in (0.5, 0.99, 1.0))


def _summary(outcomes: dict[str, Outcome], by_default: dict[str, Outcome]) -> str:
    lines = [
        "## All together",
        "",
        "Milliseconds. Where ranks have not met yet nothing beats, so a rank that is stopped or cut off is "
        "missed when the time to meet is over.",
        "",
        "| fault | cells | short | known, median | p99 | most | hrun, median | p99 | most |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups = [(fault.title, [o for o in outcomes.values() if o.cell.fault == fault]) for fault in FAULTS]
    for name in ("stop", "cut"):
        met = [
            o
            for o in outcomes.values()
            if o.cell.fault.name == name and o.cell.phase.name not in ("before", "rendezvous")
        ]
        groups.append((f"{met[0].cell.fault.title}, ranks that had met" if met else name, met))
    groups.append(("default heartbeat", list(by_default.values())))
    for title, group in groups:
        known = [time for outcome in group for time in notice_times(outcome).values()]
        returned = [time for outcome in group if (time := hrun_returns_after(outcome)) is not None]
        heartbeat = DEFAULT_HEARTBEAT if title == "default heartbeat" else HEARTBEAT
        short = sum(bool(shortcomings(outcome.cell, outcome, heartbeat)) for outcome in group)
        lines.append(f"| {title} | {len(group)} | {short} | {_spread(known)} | {_spread(returned)} |")
    return "\n".join([*lines, ""])


def _cell(outcome: Outcome, heartbeat: float = HEARTBEAT) -> str:
    times = notice_times(outcome)
    returned = hrun_returns_after(outcome)
    known = _milliseconds(max(times.values())) if times else "–"
    end = "–" if returned is None else _milliseconds(returned)
    short = " **short**" if shortcomings(outcome.cell, outcome, heartbeat) else ""
    return f"{known} → {end}, {'–' if outcome.code is None else outcome.code}{short}"


def _table(fault: Fault, outcomes: dict[str, Outcome]) -> str:
    lines = [
        f"## {_headline(fault)}",
        "",
        "| | " + " | ".join(victims.title for victims in VICTIMS) + " |",
        "|---|" + "---|" * len(VICTIMS),
    ]
    for phase in PHASES:
        reason = impossible(fault, phase)
        if reason:
            lines.append(f"| {phase.title} | cannot be: {reason} | | |")
            continue
        texts = [
            _cell(outcomes[name]) if (name := Cell(fault, phase, victims).name) in outcomes else "not played"
            for victims in VICTIMS
        ]
        lines.append(f"| {phase.title} | " + " | ".join(texts) + " |")
    return "\n".join([*lines, ""])


def _defaults(by_default: dict[str, Outcome]) -> str:
    lines = ["## With the default heartbeat", "", "| | |", "|---|---|"]
    lines += [
        f"| {o.cell.fault.title}, {o.cell.phase.title}, {o.cell.victims.title} | "
        f"{_cell(o, DEFAULT_HEARTBEAT)} |"
        for o in by_default.values()
    ]
    return "\n".join([*lines, ""])


def _quote(outcome: Outcome) -> str:
    """The error of a rank that nothing had happened to."""
    for rank in outcome.cell.survivors:
        if rank in outcome.told():
            text = (
                re.sub(r"\(pid \d+ on \w+\)", "(pid N on H)", outcome.told()[rank][1])
                .replace("|", "\\|")
                .split("\n")
            )
            line = " / ".join(part.strip() for part in text)
            return line if len(line) <= LONGEST_QUOTE else line[:LONGEST_QUOTE] + "..."
    last = [line for line in outcome.errors.splitlines() if line.startswith("hrun: ")]
    return last[0] if last else ""


def _words(outcomes: dict[str, Outcome]) -> str:
    """One sentence of each fault and phase."""
    lines = ["## What the others are told", "", "| fault | phase | another rank's |", "|---|---|---|"]
    for outcome in outcomes.values():
        if outcome.cell.victims.name == "other" and _quote(outcome):
            lines.append(f"| {outcome.cell.fault.title} | {outcome.cell.phase.title} | {_quote(outcome)} |")
    return "\n".join([*lines, ""])


def brief(found: list[str]) -> str:
    """The first shortcoming, without the paths of the machine, and how many there are."""
    first = found[0].replace("\n", " / ").replace(f"{BUILD.parent.parent}/", "")
    if len(first) > LONGEST_SHORTCOMING:
        first = first[:LONGEST_SHORTCOMING] + "..."
    return first if len(found) == 1 else f"{first} (and {len(found) - 1} more)"


def _shortcomings(outcomes: dict[str, Outcome], by_default: dict[str, Outcome]) -> str:
    lines = ["## Where it falls short", ""]
    for heartbeat, group in ((HEARTBEAT, outcomes), (DEFAULT_HEARTBEAT, by_default)):
        for name, outcome in group.items():
            found = shortcomings(outcome.cell, outcome, heartbeat)
            if found:
                lines.append(f"- `{name}`: {brief(found)}")
    if len(lines) == 2:
        lines.append("Nowhere.")
    return "\n".join([*lines, ""])


def all_named() -> set[str]:
    """The cells that a page must have."""
    return {cell.name for cell in cells()}
