# SPDX-License-Identifier: Apache-2.0
from typing import Any

from .. import launchers
from ..contenders import TUNED, keeping_memory
from ..interleave import Experiment
from ..jobs import JaxJob, Job
from ..sizes import KIB, MIB, named
from ..table import Row, Settings, View
from ..targets import times

SIZES = [16, 64 * KIB, 4 * MIB, 64 * MIB]
ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
CALLS = (times(5, "gloo", "Gloo").only([named(4 * MIB)]), times(1))


def _jobs(workload: str, options: dict[str, Any]) -> list[Job]:
    """All have memory that stays with the process: else page faults in new memory take most of the time of
    large arrays."""
    ways: tuple[tuple[str, str, launchers.Launcher, launchers.Environment], ...] = (
        ("hora", "hora", launchers.hrun, {}),
        ("gloo", "gloo", launchers.processes, {}),
        ("gloo bound", "gloo", launchers.hrun, {}),  # each rank to a core, as all but "gloo" are
        ("mpi4jax", "mpi4jax", launchers.mpirun, {}),
        ("mpi4jax tuned", "mpi4jax", launchers.mpirun, TUNED),
    )
    return keeping_memory(
        [
            JaxJob(name, library, workload, options, 2, launcher, {**ONE_THREAD, **more})
            for name, library, launcher, more in ways
        ]
    )


def _calls(settings: Settings, donated: bool) -> Experiment:
    options = {
        "cases": {named(size): size for size in SIZES},
        "iterations": 20 if settings.quick else 200,
        "donated": donated,
    }
    key = "jax donated" if donated else "jax calls"
    title = "allreduce in a compiled program, 2 ranks" + (", donated input" if donated else "")
    return Experiment(key, title, _jobs("jax_sizes", options))


def _steps(settings: Settings) -> Experiment:
    options = {"case": "25 MB", "iterations": 5 if settings.quick else 20}
    return Experiment(
        "jax steps",
        "steps with 25 MB of gradients, 2 ranks of one thread each",
        _jobs("jax_training", options),
    )


ROW = Row(
    key="b19",
    title="JAX",
    what="Programs that JAX has compiled: sums of one array, and steps of training an MLP with optax, with "
    "`hora.jax`. Beside it JAX's own collectives between processes (jax.distributed with Gloo, as they are and "
    "bound), and mpi4jax. A program keeps its input, so the result lies elsewhere; or it is given the input's "
    "memory, as with donate_argnums, or as an array within a program. Memory stays with the processes, for all "
    "alike.",
    missed="A program that keeps its input has the sum written to other memory, whose lines the caches load "
    "before they are written. In C the same call takes 2.0 ms at 4 MiB beside 1.2 ms in place. Tried: stores "
    "that bypass the caches (1.6 ms; but then who reads the sum reads it from memory).",
    experiments=lambda settings: [_calls(settings, False), _calls(settings, True), _steps(settings)],
    views=lambda: [
        View("jax calls", "hora", CALLS),
        View("jax donated", "hora", CALLS),
        View("jax steps", "hora", (times(1),)),
    ],
)
