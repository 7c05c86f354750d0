# SPDX-License-Identifier: Apache-2.0
"""The measurements and the checks: from the lines that programs print, to the table."""

import dataclasses
import json
import re
from typing import Any


@dataclasses.dataclass
class Figure:
    """A measured value. Where several aims are given all of them count."""

    name: str
    value: float
    unit: str
    lower: bool = False  # whether less is better
    spread: float | None = None  # of the middle half of the samples, as a part of the value
    most: float | None = None  # aim: no more than this
    limit: float | None = None  # what the machine allows, measured in the same run
    limit_is: str = ""
    of_limit: float | None = None  # aim: this part of the limit
    peer: float | None = None  # what the best peer reaches
    peer_is: str = ""
    of_peer: float | None = None  # aim: this many times the peer
    predicted: float | None = None  # before the run, by counting (predictions.py)
    note: str = ""

    def to_limit(self) -> float | None:
        return self._compared(self.limit)

    def to_peer(self) -> float | None:
        return self._compared(self.peer)

    def _compared(self, other: float | None) -> float | None:
        """More is better."""
        if other is None:
            return None
        if self.lower:
            return other / self.value if self.value > 0 else float("inf")
        return self.value / other if other > 0 else float("inf")

    def aims(self) -> list[tuple[str, bool]]:
        """Each aim, and whether it is reached."""
        found = []
        if self.most is not None:
            found.append((f"<= {self.most:.4g}", self.value <= self.most))
        for of, ratio, what in (
            (self.of_limit, self.to_limit(), self.limit_is),
            (self.of_peer, self.to_peer(), self.peer_is),
        ):
            if of is not None and ratio is not None:
                found.append((f">= {of:.2f} x {what}", ratio >= of))
        return found

    def verdict(self) -> str:
        aims = self.aims()
        return "" if not aims else "ok" if all(reached for _, reached in aims) else "short"


@dataclasses.dataclass
class Check:
    """Something that had to be so."""

    name: str
    ok: bool
    text: str = ""


@dataclasses.dataclass
class Findings:
    """The figures, checks and notes that the programs have printed."""

    figures: list[Figure] = dataclasses.field(default_factory=list)
    checks: list[Check] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: "Findings") -> None:
        self.figures += other.figures
        self.checks += other.checks
        self.notes += other.notes


def read(output: str) -> Findings:
    """The lines that are for us among those that a program, or ranks under hrun, have printed."""
    found = Findings()
    for line in output.splitlines():
        match = re.match(r"(?:\[\d+\] )?(FIGURE|CHECK|NOTE) (\{.*\})\s*$", line)
        if match:
            _take(found, match[1], match[2])
    return found


def _take(found: Findings, kind: str, text: str) -> None:
    try:
        content: dict[str, Any] = json.loads(text)
        if kind == "FIGURE":
            found.figures.append(Figure(**content))
        elif kind == "CHECK":
            found.checks.append(Check(**content))
        elif content["text"] not in found.notes:
            found.notes.append(content["text"])
    except (ValueError, TypeError, KeyError) as error:
        found.checks.append(Check("a line that a program printed", False, f"{error}: {text[:200]}"))


def merged(checks: list[Check]) -> list[Check]:
    """One for each name: several ranks, or repetitions, may have said it."""
    by_name: dict[str, Check] = {}
    for check in checks:
        known = by_name.setdefault(check.name, Check(check.name, True, check.text))
        if not check.ok:
            known.text = check.text if known.ok else f"{known.text}; {check.text}"
            known.ok = False
    return list(by_name.values())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _row(figure: Figure, aims_count: bool) -> list[str]:
    spread = "" if figure.spread is None else f"{100 * figure.spread:.0f} %"
    return [
        figure.name,
        _number(figure.predicted),
        f"{_number(figure.value)} {figure.unit}",
        spread,
        "" if figure.limit is None else f"{_number(figure.limit)} ({figure.limit_is})",
        _number(figure.to_limit()),
        "" if figure.peer is None else f"{_number(figure.peer)} ({figure.peer_is})",
        _number(figure.to_peer()),
        ", ".join(aim for aim, _ in figure.aims()),
        figure.verdict() if aims_count else "",
    ]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A table of Markdown that can be read as it is."""
    rows = [[cell.replace("|", "/").replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [header, *rows]]
    lines.insert(1, ["-" * width for width in widths])
    return ["| " + " | ".join(line) + " |" for line in lines]


def as_markdown(found: Findings, machine: dict[str, str], aims_count: bool) -> str:
    """The whole report. `aims_count`: whether figures are compared with aims."""
    checks = merged(found.checks)
    lines = [f"# Hora on {machine['device']}, {machine['date']}", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "All ranks share one GPU, each with an NCCL_HOSTID of its own, and talk through sockets: results are right or not, and",
              "what the host adds is what it is; of NCCL's bandwidth nothing here says anything.", ""]  # fmt: skip
    lines += ["## Checks", "", f"{sum(check.ok for check in checks)} of {len(checks)} good.", ""]
    lines += _table(
        ["check", "", "what was seen"],
        [[check.name, "ok" if check.ok else "FAILED", check.text[:300]] for check in checks],
    )
    lines += [
        "",
        "## Figures",
        "",
        "Medians; spread: of the middle half of the samples. Ratios: more is better. Predictions count bytes, launches and calls",
        "(test/gpu/parts/predictions.py).",
        "",
    ]
    header = ["figure", "predicted", "value", "spread", "limit", "ratio", "peer", "ratio", "aim", ""]
    lines += _table(header, [_row(figure, aims_count) for figure in found.figures])
    remarks = [f"- {figure.name}: {figure.note}" for figure in found.figures if figure.note] + [
        f"- {note}" for note in found.notes
    ]
    if remarks:
        lines += ["", "## Notes", "", *remarks]
    return "\n".join(lines) + "\n"


def as_json(found: Findings, machine: dict[str, str]) -> str:
    """The same for programs."""
    figures = [{**dataclasses.asdict(figure), "verdict": figure.verdict()} for figure in found.figures]
    checks = [dataclasses.asdict(check) for check in merged(found.checks)]
    return (
        json.dumps({"machine": machine, "checks": checks, "figures": figures, "notes": found.notes}, indent=1)
        + "\n"
    )
