# SPDX-License-Identifier: Apache-2.0
from ..sizes import KIB, between
from ..table import Row, View
from ..targets import times
from . import plane

ROW = Row(
    key="b2",
    title="float32 in private buffers, 2 ranks",
    what="The same sums of buffers that each rank has allocated by itself, as peers have to take them. The limit is that of buffers in the arena.",
    missed="Private memory of another process is reached through the kernel (process_vm_readv), which pins its pages one by one: 7 to 8 GB/s for each core on such "
    "machines; Open MPI goes that way. By way of stages in shared memory, of which only what the other rank "
    "sums passes, it takes half of that time here while both "
    "processors share a cache. The first sums of each size find out which way is the faster one. Memory "
    "in the arena from the start, as gradients of a "
    "DistributedOptimizer do, is in the row above.",
    experiments=lambda settings: [plane.experiment(2, settings)],
    views=lambda: [View(plane.key(2), "hora private", (times(1.5, or_limit=0.85).when(between(64 * KIB)),))],
)
