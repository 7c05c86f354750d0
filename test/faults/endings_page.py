# SPDX-License-Identifier: Apache-2.0
"""Writes what was seen of the endings of programs down in RESULTS.md, as a section of its own."""

import re

from endings import CPP, PYTHON, RANKS, Cell, matches
from page import ENDINGS, replace_section, section

LONGEST_QUOTE = 160

INTRODUCTION = f"""\
{ENDINGS}

A program of {RANKS} ranks, of which one ends in some way while the others wait for an operation of its, or leave. The table has hrun's exit
code, the rank that it names as the first cause ("it": the one that ended so), and the words that the others got. Each row was
played with two different ranks, over shared memory and over sockets.

| how it ends | others wait: code, first cause | what they are told | nobody waits: code, first cause |
|---|---|---|---|
"""


def verdict(code: int, blamed: list[int], errors: str, cell: Cell) -> str:
    """ "3, it | rank 1 ... failed: ..." """
    who = "nobody" if not blamed else "it" if blamed == [cell.victim] else "another"
    pattern = cell.ending.told.format(rank=cell.victim)
    own = [
        line for line in errors.splitlines() if not re.match(r"hora \d\d:", line)
    ]  # what the log has comes with a time
    lines = [line for line in own if pattern and cell.waited and matches(pattern, line)]
    return f"{code}, {who} | {_quotable(lines[-1]) if lines else ''}"


def _quotable(line: str) -> str:
    line = re.sub(r"^\S*Error: |^what\(\): +", "", line.strip())
    line = re.sub(r"\(pid \d+ on \S+\)", "(pid N on H)", re.sub(r"rank \d", "rank R", line)).replace(
        "|", "\\|"
    )
    return line if len(line) <= LONGEST_QUOTE else line[:LONGEST_QUOTE] + "..."


def write(seen: dict[str, str]) -> None:
    """Puts the section in the place of the one that the page has."""
    rows = []
    for ending in [*PYTHON, *CPP]:
        waited = " ".join(
            sorted({seen[name] for name in seen if name.startswith(f"{ending.name}-waited-")}, key=len)[:1]
        )
        idle = {seen[name].split(" | ")[0] for name in seen if name.startswith(f"{ending.name}-idle-")}
        rows.append(f"| {ending.title} | {waited} | {' or '.join(sorted(idle)) or 'cannot be'} |")
    replace_section(ENDINGS, INTRODUCTION + "\n".join(rows))


def listed() -> list[str]:
    rows = [row for row in section(ENDINGS).splitlines() if row.startswith("| ")]
    return [row.split(" | ")[0].removeprefix("| ") for row in rows[1:]]


def all_titles() -> list[str]:
    return [ending.title for ending in [*PYTHON, *CPP]]
