# SPDX-License-Identifier: Apache-2.0
from ..contenders import rank_jobs
from ..interleave import Experiment
from ..jobs import Job, RankJob
from ..table import Row, Settings, View
from ..targets import at_most, times


def _rate(settings: Settings) -> Experiment:
    cases = {"1 at a time": 1, "100 at a time": 100}
    return Experiment(
        "negotiation",
        "time for each tensor of one element, 2 ranks",
        rank_jobs("rate", {"cases": cases, "iterations": 20 if settings.quick else 200}),
    )


def _idle(settings: Settings) -> Experiment:
    return Experiment(
        "idle",
        "a program that does nothing, 2 ranks",
        rank_jobs("idle", {"seconds": 1 if settings.quick else 5}, gloo=False),
        "as named",
    )


def _computing(settings: Settings) -> Experiment:
    options = {"iterations": 100 if settings.quick else 3000}
    jobs: list[Job] = [
        RankJob("without", "none", "computing", options),
        *rank_jobs("computing", options, gloo=False),
    ]
    return Experiment("computing", "a program that only computes, 2 ranks", jobs)


ROW = Row(
    key="b10",
    title="negotiation; idle",
    what="Tensors of one element in a closed loop, so that nearly all is negotiation; how often threads of a rank wake up, and what CPU they take, while its program "
    "does nothing; and what a program that only computes loses by being in a job (the limit: the same "
    "program in none).",
    missed="Of many at a time Horovod's own way through Python takes 8 us for each, with an engine that never sleeps: it takes a whole core while its program does "
    "nothing, and a third to half of what a program computes, as the tables below show. Twenty times that is "
    "out of reach of anything called from Python: Hora "
    "spends 5 us there on one tensor (name, arguments, handle), of 9 in all. Tried: an engine that leaves "
    "little for a moment, and wakes less often the more "
    "comes (1 at a time 37 us before); DLPack's C functions instead of looks at the tensor, and what is lent "
    "kept by the native handle (1 at a time 25 us before, "
    "100 at a time 18). The loss of a program that only computes, by being in a job, is nearer to such a "
    "machine's noise (0.94 to 1.03 in single blocks of two runs) than "
    "to what its engine takes, which is the 0.02 % above.",
    experiments=lambda settings: [_rate(settings), _idle(settings), _computing(settings)],
    views=lambda: [
        View("negotiation", "hora", (times(20, "horovod", "Horovod"),), not_peers=("gloo",)),
        View(
            "idle",
            "hora",
            (at_most(5, "/s"),),
            chosen=lambda case: case.endswith("/s"),
            heading="idle: wake-ups",
        ),
        View("idle", "hora", (at_most(0.1, "%"),), chosen=lambda case: "%" in case, heading="idle: CPU"),
        View(
            "computing",
            "hora",
            (times(0.99, "without", "a program in no job"),),
            limit="",
            heading="computing",
        ),
    ],
)
