# SPDX-License-Identifier: Apache-2.0
from ..contenders import rank_jobs
from ..gradients import MODELS
from ..interleave import Experiment
from ..table import Row, Settings, View
from ..targets import times

LISTS = ("ResNet-50", "BERT-large")
RANKS = (2, 4)


def _experiment(model: str, ranks: int, settings: Settings) -> Experiment:
    options = {
        "case": model,
        "counts": MODELS[model](),
        "iterations": 3 if settings.quick else 5 if model == "ResNet-50" else 2,
    }
    return Experiment(
        f"broadcast, {model}, {ranks}",
        f"parameters of {model}, {ranks} ranks",
        rank_jobs("broadcast", options, ranks),
    )


def _experiments(settings: Settings) -> list[Experiment]:
    if settings.quick:
        return [_experiment("ResNet-50", 2, settings)]
    return [
        _experiment(model, ranks, settings)
        for model in LISTS
        for ranks in RANKS
        if model == "ResNet-50" or ranks == 2
    ]


ROW = Row(
    key="b16",
    title="broadcast of parameters",
    what="Rank 0's parameters for everybody: broadcast_parameters, and for PyTorch what DistributedDataParallel does first (it also compares shapes).",
    missed="Parameters are private memory of PyTorch's, which other processes reach through the kernel alone: it pins them page by page. Exchanging as many bytes that "
    "way between two processes, with nothing else done, took 10 to 12 ms for ResNet-50's on pages of 4 KiB "
    "(5.5 ms on huge ones, which PyTorch does not ask "
    "for). On 4 ranks three times as many bytes go through the same two cores. Tried: by way of stages in "
    "shared memory, in parts of 64 KiB to 2 MiB: with "
    "ordinary stores 5 to 45 ms by themselves, as the processors' distance is; with stores on both sides "
    "that bypass the caches 6 to 9 against 9 to 13 through "
    "the kernel on an AMD EPYC, but they are 2 to 4 times slower than ordinary ones on an Intel Xeon, and a "
    "job has but one broadcast to find out; all tensors "
    "in one call, each rank moving a share of the bytes (in use). Comparing names and shapes first, which "
    "peers do not do, takes about 1 ms.",
    experiments=_experiments,
    views=lambda: [
        View(f"broadcast, {model}, {ranks}", "hora", (times(3),), heading=f"{ranks} ranks")
        for model in LISTS
        for ranks in RANKS
    ],
)
