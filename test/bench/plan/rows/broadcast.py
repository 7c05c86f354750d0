# SPDX-License-Identifier: Apache-2.0
from ..contenders import rank_jobs
from ..gradients import MODELS
from ..interleave import Experiment
from ..table import Row, Settings, View
from ..targets import times

LISTS = ("ResNet-50", "BERT-large")
RANKS = (2, 4)


def _experiment(model: str, ranks: int, settings: Settings) -> Experiment:
    options = {"case": model, "counts": MODELS[model](), "iterations": 3 if settings.quick else 5 if model == "ResNet-50" else 2}
    return Experiment(f"broadcast, {model}, {ranks}", f"parameters of {model}, {ranks} ranks", rank_jobs("broadcast", options, ranks))


def _experiments(settings: Settings) -> list[Experiment]:
    if settings.quick:
        return [_experiment("ResNet-50", 2, settings)]
    return [_experiment(model, ranks, settings) for model in LISTS for ranks in RANKS if model == "ResNet-50" or ranks == 2]


ROW = Row(
    key="b16",
    title="broadcast of parameters",
    what="Rank 0's parameters for everybody: broadcast_parameters, and for PyTorch what DistributedDataParallel does first (it also compares shapes).",
    experiments=_experiments,
    views=lambda: [View(f"broadcast, {model}, {ranks}", "hora", (times(3),), heading=f"{ranks} ranks") for model in LISTS for ranks in RANKS],
)
