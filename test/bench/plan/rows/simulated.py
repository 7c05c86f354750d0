# SPDX-License-Identifier: Apache-2.0
import dataclasses
import functools
import json
import pathlib
import subprocess
import tempfile
from typing import Any

from suites.shell import ROOT

from ..figures import Sample, Samples
from ..interleave import Experiment
from ..jobs import Job, JobFailed
from ..table import Row, Settings, View
from ..targets import at_most

PROGRAM = ROOT / "build/default/test/bench_simulate"
SIZES = (8, 64, 512, 4096, 10000)
RADICES = (4, 8, 16)
PHASES = {
    "cold": "by name",
    "cached": "by number",
    "steady": "by number, without pauses of the simulator",
    "locked": "locked",
}
OURS = "hora, simulated, radix 8"


def _simulate(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder, "simulated.json")
        command = [
            str(PROGRAM),
            "--ranks",
            ",".join(map(str, sizes)),
            "--radix",
            ",".join(map(str, (0, *RADICES))),
            "--json",
            str(result),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=900)
        except subprocess.SubprocessError as failure:
            raise JobFailed(str(failure)) from failure
        rows: list[dict[str, Any]] = json.loads(result.read_text())["rows"]
    return rows


_simulate_once = functools.cache(_simulate)  # what is counted is the same each time


@dataclasses.dataclass(frozen=True)
class SimulatedJob:
    """Ranks that agree, in one process: figures of the kinds that are named."""

    sizes: tuple[int, ...]
    kinds: dict[str, str]  # bench_simulate's name: ours
    counted: bool
    name: str = "hora, simulated"

    def missing(self) -> str | None:
        return None if PROGRAM.exists() else f"{PROGRAM} was not built"

    def run(self) -> Samples:
        samples: Samples = {}
        for row in _simulate_once(self.sizes) if self.counted else _simulate(self.sizes):
            tree = f"radix {row['radix']}" if row["radix"] else "star"
            for phase, called in PHASES.items():
                for kind, ours in self.kinds.items():
                    if phase in row:
                        case = f"{row['ranks']:,} ranks, {called}{ours}"
                        samples.setdefault(case, {})[f"hora, simulated, {tree}"] = Sample(row[phase][kind])
        return samples


def _experiments(settings: Settings) -> list[Experiment]:
    sizes = SIZES[:3] if settings.quick else SIZES
    times: list[Job] = [
        SimulatedJob(sizes, {"latency_us": "", "coordinator_cpu_us": ": rank 0's CPU"}, counted=False)
    ]
    messages: list[Job] = [SimulatedJob(sizes, {"messages": ""}, counted=True)]
    bytes_: list[Job] = [SimulatedJob(sizes, {"bytes": ""}, counted=True)]
    return [
        Experiment("simulated", "simulated: until the last rank has heard of 161 tensors", times),
        Experiment(
            "simulated_messages", "simulated: messages at the busiest rank, each step", messages, "messages"
        ),
        Experiment("simulated_bytes", "simulated: bytes at the busiest rank, each step", bytes_, "bytes"),
    ]


def _case(phase: str) -> tuple[str]:
    return (f"10,000 ranks, {PHASES[phase]}",)


ROW = Row(
    key="b12",
    title="10,000 simulated ranks",
    what="All figures are simulated: the negotiation of up to 10,000 ranks runs as it is, in one process, over a network that is none. A message takes 25 µs, and 2 µs "
    "and 1 ns a byte of its sender's time; the CPU time that a rank's turn really took is charged to its "
    "clock. The caches of one processor hold the ranks' memory in "
    "turn, and what delays the one process delays a rank: so there are figures in which no turn counts for "
    "more than twice the middle one of its kind. A locked order "
    "needs memory that all ranks share, so it is tried with 512 ranks at most; it sends no message, however "
    "many there are.",
    experiments=_experiments,
    views=lambda: [
        View(
            "simulated",
            OURS,
            (
                at_most(50_000, "µs").only(_case("cold")),
                at_most(1000, "µs").only(_case("cached")),
                at_most(1000, "µs").only(_case("steady")),
            ),
            limit="",
            heading="latency, simulated",
        ),
        View(
            "simulated_messages",
            OURS,
            (at_most(0, "messages").when(lambda case: case.endswith("locked")),),
            limit="",
            heading="messages, simulated",
        ),
        View(
            "simulated_bytes",
            OURS,
            (at_most(0, "bytes").when(lambda case: case.endswith("locked")),),
            limit="",
            heading="bytes, simulated",
        ),
    ],
)
