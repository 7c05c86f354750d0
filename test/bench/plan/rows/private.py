# SPDX-License-Identifier: Apache-2.0
from ..sizes import KIB, between
from ..table import Row, View
from ..targets import times
from . import plane

ROW = Row(
    key="b2",
    title="float32 in private buffers, 2 ranks",
    what="The same sums of buffers that each rank has allocated by itself, as peers have to take them. The limit is that of buffers in the arena.",
    experiments=lambda settings: [plane.experiment(2, settings)],
    views=lambda: [View(plane.key(2), "hora private", (times(1.5, or_limit=0.85).when(between(64 * KIB)),))],
)
