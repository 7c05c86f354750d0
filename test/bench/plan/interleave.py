# SPDX-License-Identifier: Apache-2.0
"""The rules of every measurement, in one place.

Contenders take turns, A B C A B C, in blocks; each turn is a whole job, as their launchers differ. Inside,
every rank writes its whole input anew before each call, and looks at the whole result after it. A call takes
from the last rank's begin to the last one's end. Of a block counts the median; a contender's figure is the
median of its blocks, a ratio is that of such medians, with those of single blocks at least and at most.
Before each job it is looked how near each other the processors are, which hypervisors change; a block in
which that differs by more than a factor is made again.
"""

import dataclasses
from collections.abc import Callable, Sequence

from . import machine
from .figures import Result
from .jobs import Job, JobFailed

ALIKE = 2.0  # the factor
TRIES = 3  # to make a block on a machine that stays as it is


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Jobs that are compared with each other."""

    key: str
    title: str
    jobs: Sequence[Job]
    unit: str = "us"


def are_alike(seen: list[dict[str, float]]) -> bool:
    return all(
        max(values) <= ALIKE * min(values) for values in ([one[key] for one in seen] for key in seen[0])
    )


def measure(experiment: Experiment, blocks: int, report: Callable[[str], None], tries: int = TRIES) -> Result:
    result = Result(experiment.title, experiment.unit)
    taking_part = []
    for job in experiment.jobs:
        absent = job.missing()
        if absent is None:
            taking_part.append(job)
        else:
            result.missing[job.name] = absent
    for block in range(blocks):
        report(f"{experiment.title}: block {block + 1} of {blocks}")
        taking_part = _add_block(result, taking_part, report, tries)
    return result


def _add_block(result: Result, jobs: list[Job], report: Callable[[str], None], tries: int) -> list[Job]:
    """Adds a block; returns the jobs that did not fail."""
    for attempt in range(1, tries + 1):
        seen: list[dict[str, float]] = []
        collected = []
        left = []
        for job in jobs:
            seen.append(machine.fingerprint())
            try:
                collected.append(job.run())
                left.append(job)
            except JobFailed as failure:
                report(f"{job.name} failed: {failure}")
                result.missing[job.name] = str(failure)
        jobs = left
        alike = not seen or are_alike(seen)
        result.fingerprints += seen
        if alike or attempt == tries:
            break
        result.redone += 1
    result.unlike += not alike
    for samples in collected:
        result.add(samples)
    return jobs
