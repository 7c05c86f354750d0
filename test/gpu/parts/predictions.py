# SPDX-License-Identifier: Apache-2.0
"""The figures that a run should give, by counting: bytes, launches and calls, times constants of public data.
They stand in the report beside what was measured. A figure far from its prediction has a cause to look for.

No constant comes from a run of Hora on a GPU, but the host's: those are of this repository's benchmarks."""

import dataclasses
import pathlib
import re
import sys
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))
from models import MODELS  # noqa: E402

# Of the memory's nominal rate, a copy by the multiprocessors reaches this part (BabelStream on H100).
COPY = 0.9
# Microseconds that a kernel takes besides moving bytes: it starts, fills the memory's queues, and drains.
KERNEL = 3.0
# Microseconds of the host for a call of the driver: a launch, more for a table of up to 32 KiB as parameter,
# an event's record, a stream's wait for an event. Measured by several, on drivers of CUDA 12.
LAUNCH, TABLE, RECORD, WAIT = 2.5, 1.5, 1.0, 1.0
# The same of ncclAllReduce on a communicator of one operation at a time.
NCCL = 6.0
# GB/s of PCI Express 5.0 with 16 lanes in one direction, as nvbandwidth measures it.
PCI = 55.0
# Of Hora on the host, by test/bench/RESULTS.md: microseconds from submitting 8 bytes in Python to their sum;
# GB/s of a buffer that two ranks sum in memory of both.
HOST_SUM, HOST_RATE = 11.0, 10.0
# Microseconds until a completion that the GPU signals is seen and has woken its waiter.
COMPLETION = 10.0


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A kind of GPU."""

    memory: float  # nominal, in GB/s, by NVIDIA's data sheet

    def copy(self) -> float:
        return COPY * self.memory

    def moves(self, bytes_moved: float, kernels: int) -> float:
        """GB/s of kernels that move so many bytes in all."""
        return bytes_moved / (bytes_moved / self.copy() + kernels * KERNEL * 1e3)


GPUS = {"H100": Gpu(3350.0), "H200": Gpu(4800.0)}
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20}


def _gradients(model: str) -> float:
    """Bytes of float32."""
    return 4.0 * sum(MODELS[model]())


def _bytes(size: str) -> float:
    number, unit = size.split()
    return float(number) * SIZES[unit]


def _staged(size: str) -> float:
    """Milliseconds: the copies of both ranks share the link, and overlap with the host's sums."""
    count = _bytes(size)
    return (max(2 * count / PCI, count / HOST_RATE) / 1e3 + 2 * COMPLETION + HOST_SUM) / 1e3


RULES: list[tuple[str, Callable[[Gpu, str], float]]] = [
    (r"copy rate, plain copy kernel()", lambda gpu, _: gpu.copy()),
    # Each element is read and written once.
    (r"G1 (?:un)?pack (.+)", lambda gpu, model: gpu.moves(2 * _gradients(model), 1)),
    # float32 in, 16 bits out, and back: 4 + 2 + 2 + 4 bytes.
    (r"G2 b?float16 round trip (.+)", lambda gpu, model: gpu.moves(3 * _gradients(model), 2)),
    # A blocking communicator takes this. Those of Hora's do not block, so that any call can be given up, and
    # NCCL starts a thread for each call: on an H100 ncclAllReduce alone then took 186 to 198 us.
    (
        r"G3 host time per batch, .*()",
        lambda gpu, _: WAIT + 2 * (LAUNCH + TABLE) + NCCL + RECORD,
    ),
    # One after the other, a batch of one tensor is reduced in place: no kernel is launched.
    (
        r"G4 added to ncclAllReduce, .* one at a time()",
        lambda gpu, _: HOST_SUM + RECORD + WAIT + COMPLETION,
    ),
    (r"G7 staged allreduce, (.+)", lambda gpu, size: _staged(size)),
]


def predicted(device: str, figure: str) -> float | None:
    """In the figure's unit; None where bytes and calls do not decide it, as NCCL's sockets do in G5."""
    gpu = next((kind for name, kind in GPUS.items() if name in device), None)
    if gpu is None:
        return None
    for pattern, rule in RULES:
        match = re.fullmatch(pattern, figure)
        if match:
            return rule(gpu, match[1])
    return None
