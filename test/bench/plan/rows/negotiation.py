# SPDX-License-Identifier: Apache-2.0
from ..contenders import rank_jobs
from ..interleave import Experiment
from ..jobs import Job, RankJob
from ..table import Row, Settings, View
from ..targets import at_most, times


def _rate(settings: Settings) -> Experiment:
    cases = {"1 at a time": 1, "100 at a time": 100}
    return Experiment("negotiation", "time for each tensor of one element, 2 ranks", rank_jobs("rate", {"cases": cases, "iterations": 20 if settings.quick else 200}))


def _idle(settings: Settings) -> Experiment:
    return Experiment("idle", "a program that does nothing, 2 ranks", rank_jobs("idle", {"seconds": 1 if settings.quick else 5}, gloo=False), "as named")


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
    "does nothing; and what a program that only computes loses by being in a job (the limit: the same program in none).",
    missed="The time is Python's: 9 us to look at a tensor, name it and submit it, 1.5 us to take its result, on either rank; the runtime needs 2.5 us for one "
    "(b5, from C++). Horovod's own way through Python takes 8 us, with an engine that never sleeps: it takes a whole core while its program does nothing, "
    "and a third to half of what a program computes, as the tables below show. Tried: an engine that leaves little for a moment, and wakes less often the "
    "more comes (1 at a time 37 us before); fewer locks, and no handing on of the interpreter lock for what has ended. Not tried yet: DLPack's table of C "
    "functions, by which a tensor could be looked at without Python.",
    experiments=lambda settings: [_rate(settings), _idle(settings), _computing(settings)],
    views=lambda: [
        View("negotiation", "hora", (times(20, "horovod", "Horovod"),), not_peers=("gloo",)),
        View("idle", "hora", (at_most(5, "/s"),), chosen=lambda case: case.endswith("/s"), heading="idle: wake-ups"),
        View("idle", "hora", (at_most(0.1, "%"),), chosen=lambda case: "%" in case, heading="idle: CPU"),
        View("computing", "hora", (times(0.99, "without", "a program in no job"),), limit="", heading="computing"),
    ],
)
