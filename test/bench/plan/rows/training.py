# SPDX-License-Identifier: Apache-2.0
from typing import Any

from .. import launchers
from ..contenders import gloo_job, horovod_jobs
from ..figures import combined
from ..interleave import Experiment
from ..jobs import Job, RankJob
from ..table import Cases, Row, Settings, View
from ..targets import at_most, times

MODELS = ["CNN", "MLP"]


def _together(settings: Settings) -> Experiment:
    options: dict[str, Any] = {"models": MODELS, "iterations": 3 if settings.quick else 30}
    jobs: list[Job] = [
        RankJob("alone", "none", "training", options, 2, launchers.processes),
        RankJob("hora", "hora", "training", options),
        *horovod_jobs("training", options),
        gloo_job("DDP", "training", options),
        gloo_job("DDP views", "training", {**options, "gradient_as_bucket_view": True}),
    ]
    return Experiment("training", "steps of training, 2 ranks of one thread each", jobs)


def _one(settings: Settings) -> Experiment:
    options: dict[str, Any] = {"models": MODELS, "iterations": 5 if settings.quick else 20}
    return Experiment("wrapper", "steps of training, 1 rank", [RankJob("hora", "hora", "wrapper", options, 1)])


def _overhead(cases: Cases) -> Cases:
    """Beyond what as many ranks that do not know of each other take."""
    derived: Cases = {}
    for case, figures in cases.items():
        others = {name: figure for name, figure in figures.items() if name != "alone"}
        derived[case] = {name: combined(figure, figures["alone"], lambda both, alone: max(both - alone, 1.0)) for name, figure in others.items()}
    return derived


def _cost(cases: Cases) -> Cases:
    """Per cent by which the wrapper lengthens a step."""
    derived: Cases = {}
    for case, figures in cases.items():
        model, _, kind = case.rpartition(": ")
        if kind == "wrapped":
            plain = cases[f"{model}: plain"]["hora"]
            derived[model] = {"hora": combined(figures["hora"], plain, lambda wrapped, bare: 100 * (wrapped / bare - 1))}
    return derived


ROW = Row(
    key="b14",
    title="training on the CPU",
    what="A small CNN (three convolutions of 32 x 32 pixels) and an MLP (six layers of 1024). Overhead is what a step takes longer than on as many ranks that do not "
    "know of each other. Size 1: per cent by which DistributedOptimizer lengthens a step of a rank that is alone.",
    experiments=lambda settings: [_together(settings), _one(settings)],
    views=lambda: [
        View("training", "hora", (times(3),), derive=_overhead, heading="overhead"),
        View("wrapper", "hora", (at_most(1, "%"),), derive=_cost, heading="size 1"),
    ],
)
