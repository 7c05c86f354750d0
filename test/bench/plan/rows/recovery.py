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
        RecoveryJob("Horovod elastic", "horovod", max(kills // 3, 1)),
        RecoveryJob("Gloo, reconfigured", "reconfigured", max(kills // 3, 1)),
    ]
    return [Experiment("recovery", "until the next step counts after a kill, 4 ranks, 100 MB", jobs, "ms")]


ROW = Row(
    key="b17",
    title="the loss of a rank",
    what="A training of a model of 100 MB on four ranks, of which one at a time is killed (SIGKILL), at random and as soon as there are four again. The figure is the time "
    "from the last step before the kill to the first one in which the lost rank has no part, less as many normal steps. Hora's "
    "`Training` goes on with the ranks that are left. torchrun ends all ranks and starts them again; they "
    "load a checkpoint, which rank 0 has written to memory after each step. torchft 0.2.0 over Gloo has "
    "four replica groups of one rank; torchrun starts a killed one again. Horovod 0.28.1 over Gloo commits "
    "each step to memory; its elastic mode goes on with the ranks that are left. Each rank is a host of its own "
    "to it, as Horovod gives up a host on which a rank has failed. Ranks that do not notice the loss themselves "
    "wait for Gloo's timeout: 2 s here, 30 s if it is not set. After about half of the kills a second rank aborts, "
    "and is lost, too. Gloo, reconfigured, is what PyTorch 2.15 has (`enable_reconfigure`): the ranks that are "
    "left make their group anew. PyTorch tells nobody who is left; here the shell that starts the ranks "
    "writes it to files, and each rank looks for them while it waits. "
    "Neither of these two replaces a rank here, so each kill has a job of its own.",
    missed="The kernel takes 60 to 200 ms of a core to free a killed process with PyTorch, and four ranks share two cores here: "
    "Gloo's ranks, which need not agree on anything, go on no sooner. hrun hears of the kill within 4 ms. Without "
    "PyTorch in the killed process the next step counts after 15 ms (test/faults/RESULTS.md).",
    experiments=_experiments,
    views=lambda: [View("recovery", "hora", (at_most(25, "ms"), times(10)))],
)
