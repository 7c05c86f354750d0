# SPDX-License-Identifier: Apache-2.0
from ..contenders import gloo_job, horovod_jobs
from ..figures import Figure
from ..gradients import MODELS
from ..interleave import Experiment
from ..jobs import Job, RankJob
from ..table import Cases, Row, Settings, View
from ..targets import at_least

LISTS = ("ResNet-50", "BERT-base")


def _experiment(model: str, settings: Settings) -> Experiment:
    options = {"case": model, "counts": MODELS[model](), "iterations": 3 if settings.quick else 10}
    jobs: list[Job] = [
        RankJob("hora", "hora", "overlap", {**options, "form": "arena"}),
        *horovod_jobs("overlap", options),
    ]
    jobs.append(gloo_job("gloo views 25 MiB", "overlap", {**options, "form": "views"}))
    return Experiment(f"overlap, {model}", f"gradients of {model}, behind layers that sleep, 2 ranks", jobs)


def _hidden(cases: Cases) -> Cases:
    """The share of the time of the reduction alone that does not lengthen the step."""
    derived: Cases = {}
    for case, both in cases.items():
        model, _, kind = case.rpartition(": ")
        if kind != "both":
            continue
        layers, alone = cases[f"{model}: layers"], cases[f"{model}: reduction"]
        derived[model] = {name: _share(both[name], layers[name], alone[name]) for name in both}
    return derived


def _share(both: Figure, layers: Figure, alone: Figure) -> Figure:
    blocks = zip(both.blocks, layers.blocks, alone.blocks, strict=False)
    return Figure(
        [1 - (together - computing) / reduction for together, computing, reduction in blocks],
        wrong=both.wrong + alone.wrong,
    )


ROW = Row(
    key="b13",
    title="overlap with computing that needs no CPU",
    what="Layers sleep, as if a GPU were at work, 1.5 times as long as the reduction takes alone; each gradient is reduced when its layer has ended. Told is which share "
    "of the reduction does not lengthen the step: 1 hides all of it.",
    missed="With ResNet-50 2.4 of 10 ms are not hidden. When gradients are not filled anew before each step, so that caches are warm, it is 1.1 ms: layers with many "
    "small gradients, of which the last ones come 0.2 to 0.4 ms later than they are due, since submitting "
    "one takes some 7 us of Python; the last piece of the "
    "reduction itself (0.4 to 0.5 ms); and 161 waits in Python (0.25 ms). Tried: native submitting and "
    "waiting, which take a third less than before; naps of the "
    "engine of 50 us to 1 ms, which make no difference: between layers its core is all but saturated (161 "
    "turns, and as many submissions of 14 us each). Peers hide "
    "a larger share of a reduction that takes seven times as long. With BERT-base it is all that can be "
    "hidden: the embeddings, 95 of 438 MB, are made last, and nothing "
    "is computed meanwhile; their sum alone takes 7 of 34 ms.",
    experiments=lambda settings: [
        _experiment(model, settings) for model in (LISTS[:1] if settings.quick else LISTS)
    ],
    views=lambda: [
        View(f"overlap, {model}", "hora", (at_least(0.9),), derive=_hidden, unit="", larger=True)
        for model in LISTS
    ],
)
