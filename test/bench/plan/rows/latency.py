# SPDX-License-Identifier: Apache-2.0
from ..sizes import KIB, between
from ..table import Row, View
from ..targets import times
from . import plane

ROW = Row(
    key="b3",
    title="latency of small sums, 2 ranks",
    what="The same for 8 B to 4 KiB, where Open MPI is the peer to beat. Least is the round trip of one flag, which fingerprints tell.",
    experiments=lambda settings: [plane.experiment(2, settings)],
    views=lambda: [
        View(
            plane.key(2),
            "hora arena",
            (times(1 / 1.2, "mpi", "Open MPI").only(["8 B"]), times(1, "mpi", "Open MPI").only(["1 KiB"])),
            chosen=between(8, 4 * KIB),
            limit="",
        )
    ],
)
