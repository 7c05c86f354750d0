# SPDX-License-Identifier: Apache-2.0
import json

from suites.shell import PYTHON

from .. import launchers
from ..contenders import HOROVODS
from ..interleave import Experiment
from ..jobs import RANK_PROGRAM, Job, WallJob
from ..launchers import HORA_BENCH, PEERS
from ..table import Row, Settings, View
from ..targets import times


def _case(ranks: int) -> str:
    return f"{ranks} ranks"


def _native(ranks: int) -> list[Job]:
    bench = (str(HORA_BENCH), "first")
    return [
        WallJob("hora", _case(ranks), launchers.hrun, ranks, bench),
        WallJob("mpi", _case(ranks), launchers.mpirun, ranks, (*bench, "--peer", "mpi")),
    ]


def _python(ranks: int) -> list[Job]:
    def program(library: str, python: str) -> tuple[str, ...]:
        return (
            python,
            str(RANK_PROGRAM),
            json.dumps({"library": library, "workload": "first", "folder": "", "options": {}}),
        )

    jobs: list[Job] = [
        WallJob("hora", _case(ranks), launchers.hrun, ranks, program("hora", str(PYTHON))),
        WallJob("gloo, torchrun", _case(ranks), launchers.torchrun, ranks, program("gloo", str(PYTHON))),
    ]
    for one in HOROVODS[::2]:
        peers = program("horovod", str(PEERS / "bin/python"))
        jobs.append(
            WallJob(one.name, _case(ranks), one.launcher, ranks, peers, one.environment, needs_horovod=True)
        )
    return jobs


def _experiments(settings: Settings) -> list[Experiment]:
    native = (2, 8) if settings.quick else (2, 4, 8, 16, 32, 64)
    python = (2,) if settings.quick else (2, 8, 32)
    return [
        *(
            Experiment(
                f"start, native, {ranks}",
                f"a C++ program on {ranks} ranks, from start to end",
                _native(ranks),
                "ms",
            )
            for ranks in native
        ),
        *(
            Experiment(
                f"start, Python, {ranks}",
                f"a Python program on {ranks} ranks, from start to end",
                _python(ranks),
                "ms",
            )
            for ranks in python
        ),
    ]


def _views() -> list[View]:
    native = [
        View(f"start, native, {ranks}", "hora", (times(1),), heading="C++") for ranks in (2, 4, 8, 16, 32, 64)
    ]
    return native + [
        View(f"start, Python, {ranks}", "hora", (times(1),), heading="Python with PyTorch")
        for ranks in (2, 8, 32)
    ]


ROW = Row(
    key="b15",
    title="start",
    what="How long whole jobs take that join, reduce one tensor and leave: in C++ against mpirun with MPI, and from Python (most of it is importing PyTorch) against "
    "torchrun with Gloo and Horovod with either of its launchers.",
    experiments=_experiments,
    views=_views,
)
