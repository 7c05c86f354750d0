# SPDX-License-Identifier: Apache-2.0
from typing import Any

from ..contenders import gloo_job, keeping_memory
from ..interleave import Experiment
from ..jobs import Job, RankJob
from ..sizes import KIB, MIB, named
from ..table import Row, Settings, View
from ..targets import against, at_most, times

LARGE = named(16 * MIB)


def _calls(settings: Settings) -> Experiment:
    sizes = [8, 16 * MIB] if settings.quick else [8, 64 * KIB, MIB, 16 * MIB]
    options = {
        "cases": {named(size): size for size in sizes},
        "iterations": 20 if settings.quick else 200,
        "pause": 0.0,
    }
    jobs: list[Job] = [
        RankJob("hora c10d", "hora c10d", "sizes", options),
        RankJob("hora", "hora", "sizes", options),
        gloo_job("gloo", "sizes", options),
    ]
    return Experiment("c10d calls", "all_reduce, 2 ranks", jobs)


def _steps(settings: Settings) -> Experiment:
    options: dict[str, Any] = {"models": ["100 MB"], "iterations": 5 if settings.quick else 20}
    views = {**options, "gradient_as_bucket_view": True}
    jobs: list[Job] = [
        RankJob("hora DDP", "hora c10d", "training", options),
        RankJob("hora DDP views", "hora c10d", "training", views),
        RankJob("hora DDP views, hook", "hora c10d", "training", {**views, "hook": True}),
        RankJob("hora", "hora", "training", options),
        gloo_job("gloo DDP", "training", options),
        gloo_job("gloo DDP views", "training", views),
    ]
    return Experiment(
        "c10d steps", "steps with 100 MB of gradients, 2 ranks of one thread each", keeping_memory(jobs)
    )


def _sharded(settings: Settings) -> Experiment:
    options: dict[str, Any] = {
        "models": ["100 MB"],
        "iterations": 5 if settings.quick else 20,
        "fully_shard": True,
    }
    jobs: list[Job] = [
        RankJob("hora FSDP2", "hora c10d", "training", options),
        gloo_job("gloo FSDP2", "training", options),
    ]
    return Experiment(
        "c10d sharded", "the same, each layer sharded, 2 ranks of one thread each", keeping_memory(jobs)
    )


ROW = Row(
    key="b18",
    title="torch.distributed",
    what='Programs of torch.distributed by `init_process_group("hora")` and by "gloo": calls of all_reduce that '
    "wait; training steps of 24 linear layers of 1024, whose gradients DistributedDataParallel averages (views: "
    "gradient_as_bucket_view; hook: ddp_hook), beside hora.torch.DistributedOptimizer (hora); and with each layer "
    "sharded by fully_shard.",
    missed="An all_reduce of 8 B takes two and a half times as long as hora.torch's: the rest is Python code of "
    "PyTorch and of the backend, 40 calls of functions. Each call here comes after a check of the last result, so this "
    "code is no longer in the caches; in a loop of calls alone it takes 31 us, and hora.torch 16. Gradients of "
    "DistributedDataParallel lie in private memory of PyTorch's, and its interface lets them lie nowhere else; "
    "DistributedOptimizer keeps them where ranks reduce them without a copy.",
    experiments=lambda settings: [_calls(settings), _steps(settings), _sharded(settings)],
    views=lambda: [
        View(
            "c10d calls",
            "hora c10d",
            (
                at_most(40, "us").only([named(8)]),
                times(4, "gloo", "Gloo").only([LARGE]),
                against("hora", 0.77, "hora.torch").only([LARGE]),
            ),
            heading="calls",
        ),
        View("c10d steps", "hora DDP", (times(1, "gloo DDP", "Gloo"),), heading="DDP"),
        View(
            "c10d steps",
            "hora DDP views",
            (times(1, "gloo DDP views", "Gloo"), against("hora", 0.87, "DistributedOptimizer")),
            heading="DDP, views",
        ),
        View("c10d sharded", "hora FSDP2", (times(2, "gloo", "Gloo"),), heading="FSDP2"),
    ],
)
