# SPDX-License-Identifier: Apache-2.0
"""The page of a run: a table for each row of the plan, made of what was measured and of the row's own
words."""

from collections.abc import Iterator

from . import runs, table
from .figures import Figure, Result, result_from
from .runs import Run
from .targets import Comparison, Verdict

HEAD = """# Benchmarks

`./dev bench` has measured this, and written this page; `./dev bench --page` writes it again. Each row is shown as it was measured last. Its figures come from one run,
in which contenders took turns ({blocks} blocks); a ratio is that of medians, in brackets those of single blocks at least and at most. Every rank writes its whole
input anew before each call, and every result is checked. All contenders use one PyTorch. Losses are here, too. On a shared or virtual machine times vary; read ratios.
{quick}
| run | rows | machine | versions |
| --- | --- | --- | --- |
{runs}
"""
QUICK = "\n**These were quick runs, with few and short blocks: they show that everything works, and nothing about speed.**\n"


def written(figures: Figure, unit: str) -> str:
    wrong = f" **({figures.wrong} wrong)**" if figures.wrong else ""
    return f"{quantity(figures.median, unit)}{wrong}"


def quantity(value: float, unit: str) -> str:
    if unit == "us" and value >= 10_000:
        return f"{value / 1000:.4g} ms"
    return f"{value:.4g}" + (f" {unit}" if unit in ("us", "ms") else "")


def mark(met: bool | None) -> str:
    return {True: "met", False: "**missed**", None: "no figure"}[met]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def verdicts(view: table.View, comparison: Comparison) -> list[Verdict]:
    return [target.verdict(comparison) for target in view.targets if target.applies(comparison.case)]


def _main_table(view: table.View, result: Result) -> Iterator[str]:
    unit = result.unit if view.unit is None else view.unit
    yield _line("case", view.ours, "limit", "of the limit", "best peer", "target", "reached", "")
    yield _line("---", "---:", "---:", "---:", "---", "---", "---", "---")
    for comparison in view.comparisons(result):
        best = comparison.best_peer()
        share = comparison.of_limit()
        cells = [
            comparison.case,
            written(comparison.ours, unit),
            quantity(comparison.limit.median, unit) if comparison.limit and comparison.limit.blocks else "",
            f"{share:.2f}" if share is not None else "",
            f"{best[0]} {written(best[1], unit)}" if best else "",
        ]
        judged = verdicts(view, comparison)
        yield _line(*cells, *_judged(judged[0] if judged else None))
        for verdict in judged[1:]:
            yield _line("", "", "", "", "", *_judged(verdict))


def _judged(verdict: Verdict | None) -> tuple[str, str, str]:
    return (verdict.target, verdict.reached, mark(verdict.met)) if verdict else ("", "", "")


def _everything(result: Result) -> Iterator[str]:
    """All figures of an experiment: medians, and p99 where there is one."""
    names = list(dict.fromkeys(name for figures in result.cases.values() for name in figures))
    yield "<details><summary>all contenders: median, in brackets the p99 of the worst block</summary>\n"
    yield _line("case", *names)
    yield _line("---", *("---:" for _ in names))
    for case, figures in result.cases.items():
        yield _line(case, *(_figure(figures.get(name), result.unit) for name in names))
    yield "\n</details>\n"


def _figure(figure: Figure | None, unit: str) -> str:
    if figure is None or not figure.blocks:
        return ""
    return written(figure, unit) + (f" ({quantity(max(figure.p99), unit)})" if figure.p99 else "")


def _experiment(key: str, result: Result, views: list[table.View], plots: dict[str, str]) -> Iterator[str]:
    """An experiment, as the row looks at it."""
    yield f"### {result.title}\n"
    for view in views:
        if any(view.comparisons(result)):
            if view.heading:
                yield f"{view.heading}:\n"
            yield from _main_table(view, result)
            yield ""
    if key in plots:
        yield f"![{result.title}](plots/{plots[key]})\n"
    for name, why in result.missing.items():
        yield f"{name} is missing: {why}.\n"
    if result.redone or result.unlike:
        yield f"{result.redone} blocks were made again, as the processors' distance changed meanwhile; {result.unlike} count although it did.\n"
    yield from _everything(result)


def missed(row: table.Row, results: dict[str, Result]) -> bool:
    views = [view for view in row.views() if view.experiment in results]
    return any(
        verdict.met is False
        for view in views
        for comparison in view.comparisons(results[view.experiment])
        for verdict in verdicts(view, comparison)
    )


def _row(row: table.Row, run: Run, plots: dict[str, str]) -> Iterator[str]:
    yield f"## {row.key.upper()}: {row.title}\n"
    yield row.what + "\n"
    yield f"*{runs.cpu_of(run.saved)}, {run.saved['date']}*\n"
    results = results_of(run)
    views = row.views()
    experiments = [key for key in experiments_of(row.key) if key in results]
    if not experiments:
        yield "Not measured" + (f": {why}" if (why := row.needs()) else "") + ".\n"
    for key in experiments:
        yield from _experiment(key, results[key], [view for view in views if view.experiment == key], plots)
    if row.missed and missed(row, results):
        yield f"Where the target is missed: {row.missed}\n"


def results_of(run: Run) -> dict[str, Result]:
    return {key: result_from(result) for key, result in run.saved["experiments"].items()}


def experiments_of(key: str) -> list[str]:
    """The experiments that a row looks at, each once."""
    return list(dict.fromkeys(view.experiment for view in table.row(key).views()))


def _run(run: Run, rows: list[str]) -> str:
    described = run.saved["machine"]
    machine = "{processors} processors, {memory_gib} GiB, Linux {kernel}; load {load_before:.2f} before, {load_after:.2f} after".format(
        **described
    )
    versions = "; ".join(f"{what} {version}" for what, version in described["versions"].items())
    return _line(
        f"[{run.saved['date']}](results/{run.file.name})",
        ", ".join(row.upper() for row in rows),
        f"{runs.cpu_of(run.saved)}, {machine}",
        versions,
    )


def text_of(chosen: dict[str, Run], plots: dict[str, dict[str, str]]) -> str:
    """The page of these rows, each of its run; plots' names by the run's file and the experiment."""
    rows_of: dict[str, list[str]] = {}
    for key, run in chosen.items():
        rows_of.setdefault(run.file.name, []).append(key)
    shown = {run.file.name: run for run in chosen.values()}
    blocks = " or ".join(map(str, sorted({run.saved["blocks"] for run in shown.values()})))
    quick = QUICK if any(run.saved["quick"] for run in shown.values()) else ""
    lines = [
        HEAD.format(
            blocks=blocks,
            quick=quick,
            runs="\n".join(_run(shown[name], rows) for name, rows in rows_of.items()),
        )
    ]
    for key, run in chosen.items():
        lines += _row(table.row(key), run, plots.get(run.file.name, {}))
    return "\n".join(lines).rstrip() + "\n"
