# SPDX-License-Identifier: Apache-2.0
from ..sizes import KIB, MIB, between
from ..table import Row, View
from ..targets import of_limit, times
from . import plane

NEAR = 0.85  # of the limit: all that it allows

ROW = Row(
    key="b1",
    title="float32 in the arena, 2 ranks",
    what="Sums of buffers that lie in memory which both ranks map. The limit is the same kernel over the same memory, in which every rank reads both inputs "
    "and writes both outputs of its half, and nobody waits for anybody.",
    missed="At 16 MiB the inputs and outputs of both ranks stop fitting into the last cache, and what was there when a call began decides: single blocks reach from two "
    "thirds of the limit to all of it. Below and above that size the share is steady.",
    experiments=lambda settings: [plane.experiment(2, settings)],
    views=lambda: [
        View(
            plane.key(2),
            "hora arena",
            (
                times(3).when(between(16 * KIB, MIB)),
                times(3, or_limit=NEAR).when(between(MIB + 1)),
                of_limit(NEAR).when(between(MIB)),
            ),
            chosen=between(8),
        )
    ],
)
