# SPDX-License-Identifier: Apache-2.0
"""The rows of the plan: one table, a module for each row."""

import dataclasses
import importlib
from collections.abc import Callable, Iterator

from .figures import Case, Figure, Result
from .interleave import Experiment
from .targets import Comparison, Target


@dataclasses.dataclass(frozen=True)
class Settings:
    """How thoroughly to measure."""

    quick: bool = False

    @property
    def blocks(self) -> int:
        return 2 if self.quick else 5

    @property
    def tries(self) -> int:
        return 1 if self.quick else 3


Cases = dict[str, Case]


@dataclasses.dataclass(frozen=True)
class View:
    """A row's view of an experiment: our contender, its peers, and the targets."""

    experiment: str  # its key
    ours: str
    targets: tuple[Target, ...]
    limit: str = "limit"
    not_peers: tuple[str, ...] = ()  # beside ours and the limit
    chosen: Callable[[str], bool] = lambda case: True  # which cases
    derive: Callable[[Cases], Cases] | None = None  # other figures, made of those that were measured
    unit: str | None = None  # of figures that are derived
    larger: bool = False  # whether larger figures are better
    heading: str = ""

    def comparisons(self, result: Result) -> Iterator[Comparison]:
        cases = self.derive(result.cases) if self.derive else result.cases
        for case, figures in cases.items():
            ours = figures.get(self.ours)
            if ours is None or not ours.blocks or not self.chosen(case):
                continue
            peers = {name: figure for name, figure in figures.items() if self._is_peer(name, figure)}
            yield Comparison(case, figures, ours, peers, figures.get(self.limit), self.larger)

    def _is_peer(self, name: str, figure: Figure) -> bool:
        return (
            name not in (self.ours, self.limit, *self.not_peers)
            and not name.startswith("hora")
            and bool(figure.blocks)
        )


@dataclasses.dataclass(frozen=True)
class Row:
    """One bench of the plan."""

    key: str
    title: str
    what: str
    experiments: Callable[[Settings], list[Experiment]]
    views: Callable[[], list[View]]
    missed: str = ""  # where a target is missed: what stands in the way, and what was tried
    needs: Callable[[], str | None] = lambda: None  # why it cannot be measured here


MODULES = {
    "b1": "arena",
    "b2": "private",
    "b3": "latency",
    "b4": "oversubscribed",
    "b5": "one_tensor",
    "b6": "gradient_lists",
    "b7": "wire16",
    "b8": "loopback",
    "b9": "hosts",
    "b10": "negotiation",
    "b11": "locked",
    "b12": "simulated",
    "b13": "overlap",
    "b14": "training",
    "b15": "start",
    "b16": "broadcast",
    "b17": "recovery",
    "b18": "torch_distributed",
    "b19": "jax_programs",
}


def row(key: str) -> Row:
    found: Row = importlib.import_module(f"{__package__}.rows.{MODULES[key]}").ROW
    return found
