# SPDX-License-Identifier: Apache-2.0
from ..contenders import rank_jobs
from ..interleave import Experiment
from ..jobs import BenchJob, Job
from ..sizes import KIB, MIB, named
from ..table import Row, Settings, View
from ..targets import at_most, times

PAUSE = 5  # ms, after which everybody sleeps


def _experiment(kind: str, pause: int, settings: Settings) -> Experiment:
    sizes = [8, 64 * KIB] if settings.quick else [8, 4 * KIB, 64 * KIB, MIB]
    iterations = 10 if settings.quick else 100
    factor = str(sizes[1] // sizes[0])
    options = (
        "--level",
        "runtime",
        "--pause",
        str(pause),
        "-n",
        str(iterations),
        "-b",
        str(sizes[0]),
        "-e",
        str(sizes[-1]),
        "-f",
        factor,
    )
    cases = {named(size): size for size in sizes}
    jobs: list[Job] = [BenchJob("hora C++", {"arena": "hora C++"}, options)]
    jobs += rank_jobs("sizes", {"cases": cases, "iterations": iterations, "pause": pause / 1000})
    return Experiment(f"one tensor, {kind}", f"one tensor on 2 ranks, from enqueue to done: {kind}", jobs)


def _views(kind: str, most: float) -> list[View]:
    absolute = at_most(most, "us").only(["8 B"])
    compared = (times(20, "horovod", "Horovod").only(["8 B"]), times(3, "gloo", "Gloo").only(["8 B"]))
    key = f"one tensor, {kind}"
    return [
        View(key, "hora C++", (absolute,), heading=f"{kind}, from C++"),
        View(key, "hora", compared, not_peers=("hora C++",), heading=f"{kind}, from Python, as the peers"),
    ]


ROW = Row(
    key="b5",
    title="one tensor, from enqueue to done",
    what=f"Submit a tensor and wait for its sum, 2 ranks. Hot: right after the ranks have met. Blocked: all threads have slept for {PAUSE} ms.",
    missed="From Python, most of the time is Python's: the name, the arguments and the handle take some 5 µs of its interpreter on either side; the runtime takes 3 to "
    "4 µs, as the rows from C++ show. Measured against Horovod as it comes, with a cycle of 1 ms, the factor "
    "is three times larger than against a cycle of 0.1 ms, "
    "which keeps a core busy. A thread that was blocked has cold caches, and waits for the kernel to wake it, as all "
    "do. Tried: common arguments by position; DLPack's C "
    "functions instead of looks at the tensor.",
    experiments=lambda settings: [_experiment("hot", 0, settings), _experiment("blocked", PAUSE, settings)],
    views=lambda: [*_views("hot", 5), *_views("blocked", 60)],
)
