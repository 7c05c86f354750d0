# SPDX-License-Identifier: Apache-2.0
from ..contenders import TCP_ONLY, gloo_job, mpi_jobs
from ..interleave import Experiment
from ..jobs import BenchJob
from ..sizes import KIB, MIB, between, named
from ..table import Row, Settings, View
from ..targets import at_most, of_limit, times

RANKS = (2, 4)


def _experiment(ranks: int, settings: Settings) -> Experiment:
    last, factor = (8 * MIB, 1024) if settings.quick else (64 * MIB, 8)
    options = [
        "--level",
        "hosts",
        "-b",
        "8",
        "-e",
        str(last),
        "-f",
        str(factor),
        "-n",
        "5" if settings.quick else "20",
    ]
    sizes = [8 * factor**power for power in range(9) if 8 * factor**power <= last]
    hora = BenchJob(
        "hora",
        {"hora": "hora", "raw": "raw"},
        tuple(options),
        ranks,
        environment={"HORA_CPU_OPERATIONS": "tcp"},
    )
    cases = {named(size): size for size in sizes}
    gloo = gloo_job("gloo", "sizes", {"cases": cases, "iterations": 20}, ranks)
    return Experiment(
        f"loopback, {ranks} ranks",
        f"float32 sums over TCP on one host, {ranks} ranks",
        [hora, *mpi_jobs(options, ranks, TCP_ONLY), gloo],
    )


ROW = Row(
    key="b8",
    title="TCP on loopback",
    what="Shared memory switched off everywhere. The limit is a raw exchange of as many bytes over one socket for each pair of ranks, in both directions at once.",
    missed="The kernel copies each byte twice, on the cores that add, too; the raw exchange has these copies alone. Tried, on a machine that others used at the "
    "same time, so that a tenth more or less means nothing: segments of 32 KiB to 1 MiB, two to eight on "
    "their way (two of 256 KiB are best or as good as "
    "the best, on two and four ranks); looking out for longer before sleeping, and a send buffer of 1 MB (no "
    "clear difference). Without a congestion "
    "control that spaces what it sends, sums of 16 MiB between four ranks take a third less time. While "
    "others use the cores, two ranks reach about half of "
    "the raw exchange at 16 MiB, probably because that waits for nobody's segments. "
    "Around 2 MiB, where all buffers stay in the second-level cache, Open MPI is as fast as Hora, and on one "
    "machine took half of the raw exchange's time: so there "
    "more is possible, and how is not known yet.",
    experiments=lambda settings: [_experiment(ranks, settings) for ranks in RANKS],
    views=lambda: [
        View(
            f"loopback, {ranks} ranks",
            "hora",
            (
                times(1.5).when(between(MIB)),
                of_limit(0.85).when(between(MIB)),
                at_most(5000, "us", "longest").when(between(8, 256 * KIB)),
            ),
            limit="raw",
            heading=f"{ranks} ranks",
        )
        for ranks in RANKS
    ],
)
