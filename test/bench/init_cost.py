# SPDX-License-Identifier: Apache-2.0
"""What it costs a process that only computes to be in a job: hrun -np 2 .venv/bin/python test/bench/init_cost.py

Each rank multiplies matrices in one thread, in rounds: half of each round without Hora, half of it after init(). It prints
the time of a multiplication with and without, as median and mean over all rounds, and the ratio of each.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import hora.torch as hvd  # noqa: E402
import torch  # noqa: E402

ROUNDS = 8
UNITS = 1000


def units(matrix: torch.Tensor) -> list[float]:
    """Microseconds of each multiplication."""
    times = []
    for _ in range(UNITS):
        begin = time.perf_counter()
        torch.mm(matrix, matrix)
        times.append((time.perf_counter() - begin) * 1e6)
    return times


def main() -> None:
    torch.set_num_threads(1)
    matrix = torch.randn(384, 384)
    units(matrix)
    alone: list[float] = []
    joined: list[float] = []
    rank = 0
    for number in range(ROUNDS):
        order = (alone, joined) if number % 2 == 0 else (joined, alone)
        for times in order:
            if times is joined:
                hvd.init()
                rank = hvd.rank()
            times.extend(units(matrix))
            if times is joined:
                hvd.shutdown()
    for name, of in (("median", statistics.median), ("mean", statistics.fmean)):
        print(f"rank {rank}: {name:6} {of(alone):8.1f} us without, {of(joined):8.1f} us after init(), ratio {of(joined) / of(alone):.4f}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
