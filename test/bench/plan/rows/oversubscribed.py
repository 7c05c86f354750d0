# SPDX-License-Identifier: Apache-2.0
from ..sizes import KIB, between
from ..table import Row, View
from ..targets import at_most, times
from . import plane

RANKS = (4, 8)

ROW = Row(
    key="b4",
    title="more ranks than cores",
    what="4 and 8 ranks; on a machine of 2 cores they have to give way to each other. Open MPI also with mpi_yield_when_idle.",
    experiments=lambda settings: [plane.experiment(ranks, settings) for ranks in RANKS],
    views=lambda: [
        View(
            plane.key(ranks),
            "hora arena",
            (times(3).when(between(64 * KIB)), at_most(1000, "us", "p99").only(["8 B"])),
            heading=f"{ranks} ranks",
        )
        for ranks in RANKS
    ],
)
