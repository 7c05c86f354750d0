# SPDX-License-Identifier: Apache-2.0
"""Plays one cell of an elastic job: lets the fault happen, and the training go on until it has all its ranks
again."""

import collections
from typing import Any

from elastic_table import ElasticCell
from performance import BUILD, Outcome, Performance, Words, when_it_happened
from table import RANKS

PROGRAM = BUILD / "test/elastic_fault_rank"


class ElasticPerformance(Performance):
    """A job of one cell."""

    def __init__(self, cell: ElasticCell, *arguments: Any) -> None:
        super().__init__(cell, *arguments)
        self._elastic_cell = cell

    def _program(self) -> list[str]:
        return [str(PROGRAM), *super()._program()[1:]]

    def _command(self) -> list[str]:
        hrun, *words = super()._command()
        return [hrun, "--min-np", "1", "--blacklist-cooldown-range", "0", "0", *words]

    def _direct(self) -> None:
        super()._direct()
        if self._goes_on():
            self._cue([line.rank for line in self._lines], "end")

    def _has_happened(self, rank: int) -> bool:
        if self._elastic_cell.fault.kind == "stops" and not self._elastic_cell.begins:
            line = next(line for line in self._lines if line.rank == rank)
            self._hear_to_the_end(line)  # hrun ends it
        return super()._has_happened(rank)

    def _goes_on(self) -> bool:
        """Whether a step counts since the fault on as many ranks as the training is to have; where it is to
        happen at the end, whether steps count."""
        counted = [words for words in self._said if words["event"] == "counted"]
        if self._elastic_cell.phase.name == "leaving":
            return bool(counted)
        return (
            len(counted) > 0
            and counted[-1]["size"] == self._elastic_cell.ranks_at_last
            and times_to_next_step(self._elastic_cell, self._said, self._acted).keys()
            >= set(self._elastic_cell.survivors)
        )


def times_to_next_step(cell: ElasticCell, said: list[Words], acted: float | None) -> dict[int, float]:
    """Seconds from the fault until the next step counted on each member that went on, less a normal step."""
    happened = when_it_happened(cell, said, acted)
    found: dict[int, float] = {}
    for words in said:
        if words["event"] == "counted" and happened is not None and words["at"] > happened:
            found.setdefault(words["rank"], words["at"] - happened - normal_step(said))
    return found


def normal_step(said: list[Words]) -> float:
    """Seconds from the first step to the second, on the member that made it last; 0: none has made two."""
    times = {
        (words["rank"], words["step"]): words["at"]
        for words in said
        if words["event"] == "counted" and words["step"] in (1, 2) and words["generation"] == 1
    }
    return max(
        (times[rank, 2] - times[rank, 1] for rank, step in times if (rank, 3 - step) in times), default=0.0
    )


def time_to_all_ranks(outcome: Outcome) -> float | None:
    """Seconds from the fault until a step counted on as many ranks as before."""
    happened = outcome.happened()
    later = [
        words["at"] - happened
        for words in outcome.said
        if happened is not None
        and words["event"] == "counted"
        and words["at"] > happened
        and words["size"] == RANKS
    ]
    return min(later, default=None)


def wrong_steps(said: list[Words]) -> list[str]:
    """The steps that do not count exactly once, on the ranks of one generation."""
    found = []
    made_in = collections.defaultdict(set)
    last: dict[int, int] = {}
    for words in said:
        if words["event"] != "counted":
            continue
        member, step = words["rank"], words["step"]
        if member in last and step != last[member] + 1:
            found.append(f"member {member} made step {step} after {last[member]}")
        last[member] = step
        made_in[step].add((words["generation"], words["size"]))
    found += [f"step {step} was made in {sorted(where)}" for step, where in made_in.items() if len(where) > 1]
    results = {(words["steps"], words["model"]) for words in said if words["event"] == "made"}
    steps = max(made_in, default=0)
    if results != {(steps, steps * (steps + 1) / 2)}:
        found.append(f"the results are {sorted(results)} after {steps} steps")
    return found


def elastic_shortcomings(cell: ElasticCell, outcome: Outcome) -> list[str]:
    """The shortcomings of an outcome, a sentence each."""
    found = wrong_steps(outcome.said) if cell.begins else []
    if cell.begins and outcome.happened() is None:  # else hrun may end the second victim before
        found.append("the fault did not happen")
    if outcome.code != cell.code:
        found.append(f"hrun's exit code is {outcome.code}, not {cell.code}")
    times = times_to_next_step(cell, outcome.said, outcome.acted)
    for member in cell.survivors if cell.all_go_on else ():
        if member not in times:
            found.append(f"member {member} did not go on")
        elif times[member] > cell.within:
            found.append(f"member {member} went on after {times[member]:.2f} s, not within {cell.within:g} s")
    if cell.begins and cell.ranks_at_last == RANKS and time_to_all_ranks(outcome) is None:
        found.append(f"there were never {RANKS} ranks again")
    if not cell.begins and "hrun: the job cannot begin: " not in outcome.errors:
        found.append("hrun does not say that the job cannot begin")
    found += [f"left: {each}" for each in outcome.left]
    found += outcome.descriptors_left()
    return found
