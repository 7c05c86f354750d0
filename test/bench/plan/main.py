# SPDX-License-Identifier: Apache-2.0
"""The command line of ./dev bench."""

import argparse
import dataclasses
import datetime
import json
import pathlib
import re
import subprocess
from typing import Any

from suites.shell import ROOT

from . import interleave, launchers, machine, page, peers, runs, table
from .launchers import PEERS
from .runs import Run
from .table import Settings

FOLDER = ROOT / "test/bench"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description="Measures Hora against its peers and the machine's limits."
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"only these, of {', '.join(table.MODULES)}")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few short blocks: shows that everything works, and nothing about speed",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="of the rows, only experiments that have TEXT in their names",
    )
    parser.add_argument("--blocks", type=int, help="in which contenders take turns (5)")
    parser.add_argument(
        "--no-peers",
        dest="peers",
        action="store_false",
        help="do without build/bench/peers: no Horovod, no plots",
    )
    parser.add_argument(
        "--add", metavar="FILE", help="add the rows to these results of an earlier run, or replace them there"
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the page of the kept results again"
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=FOLDER,
        metavar="FOLDER",
        help="where results/, plots/ and RESULTS.md go (%(default)s)",
    )
    parsed = parser.parse_args(arguments)
    unknown = set(parsed.rows) - set(table.MODULES)
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join(table.MODULES)}")
    return parsed


def say(text: str) -> None:
    print(text, flush=True)


def planned(rows: list[table.Row], settings: Settings, only: str) -> list[interleave.Experiment]:
    """Every experiment once, whichever rows look at it, that has a text in its name. Raises ValueError if
    there is none."""
    experiments = {}
    for row in rows:
        why = row.needs()
        if why:
            say(f"{row.key} is left out: {why}")
        else:
            experiments.update({experiment.key: experiment for experiment in row.experiments(settings)})
    chosen = [experiment for key, experiment in experiments.items() if only in key]
    if experiments and not chosen:
        raise ValueError(f"no experiment has '{only}' in its name; there are: {'; '.join(experiments)}")
    return chosen


def begin(chosen: list[str], settings: Settings, blocks: int) -> dict[str, Any]:
    return {
        "date": datetime.datetime.now().astimezone().date().isoformat(),
        "quick": settings.quick,
        "blocks": blocks,
        "rows": chosen,
        "machine": machine.described(),
        "experiments": {},
    }


def added(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A run that goes on with an earlier one: its rows are kept, but for those that are measured again.
    Raises ValueError if they cannot be compared."""
    for what, one, other in (
        ("processor", before["machine"]["cpu"], now["machine"]["cpu"]),
        ("number of processors", before["machine"]["processors"], now["machine"]["processors"]),
        ("number of blocks", before["blocks"], now["blocks"]),
        ("thoroughness", before["quick"], now["quick"]),
    ):
        if one != other:
            raise ValueError(f"the earlier run had another {what}: {one}, not {other}")
    versions = {**now["machine"]["versions"]}
    versions["Hora"] = ", ".join(
        dict.fromkeys([*before["machine"]["versions"]["Hora"].split(", "), versions["Hora"]])
    )
    rows = [key for key in table.MODULES if key in (*before["rows"], *now["rows"])]
    return {**before, "rows": rows, "machine": {**before["machine"], "versions": versions}}


def measure(run: Run, experiments: list[interleave.Experiment], settings: Settings) -> None:
    """Results are written after each experiment, so that a run may be ended early."""
    runs.write(run)
    for experiment in experiments:
        result = interleave.measure(experiment, run.saved["blocks"], say, settings.tries)
        run.saved["experiments"][experiment.key] = dataclasses.asdict(result)
        runs.write(run)


def file_name(saved: dict[str, Any]) -> str:
    cpu = re.sub(r"[^a-z0-9]+", "-", runs.cpu_of(saved).lower()).strip("-")
    return f"{saved['date']}-{cpu}{'-quick' if saved['quick'] else ''}.json"


def draw(run: Run, experiments: list[str], folder: pathlib.Path) -> dict[str, str]:
    """Plots of some experiments; their names, by experiment."""
    command = [
        str(PEERS / "bin/python"),
        "-B",
        "-m",
        f"{__package__}.plots",
        str(run.file.resolve()),
        str(folder.resolve()),
        *experiments,
    ]
    drawn = subprocess.run(command, cwd=ROOT / "test", capture_output=True, text=True, check=False)
    if drawn.returncode != 0:
        say(f"no plots: {drawn.stderr.strip().splitlines()[-1]}")
        return {}
    names: dict[str, str] = json.loads(drawn.stdout)
    return names


def write_page(output: pathlib.Path, quick: bool) -> list[Run]:
    """The page of what is kept: each row as it was measured last. Returns the runs that it shows."""
    chosen = runs.newest_of_rows(runs.kept(output / "results", quick))
    shown = list({run.file: run for run in chosen.values()}.values())
    plots = {}
    if (PEERS / "bin/python").exists():
        for old in (output / "plots").glob("*.svg"):
            old.unlink()
        for run in shown:
            keys = [key for row in chosen if chosen[row] is run for key in page.experiments_of(row)]
            plots[run.file.name] = draw(run, keys, output / "plots")
    (output / "RESULTS.md").write_text(page.text_of(chosen, plots))
    return shown


def file_of(name: str, output: pathlib.Path) -> pathlib.Path:
    """A file of results, by its path or its name."""
    path = pathlib.Path(name)
    return path if path.exists() else output / "results" / name


def begun_or_continued(parsed: argparse.Namespace, chosen: list[str], settings: Settings) -> Run:
    """Raises OSError or ValueError if there is no earlier run that this one can be added to."""
    begun = begin(chosen, settings, parsed.blocks or settings.blocks)
    if not parsed.add:
        return Run(parsed.output / "results" / file_name(begun), begun)
    before = runs.read(file_of(parsed.add, parsed.output))
    return Run(before.file, added(begun, before.saved))


def run(parsed: argparse.Namespace) -> int:
    settings = Settings(parsed.quick)
    if not parsed.page:
        if parsed.peers:
            peers.prepare()
        else:
            launchers.do_without_peers()
        chosen = parsed.rows or list(table.MODULES)
        try:
            current = begun_or_continued(parsed, chosen, settings)
        except (OSError, ValueError) as error:
            say(f"nothing can be added to {parsed.add}: {error}")
            return 1
        try:
            experiments = planned([table.row(key) for key in chosen], settings, parsed.only)
        except ValueError as error:
            say(str(error))
            return 1
        measure(current, experiments, settings)
        say(str(current.file))
    shown = write_page(parsed.output, parsed.quick)
    say(str(parsed.output / "RESULTS.md"))
    saved = [result for each in shown for result in each.saved["experiments"].values()]
    wrong = sum(
        figure["wrong"] for result in saved for case in result["cases"].values() for figure in case.values()
    )
    if wrong:
        say(f"{wrong} elements were wrong")
    return 1 if wrong else 0
