# SPDX-License-Identifier: Apache-2.0
from .. import namespaces
from ..contenders import HOROVODS
from ..interleave import Experiment
from ..jobs import BenchJob, Job, RankJob
from ..sizes import KIB, MIB, between, named
from ..table import Row, Settings, View
from ..targets import of_limit, times

RATES = ("1gbit", "10gbit")
PER_HOST = (1, 2)
DELAY = "50us"


def _key(rate: str, per_host: int) -> str:
    return f"hosts, {rate}, {per_host}"


def _experiment(rate: str, per_host: int, settings: Settings) -> Experiment:
    last = MIB if settings.quick else 64 * MIB
    sizes = [size for size in (8, 4 * KIB, MIB, 16 * MIB, 64 * MIB) if size <= last]
    ranks = 2 * per_host
    jobs: list[Job] = []
    for number, size in enumerate(sizes):
        options = (
            "--level",
            "hosts",
            "-b",
            str(size),
            "-e",
            str(size),
            "-n",
            "5" if size > 64 * KIB else "100",
        )
        contenders = {name: name for name in ("hora", "raw", "half", "mpi")}
        jobs.append(BenchJob(f"hora and mpi, {number}", contenders, options, ranks, namespaces.mpirun))
    cases = {named(size): size for size in sizes}
    jobs.append(
        RankJob("gloo", "gloo", "sizes", {"cases": cases, "iterations": 5}, ranks, namespaces.processes)
    )
    best = HOROVODS[1]
    jobs.append(
        RankJob(
            best.name,
            "horovod",
            "sizes",
            {"cases": cases, "iterations": 5},
            ranks,
            namespaces.mpirun,
            best.environment,
        )
    )
    title = f"float32 sums between two hosts, {per_host} ranks on each, a link of {rate} and {DELAY}"
    return Experiment(_key(rate, per_host), title, [namespaces.Across(job, rate, DELAY) for job in jobs])


def _experiments(settings: Settings) -> list[Experiment]:
    if settings.quick:
        return [_experiment("1gbit", 1, settings)]
    return [_experiment(rate, per_host, settings) for rate in RATES for per_host in PER_HOST]


ROW = Row(
    key="b9",
    title="two hosts",
    what="Two network namespaces of this machine with a link of a given rate, and of 50 us delay where the kernel has netem. The limit is a raw exchange between pairs "
    "of ranks of what has to cross the link. half: float16 on the wire, with the conversions.",
    missed="At 10 Gbit/s with two ranks on each host 64 MiB take half as long again as the link needs. Both hosts are the same two processors here: four ranks and four "
    "workers sum within hosts and carry bytes to the link in turns, and what of it is under way while the "
    "link works is for the scheduler to say: blocks reach from "
    "0.56 to 0.87. 16 MiB, which fit into caches, keep up with the link. Hosts with processors of their own "
    "were not at hand.",
    experiments=_experiments,
    views=lambda: [
        View(
            _key(rate, per_host),
            "hora",
            (of_limit(0.93).when(between(16 * MIB)), times(1, or_limit=0.93).when(between(MIB))),
            limit="raw",
            not_peers=("half",),
            heading=f"{rate}, {per_host} on each host",
        )
        for rate in RATES
        for per_host in PER_HOST
    ],
    needs=namespaces.unavailable,
)
