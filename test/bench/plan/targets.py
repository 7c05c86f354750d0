# SPDX-License-Identifier: Apache-2.0
"""The targets of figures, and whether the figures reach them."""

import dataclasses
from collections.abc import Callable, Iterable

from .figures import Case, Figure, ratio


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The roles of the contenders in a case."""

    case: str
    figures: Case
    ours: Figure
    peers: dict[str, Figure]
    limit: Figure | None
    larger: bool = False  # whether larger figures are better

    def best_peer(self, among: str = "") -> tuple[str, Figure] | None:
        """The best of those whose name begins so."""
        chosen = {
            name: figure for name, figure in self.peers.items() if name.startswith(among) and figure.blocks
        }
        best = max if self.larger else min
        return best(chosen.items(), key=lambda item: item[1].median) if chosen else None

    def of_limit(self) -> float | None:
        found = ratio(self.limit, self.ours) if self.limit else None
        return found.median if found else None


@dataclasses.dataclass(frozen=True)
class Verdict:
    target: str
    reached: str
    met: bool | None  # None: what it is compared with was not measured


@dataclasses.dataclass(frozen=True)
class Target:
    text: str
    judge: Callable[[Comparison], tuple[str, bool | None]]
    applies: Callable[[str], bool] = lambda case: True  # to which cases

    def verdict(self, comparison: Comparison) -> Verdict:
        reached, met = self.judge(comparison)
        return Verdict(self.text, reached, met)

    def when(self, applies: Callable[[str], bool]) -> "Target":
        return dataclasses.replace(self, applies=applies)

    def only(self, cases: Iterable[str]) -> "Target":
        chosen = set(cases)
        return self.when(lambda case: case in chosen)


def times(
    factor: float, among: str = "", called: str = "the best peer", or_limit: float | None = None
) -> Target:
    """Takes at most 1/factor of the time of the fastest of these peers, or all that the limit allows."""

    def judge(comparison: Comparison) -> tuple[str, bool | None]:
        best = comparison.best_peer(among)
        found = ratio(best[1], comparison.ours) if best else None
        if best is None or best[1].median <= 0:
            return "–", None
        if found is None:
            return f"lost in noise; {best[0]} is not", True
        share = comparison.of_limit()
        at_limit = or_limit is not None and share is not None and share >= or_limit
        text = f"{found.median:.2f} × {best[0]} ({found.least:.2f}–{found.most:.2f})"
        if at_limit and found.median < factor:
            text += f", at the limit ({share:.2f})"
        return text, found.median >= factor or at_limit

    return Target(f"≥ {factor:g} × {called}" + (f", or {or_limit:g} of the limit" if or_limit else ""), judge)


def of_limit(share: float) -> Target:
    def judge(comparison: Comparison) -> tuple[str, bool | None]:
        found = ratio(comparison.limit, comparison.ours) if comparison.limit else None
        if found is None:
            return "–", None
        return f"{found.median:.2f} ({found.least:.2f}–{found.most:.2f})", found.median >= share

    return Target(f"≥ {share:g} of the limit", judge)


def at_most(most: float, unit: str, part: str = "median") -> Target:
    """A figure's median, its p99 or its longest."""

    def judge(comparison: Comparison) -> tuple[str, bool | None]:
        values = comparison.ours.blocks if part == "median" else getattr(comparison.ours, part)
        if not values:
            return "–", None
        value = comparison.ours.median if part == "median" else max(values)
        return f"{value:.4g} {unit}", value <= most

    return Target(f"{'' if part == 'median' else part + ' '}≤ {most:g} {unit}", judge)


def at_least(least: float, unit: str = "") -> Target:
    def judge(comparison: Comparison) -> tuple[str, bool | None]:
        return f"{comparison.ours.median:.3g} {unit}".strip(), comparison.ours.median >= least

    return Target(f"≥ {least:g} {unit}".strip(), judge)


def against(other: str, factor: float, called: str) -> Target:
    """This many times as fast as another figure of the same case."""

    def judge(comparison: Comparison) -> tuple[str, bool | None]:
        found = ratio(comparison.figures[other], comparison.ours) if other in comparison.figures else None
        if found is None:
            return "–", None
        return f"{found.median:.2f} ({found.least:.2f}–{found.most:.2f})", found.median >= factor

    return Target(f"≥ {factor:g} × {called}", judge)
