# SPDX-License-Identifier: Apache-2.0
"""Runs whose figures are kept, each in a file of its own: a run on one machine, to which rows may have been
added later."""

import dataclasses
import json
import os
import pathlib
import re
from typing import Any

from . import table


def cpu_of(saved: dict[str, Any]) -> str:
    """The name that the CPU's maker gives it, without trademarks."""
    return " ".join(re.sub(r"\((R|TM)\)", "", saved["machine"]["cpu"]).split())


@dataclasses.dataclass(frozen=True)
class Run:
    file: pathlib.Path
    saved: dict[str, Any]

    def has(self, row: table.Row) -> bool:
        """Whether it has figures of this row."""
        return not self.saved["experiments"].keys().isdisjoint(view.experiment for view in row.views())


def write(run: Run) -> None:
    run.saved["machine"]["load_after"] = os.getloadavg()[0]
    run.file.parent.mkdir(parents=True, exist_ok=True)
    run.file.write_text(written(run.saved) + "\n")


def written(value: Any, indent: str = "") -> str:
    """JSON with a line for each figure, so that a run is a table. Numbers have six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(written(each) for each in value)}]"
    if not isinstance(value, dict):
        return json.dumps(value)
    entries = [f"{json.dumps(key)}: {written(each, indent + ' ')}" for key, each in value.items()]
    if not any(isinstance(each, dict) for each in value.values()):
        return f"{{{', '.join(entries)}}}"
    return "{" + ",".join(f"\n{indent} {entry}" for entry in entries) + f"\n{indent}}}"


def read(file: pathlib.Path) -> Run:
    return Run(file, json.loads(file.read_text()))


def kept(folder: pathlib.Path, quick: bool) -> list[Run]:
    """The runs of a folder, thorough ones or quick ones, the newest first."""
    runs = [run for file in folder.glob("*.json") if (run := read(file)).saved["quick"] == quick]
    return sorted(runs, key=lambda run: (run.saved["date"], run.file.name), reverse=True)


def newest_of_rows(runs: list[Run]) -> dict[str, Run]:
    """The newest run that has figures of each row that was asked for, or else the newest run that was to have
    them. `runs` begin with the newest."""
    chosen = {}
    for key in table.MODULES:
        asked = [run for run in runs if key in run.saved["rows"]]
        having = [run for run in asked if run.has(table.row(key))]
        if asked:
            chosen[key] = (having or asked)[0]
    return chosen
