# SPDX-License-Identifier: Apache-2.0
"""Compares what was seen of a cell with what is to be expected."""

from performance import HEARTBEAT, Outcome
from table import Cell, expected, matches

QUIET = 5.0  # seconds after hrun's return in which the last process is to end


def notice_times(outcome: Outcome) -> dict[int, float]:
    """Seconds from the fault until each rank knew."""
    happened = outcome.happened()
    if happened is None or expected(outcome.cell).told is None:
        return {}
    return {rank: at - happened for rank, (at, _) in outcome.told().items()}


def hrun_returns_after(outcome: Outcome) -> float | None:
    happened = outcome.happened()
    return None if happened is None else outcome.returned - happened


def shortcomings(cell: Cell, outcome: Outcome, heartbeat: float = HEARTBEAT) -> list[str]:
    """The shortcomings of an outcome, a sentence each."""
    found = []
    wanted = expected(cell, heartbeat)
    if outcome.happened() is None:
        found.append("the fault did not happen")
    if outcome.code is None:
        found.append("hrun did not return")
    elif wanted.code is not None and outcome.code != wanted.code:
        found.append(f"hrun's exit code is {outcome.code}, not {wanted.code}")
    after = hrun_returns_after(outcome)
    if after is not None and after > wanted.returns:
        found.append(f"hrun returned after {after:.1f} s, not within {wanted.returns:g} s")
    if wanted.report and not matches(wanted.report, outcome.errors):
        found.append("hrun does not say whom it happened to")
    found += _of_words(cell, outcome, heartbeat)
    found += [f"left: {each}" for each in outcome.left]
    found += outcome.descriptors_left()
    if outcome.quiet_after > QUIET:
        found.append(f"processes were left for {outcome.quiet_after:.1f} s")
    return found


def _of_words(cell: Cell, outcome: Outcome, heartbeat: float) -> list[str]:
    """The shortcomings of what the ranks were told."""
    wanted = expected(cell, heartbeat)
    told, times = outcome.told(), notice_times(outcome)
    if wanted.told is None:
        return [
            f"rank {rank} was told: {what}"
            for rank, (_, what) in told.items()
            if what != "shutdown has returned"
        ]
    found = []
    for rank in [*cell.survivors, *(cell.victims.ranks if wanted.victims_told else ())]:
        if rank not in told:
            found.append(f"rank {rank} was told nothing")
            continue
        if not matches(wanted.told, told[rank][1]):
            found.append(f"rank {rank} was told: {told[rank][1]}")
        if times and times[rank] > wanted.within:
            found.append(f"rank {rank} knew after {times[rank]:.2f} s, not within {wanted.within:g} s")
    return found
