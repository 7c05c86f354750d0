# SPDX-License-Identifier: Apache-2.0
from ..interleave import Experiment
from ..recovery import RecoveryJob
from ..table import Row, Settings, View
from ..targets import at_most, times


def _experiments(settings: Settings) -> list[Experiment]:
    kills = 2 if settings.quick else 10
    jobs = [
        RecoveryJob("hora", "hora", kills),
        RecoveryJob("torchrun, a checkpoint each step", "checkpoint", max(kills // 3, 1)),
        RecoveryJob("torchft", "torchft", max(kills // 3, 1)),
    ]
    return [Experiment("recovery", "until the next step counts after a kill, 4 ranks, 100 MB", jobs, "ms")]


ROW = Row(
    key="b17",
    title="the loss of a rank",
    what="A training of a model of 100 MB on four ranks, of which one at a time is killed (SIGKILL), at random and as soon as there are four again. The figure is the time "
    "from the kill until the next step counts on all ranks that make it, less a normal step. Hora's "
    "`Training` goes on with the ranks that are left. torchrun ends all ranks and starts them again; they "
    "load a checkpoint, which rank 0 has written to memory after each step. torchft 0.2.0 over Gloo has "
    "four replica groups of one rank; torchrun starts a killed one again.",
    missed="The kernel takes 60 to 200 ms of a core to free a killed process with PyTorch, and four ranks share two cores here. hrun hears of the kill within 4 ms.",
    experiments=_experiments,
    views=lambda: [View("recovery", "hora", (at_most(25, "ms"), times(10)))],
)
