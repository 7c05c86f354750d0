# SPDX-License-Identifier: Apache-2.0
from typing import Any

from ..contenders import alone_jobs, baseline, gloo_job, horovod_jobs, keeping_memory
from ..figures import Figure, combined
from ..interleave import Experiment
from ..jobs import Job, RankJob, StepsJob
from ..table import Cases, Row, Settings, View
from ..targets import at_most, times

MODELS = ["CNN", "MLP"]


def _together(settings: Settings) -> Experiment:
    options: dict[str, Any] = {"models": MODELS, "iterations": 3 if settings.quick else 30}
    jobs: list[Job] = [
        *alone_jobs("training", options),
        RankJob("hora", "hora", "training", options),
        StepsJob("hora C++", "alone C++", 2 if settings.quick else 10),
        *horovod_jobs("training", options),
        gloo_job("DDP", "training", options),
        gloo_job("DDP views", "training", {**options, "gradient_as_bucket_view": True}),
    ]
    return Experiment("training", "steps of training, 2 ranks of one thread each", keeping_memory(jobs))


def _one(settings: Settings) -> Experiment:
    options: dict[str, Any] = {"models": MODELS, "iterations": 5 if settings.quick else 20}
    jobs: list[Job] = [
        RankJob("hora", "hora", "wrapper", options, 1),
        StepsJob("hora C++", "alone C++", 2 if settings.quick else 20, 1),
    ]
    return Experiment("wrapper", "steps of training, 1 rank", keeping_memory(jobs))


def _bare(name: str) -> str:
    return "alone C++" if name == "hora C++" else baseline(name)


def _overhead(cases: Cases) -> Cases:
    """Beyond what as many ranks that do not know of each other take."""
    derived: Cases = {}
    for case, figures in cases.items():
        others = {name: figure for name, figure in figures.items() if not name.startswith("alone")}
        derived[case] = {
            name: combined(figure, figures[_bare(name)], lambda both, bare: both - bare)
            for name, figure in others.items()
            if _bare(name) in figures
        }
    return derived


def _cost(cases: Cases) -> Cases:
    """Per cent by which the wrapper lengthens a step."""
    derived: Cases = {}
    for case, figures in cases.items():
        model, _, kind = case.rpartition(": ")
        if kind == "wrapped":
            _add_cost(derived, model, "hora", figures["hora"], cases[f"{model}: plain"]["hora"])
        elif "hora C++" in figures:
            _add_cost(derived, case, "hora C++", figures["hora C++"], figures["alone C++"])
    return derived


def _add_cost(derived: Cases, model: str, name: str, wrapped: Figure, bare: Figure) -> None:
    derived.setdefault(model, {})[name] = combined(wrapped, bare, lambda one, other: 100 * (one / other - 1))


ROW = Row(
    key="b14",
    title="training on the CPU",
    what="A small CNN (three convolutions of 32 x 32 pixels) and an MLP (six layers of 1024). Overhead is what a step takes longer than on as many ranks that do not "
    "know of each other. Size 1: per cent by which DistributedOptimizer lengthens a step of a rank that is "
    "alone. All keep memory that they have freed (malloc's "
    "settings): else a step of the MLP, which allocates 25 MB of gradients, costs 0 to 6000 page faults, by "
    "where they happen to lie.",
    missed="The CNN has eight gradients of 136 KB in all, and a backward pass of 4 ms, between whose convolutions all code finds its caches cold: in Python 16 hooks "
    "take 0.2 ms (empty ones 0.07), and the round at the end 0.3 to 0.4, half of which is the wait for the "
    "slower rank. Tried before: submitting in the hooks, as "
    "peers do. The engine then takes the core from the program ten times a step: 1.9 ms in all in Python and "
    "0.8 in C++; less, if it leaves little for some ms. The "
    "rest is that each step takes as long as the slower rank, which is so for all contenders, and varies by "
    "a tenth from step to step on such a machine.",
    experiments=lambda settings: [_together(settings), _one(settings)],
    views=lambda: [
        View("training", "hora", (times(3),), derive=_overhead, heading="overhead, Python"),
        View(
            "training",
            "hora C++",
            (times(3),),
            derive=_overhead,
            heading="overhead, C++, against peers from Python",
        ),
        View("wrapper", "hora", (at_most(1, "%"),), derive=_cost, unit="%", heading="size 1, Python"),
        View("wrapper", "hora C++", (at_most(1, "%"),), derive=_cost, unit="%", heading="size 1, C++"),
    ],
)
