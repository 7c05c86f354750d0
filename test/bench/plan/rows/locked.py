# SPDX-License-Identifier: Apache-2.0
import dataclasses
import pathlib
import tempfile

from suites.shell import ROOT

from .. import launchers
from ..figures import Samples
from ..interleave import Experiment
from ..jobs import collected, log_of
from ..table import Row, Settings, View
from ..targets import at_most

RANKS = (2, 4)
LOCKED_STEPS = ROOT / "build/default/test/locked_steps"
ASTRAY = {"shape": "another shape", "other": "another tensor, this one late", "missing": "late"}


@dataclasses.dataclass(frozen=True)
class LockedJob:
    """Equal steps, and one in which a rank goes astray: a job for each way to do so."""

    steps: int
    ranks: int
    name: str = "hora"

    def missing(self) -> str | None:
        return None

    def run(self) -> Samples:
        samples: Samples = {}
        for kind, words in ASTRAY.items():
            with tempfile.TemporaryDirectory() as folder:
                command = [str(LOCKED_STEPS), str(self.steps), kind, str(pathlib.Path(folder))]
                launchers.run_job(launchers.hrun.commands(self.ranks, command), {}, log_of("locked"))
                for case, sample in collected(folder, self.ranks).items():
                    samples[f"{case}: {words}" if case.startswith("ms") else case] = {self.name: sample}
        return samples


def _experiment(ranks: int, settings: Settings) -> Experiment:
    title = f"the gradients of ResNet-50, steps that repeat, {ranks} ranks"
    return Experiment(
        f"locked, {ranks} ranks", title, [LockedJob(50 if settings.quick else 1000, ranks)], "as named"
    )


ROW = Row(
    key="b11",
    title="a locked schedule",
    what="Equal steps, and a last one in which the last rank goes astray with one of the 161 tensors. Messages are those that an engine gives its control plane to send, "
    "of the rank that sends most. A rank has unlocked when it sends one, and is told when the operation ends "
    "with an error that names the tensor. All sums are checked.",
    experiments=lambda settings: [_experiment(ranks, settings) for ranks in RANKS],
    views=lambda: [
        View(
            f"locked, {ranks} ranks",
            "hora",
            (
                at_most(5, "steps").only(["steps until locked"]),
                at_most(0, "messages").only(["messages a locked step"]),
                at_most(0, "bytes").only(["bytes a locked step"]),
                at_most(100, "ms").only(
                    [
                        "ms until told: another shape",
                        *(f"ms until unlocked: {words}" for words in ASTRAY.values()),
                    ]
                ),
            ),
            heading=f"{ranks} ranks",
        )
        for ranks in RANKS
    ],
)
