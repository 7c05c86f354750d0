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
    options: dict[str, Any] = {"cases": {named(size): size for size in sizes}, "iterations": 3 if settings.quick else 10}
    hora = RankJob("hora", "hora", "wire", options, environment={"HORA_CPU_OPERATIONS": PLANES[plane]})
    half = {**options, "full": False}
    jobs: list[Job] = [hora, *horovod_jobs("wire", half, environment=MPI[plane]), gloo_job("gloo", "wire", half)]
    return Experiment(f"wire16, {plane}", f"float16 on the wire, 2 ranks, {plane}", jobs)


def _errors(settings: Settings) -> list[Experiment]:
    options: dict[str, Any] = {"cases": {}, "iterations": 1, "errors": True}
    return [Experiment(f"wire16, {ranks} ranks", f"how wrong sums are, {ranks} ranks", rank_jobs("wire", options, ranks), "roundings") for ranks in (2, 4)]


def _pairs(cases: Cases) -> Cases:
    """float16 and float32 of a size side by side."""
    derived: Cases = {}
    for case, figures in cases.items():
        kind, _, size = case.partition(", ")
        if kind == "float16":
            full = cases.get(f"float32, {size}", {})
            derived[size] = {**figures, **({"hora float32": full["hora"]} if "hora" in full else {})}
    return derived


def _views() -> list[View]:
    faster: dict[str, tuple[Target, ...]] = {"TCP": (against("hora float32", 1.7, "as fast as float32"),), "shared memory": ()}
    views = [View(f"wire16, {plane}", "hora", (times(3, "horovod", "Horovod"), *faster[plane]), derive=_pairs, heading=plane) for plane in PLANES]
    for ranks in (2, 4):
        views.append(View(f"wire16, {ranks} ranks", "hora", (at_most(1, "roundings"),), heading=f"error, {ranks} ranks"))
    return views


ROW = Row(
    key="b7",
    title="16 bits on the wire",
    what="float32 tensors that travel as float16. Horovod and DDP's hook cast before and after. The error is told in roundings: 1 is what rounding every input "
    "and the sum to float16, once each, may do. Gloo moves over TCP in either table.",
    missed="On loopback there is no wire: the kernel's copies, which are fewer bytes then, and the casts, which are more work, run on the same cores. At 16 MiB half of "
    "the bytes take 2.0 of the 4.3 ms that a raw exchange of all takes, and casts and sums about 2 ms more (in shared memory all of it takes 2.4 ms). Casts inside of "
    "the exchange, segment by segment, would save one pass over the caches, and reach 1.3 to 1.4 by that account; 1.7 is out of reach while a cast of a byte costs "
    "as much as the kernel's copy of one. Tried: casts in rounds of 256 KiB to 4 MiB (512 KiB take 10 % less time than 4 MiB over TCP, 20 to 30 % less in shared "
    "memory). What float16 saves where bytes are few and far is in the row of two hosts (half).",
    experiments=lambda settings: [*(_experiment(plane, settings) for plane in PLANES), *_errors(settings)],
    views=_views,
)
