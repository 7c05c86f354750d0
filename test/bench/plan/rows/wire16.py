# SPDX-License-Identifier: Apache-2.0
from typing import Any

from ..contenders import TCP_ONLY, gloo_job, horovod_jobs, rank_jobs
from ..interleave import Experiment
from ..jobs import Job, RankJob
from ..sizes import MIB, named
from ..table import Cases, Row, Settings, View
from ..targets import Target, against, at_most, times

PLANES = {"shared memory": "shm", "TCP": "tcp"}
MPI = {"shared memory": {}, "TCP": TCP_ONLY}


def _experiment(plane: str, settings: Settings) -> Experiment:
    sizes = [MIB] if settings.quick else [MIB, 16 * MIB, 64 * MIB]
    options: dict[str, Any] = {
        "cases": {named(size): size for size in sizes},
        "iterations": 3 if settings.quick else 10,
    }
    hora = RankJob(
        "hora",
        "hora",
        "wire",
        {**options, "blocks": True},
        environment={"HORA_CPU_OPERATIONS": PLANES[plane]},
    )
    half = {**options, "full": False}
    jobs: list[Job] = [
        hora,
        *horovod_jobs("wire", half, environment=MPI[plane]),
        gloo_job("gloo", "wire", half),
    ]
    return Experiment(f"wire16, {plane}", f"float16 on the wire, 2 ranks, {plane}", jobs)


def _errors(settings: Settings) -> list[Experiment]:
    options: dict[str, Any] = {"cases": {}, "iterations": 1, "errors": True}
    return [
        Experiment(
            f"wire16, {ranks} ranks",
            f"how wrong sums are, {ranks} ranks",
            rank_jobs("wire", options, ranks),
            "roundings",
        )
        for ranks in (2, 4)
    ]


def _pairs(cases: Cases) -> Cases:
    """float16, float32 and block-scaled floats of a size side by side."""
    derived: Cases = {}
    for case, figures in cases.items():
        kind, _, size = case.partition(", ")
        if kind == "float16":
            derived[size] = dict(figures)
            for other in ("float32", "mxfp8"):
                beside = cases.get(f"{other}, {size}", {})
                if "hora" in beside:
                    derived[size][f"hora {other}"] = beside["hora"]
    return derived


def _views() -> list[View]:
    faster: dict[str, tuple[Target, ...]] = {
        "TCP": (against("hora float32", 1.7, "as fast as float32"),),
        "shared memory": (),
    }
    views = [
        View(
            f"wire16, {plane}",
            "hora",
            (times(3, "horovod", "Horovod"), *faster[plane]),
            derive=_pairs,
            heading=plane,
        )
        for plane in PLANES
    ]
    for ranks in (2, 4):
        views.append(
            View(
                f"wire16, {ranks} ranks", "hora", (at_most(1, "roundings"),), heading=f"error, {ranks} ranks"
            )
        )
    return views


ROW = Row(
    key="b7",
    title="16 bits on the wire",
    what="float32 tensors that travel as float16, and with Hora also as block-scaled floats of 8 bits. Horovod and DDP's hook cast before and after. The error is told in roundings: 1 is what rounding every input "
    "and the sum to float16, once each, may do. Gloo moves over TCP in either table.",
    missed="On loopback there is no wire: the kernel's copies, which are fewer bytes then, and the casts, which are more work, run on the same cores, so 1.7 is out of "
    "reach while a cast of a byte costs as much as the kernel's copy of one. Since casts are done inside of "
    "the exchange, segment by segment, it is 1.3 to 1.4 "
    "from 16 MiB on, and was 1.0 to 1.1 before. Tried: rounds of 512 KiB to all at once (512 KiB are best or "
    "as good as the best from 16 MiB on, all at once at "
    "1 MiB, which is within what such a machine varies by). Where there is a network, of 10 Gbit/s, sums of "
    "16 and 64 MiB with float16 are 1.9 and 2.0 times as "
    "fast as without (between two hosts, `hora_bench allreduce --level hosts`; before, 1.5 and 1.3).",
    experiments=lambda settings: [*(_experiment(plane, settings) for plane in PLANES), *_errors(settings)],
    views=_views,
)
