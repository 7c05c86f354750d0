# SPDX-License-Identifier: Apache-2.0
"""Operations of Hora in CUDA graphs: single ones, and those of a whole training step. By itself, and last: a
graph that never ends would take other results with it.

    hrun -np N graphs.py FOLDER WAY       with what training.py has left there

Between a run of a graph and its end nothing here asks the driver for what may wait for the whole GPU: copies
from or to memory that is not pinned, frees, kernels that are used for the first time."""

import faulthandler
import gc
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import gpu
import torch
from gpu import DEVICE, checking, hvd
from training import CLOSE, Step, compare

LONG = 40  # seconds after which a thread says where it is
# NCCL has streams of the default priority, 0, and Hora of the highest. No queue of the GPU has streams of two.
PRIORITY = -1
TOGETHER = 8  # runs that wait at most


def captured_graph(step: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A graph of a step on the current stream, and what the step returns. The step has run before, as PyTorch
    asks for."""
    torch.cuda.synchronize()
    gc.collect()  # memory that goes in a capture would break it off
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        results = step()
    return graph, results


def operations(rank: int, size: int) -> None:
    """They are carried out in each run of the graph, between what PyTorch computes there. Ranks take turns in
    running the step without the graph."""
    x = torch.zeros(100_000, device=DEVICE)

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        total = x * 2
        hvd.allreduce_(total, op=hvd.Sum, name="captured.total")
        return total, hvd.allreduce(total + rank, op=hvd.Average, name="captured.mean")

    for _ in range(3):
        step()
    graph, results = captured_graph(step)
    mean_rank = sum(range(size)) / size
    for run in range(40):
        x.fill_(rank + run)
        if (run + rank) % 3 == 0:
            total, mean = step()
        else:
            graph.replay()
            total, mean = results
        torch.cuda.synchronize()
        expected = 2.0 * (size * run + sum(range(size)))
        assert torch.equal(total.cpu(), torch.full((100_000,), expected)), f"run {run}: {total[:3]}"
        assert torch.allclose(mean.cpu(), torch.full((100_000,), expected + mean_rank)), (
            f"run {run}: {mean[:3]}"
        )


def times(among: str) -> None:
    """The time of a small allreduce in a graph, beside the same without a graph."""
    x = torch.zeros(256, device=DEVICE)

    def step() -> None:
        hvd.allreduce_(x, name="captured.small")

    def microseconds(run: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(100):
            run()
            torch.cuda.synchronize()
        return 1e4 * (time.perf_counter() - begin)

    eager = microseconds(step)
    graph, _ = captured_graph(step)
    graph.replay()
    gpu.figure(
        f"1 KiB allreduce in a CUDA graph, {among}",
        microseconds(graph.replay),
        "us",
        lower=True,
        note=f"{eager:.0f} us without a graph",
    )


def by_graph(step: Step, batches: Iterator[torch.Tensor]) -> None:
    """The first steps of a training run as they are, and all others as one graph."""
    static, second, third, *others = batches
    step(static)
    for index in (second, third):
        static.copy_(index)
        step(static)
    graph, _ = captured_graph(lambda: step(static))
    for number, index in enumerate(others, 1):
        static.copy_(index)
        graph.replay()
        if number % TOGETHER == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    faulthandler.dump_traceback_later(LONG)
    gpu.start()
    rank, size = hvd.rank(), hvd.size()
    among = f"{size} ranks by {sys.argv[2]}"
    alone = torch.load(folder / "alone.pt")
    with torch.cuda.stream(torch.cuda.Stream(priority=PRIORITY)):
        with checking(f"operations in a CUDA graph, {among}"):
            operations(rank, size)
        with checking(f"time of an operation in a CUDA graph, {among}"):
            times(among)
        compare(
            f"training in a CUDA graph equals one rank, {among}",
            alone,
            torch.float32,
            CLOSE[torch.float32],
            run=by_graph,
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
