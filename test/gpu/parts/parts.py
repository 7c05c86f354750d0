# SPDX-License-Identifier: Apache-2.0
"""The parts of a run, each run by itself: one that fails or hangs does not touch the others."""

import dataclasses
import pathlib
import shutil
import sys

from .build import BUILD, ROOT
from .figures import Check, Findings, read
from .processes import Ended, run

PROGRAMS = ROOT / "test/gpu/programs"
sys.path.insert(0, str(PROGRAMS))
from models import MODELS  # noqa: E402

KERNELS = str(BUILD / "test/gpu_kernels_test")
SANITIZED = "-*Thousands*:*WaitsFor*"  # what is large tells the sanitizers nothing more, and takes them long


@dataclasses.dataclass
class Part:
    """Commands, one after the other, of which the next is run only if the one before it went well."""

    name: str
    commands: list[list[str]]
    limit: float  # seconds, for all commands
    alone: bool = False  # whether times are measured, so that nothing else may run
    real: bool = False  # whether it means nothing without a GPU
    checks: int = 0  # how many lines of checks must have come, at least
    exits: bool = True  # whether exit codes other than 0 are failures
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


def ranks(count: int, program: str, *arguments: str) -> list[str]:
    return [
        str(BUILD / "bin/hrun"),
        "-np",
        str(count),
        "--grace",
        "30",
        sys.executable,
        str(PROGRAMS / program),
        *arguments,
    ]


def sanitizer(tool: str) -> list[str]:
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    return [found, "--tool", tool, "--error-exitcode", "9", KERNELS, f"--gtest_filter={SANITIZED}"]


def correctness(folder: pathlib.Path) -> list[Part]:
    dies = {"HORA_HEARTBEAT_TIMEOUT": "10", "HORA_DUMP_DIR": str(folder / "dumps")}
    return [
        Part(
            "training",
            [
                [sys.executable, str(PROGRAMS / "training.py"), str(folder)],
                *[ranks(n, "training.py", str(folder)) for n in (2, 4)],
            ],
            180,
            checks=10,
        ),
        Part("memcheck", [sanitizer("memcheck")], 120, real=True),
        Part("racecheck", [sanitizer("racecheck")], 120, real=True),
        Part("kernels", [[KERNELS]], 90),
        Part("operations on 2 ranks", [ranks(2, "operations.py")], 120, checks=18),
        Part("operations on 4 ranks", [ranks(4, "operations.py")], 120, checks=18),
        Part(
            "a killed rank of 2",
            [ranks(2, "killed.py", str(folder))],
            90,
            checks=2,
            exits=False,
            environment=dies,
        ),
        Part(
            "a killed rank of 4",
            [ranks(4, "killed.py", str(folder))],
            90,
            checks=6,
            exits=False,
            environment=dies,
        ),
        Part(
            "float32 sums",
            [ranks(n, "float32_sums.py") for n in (2, 4)],
            120,
            checks=18,
            environment={"HORA_FLOAT32_SUMS": "1"},
        ),
        Part(
            "staged operations",
            [ranks(2, "operations.py")],
            120,
            checks=18,
            environment={"HORA_GPU_OPERATIONS": "staged"},
        ),
        Part("a shared GPU", [ranks(2, "shared_gpu.py", wish) for wish in ("auto", "nccl")], 60, checks=2),
    ]


def benchmarks(fake: bool) -> list[Part]:
    counts = [str(count // 2000 + 1 if fake else count) for count in MODELS["ResNet-50"]()]
    times = [str(BUILD / "test/libgpu_times.so"), str(BUILD / "test/peer_kernels.fatbin")]
    return [
        Part(
            "G1 and G2: pack",
            [[sys.executable, str(PROGRAMS / "pack_times.py"), *times]],
            120,
            alone=True,
            checks=15,
        ),
        Part(
            "G3: launch",
            [
                [
                    str(BUILD / "bin/hrun"),
                    "-np",
                    "2",
                    sys.executable,
                    str(PROGRAMS / "as_own_host.py"),
                    str(BUILD / "test/gpu_launch_times"),
                    *counts,
                ]
            ],
            60,
            alone=True,
        ),
        Part("G4: NCCL", [ranks(2, "nccl_times.py")], 90, alone=True, checks=4),
        Part("G5: overlap", [ranks(2, "overlap.py")], 90, alone=True),
        Part(
            "G7: staged",
            [ranks(2, "staged_times.py")],
            60,
            alone=True,
            checks=3,
            environment={"HORA_GPU_OPERATIONS": "staged"},
        ),
    ]


def graphs(folder: pathlib.Path) -> list[Part]:
    """CUDA graphs. The driver loads all kernels at once and NCCL connects at once, as neither could while a
    graph waits."""
    at_once = {"CUDA_MODULE_LOADING": "EAGER", "NCCL_RUNTIME_CONNECT": "0"}
    alone = [sys.executable, str(PROGRAMS / "training.py"), str(folder)]
    return [
        Part(
            f"CUDA graphs by {way}",
            [alone, *[ranks(count, "graphs.py", str(folder), way) for count in counts]],
            60 + 30 * len(counts),
            alone=True,
            real=True,
            checks=1 + 3 * len(counts),
            environment={**at_once, **({"HORA_GPU_OPERATIONS": "staged"} if way == "the host" else {})},
        )
        for way, counts in {"NCCL": (2, 4), "the host": (2,)}.items()
    ]


def tail(output: str) -> str:
    lines = [
        line
        for line in output.splitlines()
        if line.strip() and " FIGURE " not in line and " CHECK " not in line
    ]
    return " / ".join(lines[-4:])[-500:]


def carry_out(part: Part, log: pathlib.Path, limit: float, environment: dict[str, str]) -> Findings:
    """Everything that the part says, and a check that it has come to its end."""
    found, seconds, ended, lines = Findings(), 0.0, Ended(0, 0.0, ""), 0
    for command in part.commands:
        ended = run(command, log, limit - seconds, ROOT, {**environment, **part.environment})
        seconds += ended.seconds
        said = read(ended.output)
        lines += len(said.checks)
        found.add(said)
        if ended.code is None or (part.exits and ended.code != 0):
            break
    if ended.code is None:
        found.checks.append(
            Check(f"part: {part.name}", False, f"stopped after {seconds:.0f} s: {tail(ended.output)}")
        )
    elif part.exits and ended.code != 0:
        found.checks.append(
            Check(f"part: {part.name}", False, f"exit code {ended.code}: {tail(ended.output)}")
        )
    elif lines < part.checks:
        found.checks.append(
            Check(
                f"part: {part.name}", False, f"{lines} checks instead of {part.checks}: {tail(ended.output)}"
            )
        )
    else:
        found.checks.append(Check(f"part: {part.name}", True, f"{seconds:.0f} s"))
    return found
