# SPDX-License-Identifier: Apache-2.0
"""The raw plane on one host, which rows B1 to B4 look at: collectives without a runtime above them."""

from ..contenders import gloo_job, mpi_jobs
from ..interleave import Experiment
from ..jobs import BenchJob, Job
from ..sizes import KIB, MIB, named
from ..table import Settings


def experiment(ranks: int, settings: Settings) -> Experiment:
    first, last, factor = (
        (8, 512 * KIB, 256)
        if settings.quick
        else (8, 256 * MIB if ranks == 2 else 64 * MIB, 2 if ranks == 2 else 4)
    )
    options = ["-b", str(first), "-e", str(last), "-f", str(factor)]
    if settings.quick:
        options += ["-n", "5"]
    contenders = {"arena": "hora arena", "private": "hora private", "limit": "limit"}
    jobs: list[Job] = [
        BenchJob("hora", contenders, tuple(options), ranks),
        *mpi_jobs(options, ranks, yields=ranks > 2),
    ]
    sizes = [first * factor**power for power in range(64) if first * factor**power <= min(last, 64 * MIB)]
    cases = {named(size): size for size in sizes if size <= KIB or factor > 2 or size >= 64 * KIB}
    jobs.append(gloo_job("gloo", "sizes", {"cases": cases, "iterations": 5 if settings.quick else 20}, ranks))
    return Experiment(key(ranks), f"float32 sums on {ranks} ranks, without a runtime", jobs)


def key(ranks: int) -> str:
    return f"plane, {ranks} ranks"
