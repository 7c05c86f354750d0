# SPDX-License-Identifier: Apache-2.0
import pathlib

from suites.shell import ROOT

from .. import launchers
from ..contenders import TUNED, alone_jobs, baseline, gloo_job, horovod_jobs, keeping_memory
from ..figures import combined
from ..gradients import MODELS
from ..interleave import Experiment
from ..jobs import BenchJob, Job, RankJob
from ..table import Cases, Row, Settings, View
from ..targets import against, of_limit, times

BUCKETS = (("copies", 25), ("views", 25), ("views", 4), ("views", 100))  # MiB; 25 are DDP's own
LINE = 16  # elements


def _file(model: str, counts: list[int]) -> pathlib.Path:
    path = ROOT / f"build/bench/lists/{model}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(str, counts)) + "\n")
    return path


def _total(counts: list[int]) -> int:
    return 4 * sum((count + LINE - 1) // LINE * LINE for count in counts)


def _buckets(settings: Settings) -> tuple[tuple[str, int], ...]:
    return BUCKETS[:2] if settings.quick else BUCKETS


def _iterations(counts: list[int], settings: Settings) -> int:
    """In each block; fewer of long lists, of which each takes seconds to make and to look through."""
    if settings.quick:
        return 3
    megabytes = _total(counts) / 1e6
    return 10 if megabytes < 200 else 5 if megabytes < 1000 else 2


def _there(model: str, settings: Settings) -> Experiment:
    """All gradients are there when the clock starts."""
    counts = MODELS[model]()
    iterations = _iterations(counts, settings)
    listed = ("--level", "runtime", "--list", str(_file(model, counts)), "-n", str(iterations))
    flat = ("-b", str(_total(counts)), "-e", str(_total(counts)), "-n", str(iterations))
    options = {"case": model, "counts": counts, "iterations": iterations}
    jobs: list[Job] = [
        BenchJob(
            "hora C++",
            {name: f"hora {name}" for name in ("arena", "private", "behind", "produce")},
            listed,
            case=model,
        ),
        BenchJob("limit", {"limit": "limit"}, flat, case=model),
        RankJob("hora Python, private", "hora", "list", options),
        RankJob("hora Python, arena", "hora", "list", {**options, "form": "arena"}),
        *horovod_jobs("list", options),
    ]
    for name, environment in (("mpi", {}), ("mpi tuned", TUNED)):
        jobs.append(
            BenchJob(
                name,
                {"mpi": f"{name}, flat", "mpi each": f"{name}, each"},
                listed,
                2,
                launchers.mpirun,
                environment,
                model,
            )
        )
    for form, bucket in _buckets(settings):
        jobs.append(
            gloo_job(f"gloo {form} {bucket} MiB", "list", {**options, "form": form, "bucket_mib": bucket})
        )
    return Experiment(
        f"list, {model}",
        f"gradients of {model} ({len(counts)} tensors, {_total(counts) / 1e6:.1f} MB), 2 ranks",
        jobs,
    )


def _backward(model: str, settings: Settings) -> Experiment:
    """They are made one after the other by backward(), and reduced by an optimizer, or DDP."""
    counts = MODELS[model]()
    options = {"case": model, "counts": counts, "iterations": _iterations(counts, settings)}
    jobs: list[Job] = [
        *alone_jobs("backward", options),
        RankJob("hora", "hora", "backward", options),
        *horovod_jobs("backward", options),
    ]
    for form, bucket in _buckets(settings):
        ddp = {**options, "bucket_cap_mb": bucket, "gradient_as_bucket_view": form == "views"}
        jobs.append(gloo_job(f"DDP {form} {bucket} MiB", "backward", ddp))
    return Experiment(
        f"backward, {model}",
        f"gradients of {model}, made by backward() and reduced by an optimizer, 2 ranks",
        keeping_memory(jobs),
    )


def _beyond_making(cases: Cases) -> Cases:
    """The time that reducing adds to making the gradients, which is timed by itself in the same block."""
    derived: Cases = {}
    for case, figures in cases.items():
        others = {
            name: figure
            for name, figure in figures.items()
            if not name.startswith("alone") and baseline(name) in figures
        }
        derived[case] = {
            name: combined(figure, figures[baseline(name)], lambda both, one: both - one)
            for name, figure in others.items()
        }
    return derived


def _behind(cases: Cases) -> Cases:
    """The time that reducing right behind the producer adds to producing, against reducing afterwards."""
    derived: Cases = {}
    for case, figures in cases.items():
        added = combined(figures["hora behind"], figures["hora produce"], lambda both, one: both - one)
        derived[case] = {"hora behind": added, "hora arena": figures["hora arena"], "limit": figures["limit"]}
    return derived


def _chosen(settings: Settings) -> list[str]:
    return ["ResNet-50"] if settings.quick else list(MODELS)


def _experiments(settings: Settings) -> list[Experiment]:
    models = _chosen(settings)
    return [make(model, settings) for model in models for make in (_there, _backward)]


def _views() -> list[View]:
    views = []
    compared = (times(5, "horovod", "Horovod"), times(4, "gloo", "Gloo"), of_limit(0.8))
    for model in MODELS:
        views.append(
            View(f"list, {model}", "hora arena", compared, heading=f"{model}: all there, in the arena")
        )
        behind = (against("hora arena", 1.5, "as fast as all afterwards"),)
        views.append(
            View(
                f"list, {model}",
                "hora behind",
                behind,
                derive=_behind,
                heading=f"{model}: right behind a producer, beyond producing",
            )
        )
        optimizer = (times(5, "horovod", "Horovod"), times(4, "DDP", "DDP"))
        views.append(
            View(
                f"backward, {model}",
                "hora",
                optimizer,
                derive=_beyond_making,
                heading=f"{model}: behind backward() in Python, beyond making them",
            )
        )
    return views


ROW = Row(
    key="b6",
    title="gradient lists",
    what="All gradients of a model, the last layer's first, 2 ranks. Hora: gradients lie in the arena, as DistributedOptimizer lays them. Open MPI: one call "
    "for each tensor, or one for a flat buffer. Gloo: in buckets as DDP makes them, copied or views. "
    "Horovod: each asynchronously. The limit is "
    "that of one buffer of as many bytes in the arena. Behind backward() all contenders keep memory that "
    "they have freed (malloc's settings), so that making gradients "
    "costs no page faults.",
    missed="Behind a producer: on two ranks with a core each, producing and reducing take turns on the same cores, so gradients are submitted when all have been made "
    "(Runtime::can_overlap), and nothing is gained but what is still in a cache. Tried with ResNet-50: each "
    "as soon as it is written, 161 pieces that cost a change of "
    "threads each: 9.7 ms instead of 8; whenever 2, 8 or 32 MB are there: 17, 13.5 and 10 ms, as ranks wait "
    "for each other each time, and write next to what the other "
    "has just read. Behind backward(): PyTorch makes each gradient anew, and it is copied to where the ranks "
    "reduce it: 102 MB take 8 to 9 ms past the caches "
    "(14 through them), as long as the reduction; 322 hooks and 161 submissions in Python take some 5 ms. "
    "Tried: reducing from PyTorch's own memory into the "
    "arena, which takes as long as copying first. Gradients that are accumulated (zeroed in place) are not "
    "copied, but added. VGG16's 553 MB lie in few large "
    "tensors, one of 411 MB: there is little to wait for but memory, and copying them once more takes as "
    "long as summing them, for Horovod as for Hora.",
    experiments=_experiments,
    views=_views,
)
