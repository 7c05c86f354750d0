# SPDX-License-Identifier: Apache-2.0
"""The measured figures: one for each case and contender, to which each block adds a value."""

import dataclasses
import statistics
from typing import Any


@dataclasses.dataclass
class Sample:
    """One contender in one case and one block."""

    median: float
    p99: float | None = None
    longest: float | None = None
    wrong: int = 0  # elements


Samples = dict[str, dict[str, Sample]]  # by case and contender


@dataclasses.dataclass
class Figure:
    """One contender in one case, over all blocks."""

    blocks: list[float] = dataclasses.field(default_factory=list)  # the median of each
    p99: list[float] = dataclasses.field(default_factory=list)
    longest: list[float] = dataclasses.field(default_factory=list)
    wrong: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.blocks)

    def add(self, sample: Sample) -> None:
        self.blocks.append(sample.median)
        if sample.p99 is not None:
            self.p99.append(sample.p99)
        if sample.longest is not None:
            self.longest.append(sample.longest)
        self.wrong += sample.wrong


Case = dict[str, Figure]  # by contender


@dataclasses.dataclass
class Result:
    """An experiment that was made."""

    title: str
    unit: str
    cases: dict[str, Case] = dataclasses.field(default_factory=dict)
    missing: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # contenders that did not take part, and why
    fingerprints: list[dict[str, float]] = dataclasses.field(default_factory=list)
    redone: int = 0  # blocks that were made again, as the machine changed meanwhile
    unlike: int = 0  # blocks that count although it did

    def add(self, samples: Samples) -> None:
        for case, contenders in samples.items():
            figures = self.cases.setdefault(case, {})
            for name, sample in contenders.items():
                figures.setdefault(name, Figure()).add(sample)


def result_from(saved: dict[str, Any]) -> Result:
    """The inverse of dataclasses.asdict for a Result."""
    cases = {
        case: {name: Figure(**figure) for name, figure in figures.items()}
        for case, figures in saved["cases"].items()
    }
    return Result(**{**saved, "cases": cases})


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as large one figure is as another: of the medians, and of the blocks at least and at
    most."""

    median: float
    least: float
    most: float


def ratio(above: Figure, below: Figure) -> Ratio | None:
    """None: there is none, as one of them is missing, or a difference that is lost in noise."""
    blocks = [
        one / other for one, other in zip(above.blocks, below.blocks, strict=False) if one > 0 and other > 0
    ]
    if not blocks or above.median <= 0 or below.median <= 0:
        return None
    return Ratio(above.median / below.median, min(blocks), max(blocks))


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def combined(one: Figure, other: Figure, by: Any) -> Figure:
    """A figure made of two, block by block."""
    return Figure(
        [by(a, b) for a, b in zip(one.blocks, other.blocks, strict=False)], wrong=one.wrong + other.wrong
    )
