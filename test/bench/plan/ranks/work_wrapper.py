# SPDX-License-Identifier: Apache-2.0
"""The cost of the optimizer's wrapper for a rank that is alone: steps of a small model with it and without
it, in turns."""

from typing import Any

from .libraries import Alone, Library
from .work_training import steps

ROUNDS = 5


def work(library: Library, models: list[str], iterations: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for _ in range(ROUNDS):
        for name in models:
            for kind, used in (("plain", Plain()), ("wrapped", library)):
                case = results.setdefault(f"{name}: {kind}", {"spans": [], "wrong": 0})
                case["spans"] += steps(used, name, iterations, {})["spans"]
    return results


class Plain(Alone):
    def __init__(self) -> None:
        self.rank, self.size = 0, 1
