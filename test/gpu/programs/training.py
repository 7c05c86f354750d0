# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network learns to read handwritten digits, on one rank or several that share a GPU,
and what it has become is compared with what the CPU makes of the same batches. Batch 64 on one rank is batch
16 on each of four.

    training.py FOLDER       one rank: leaves its parameters there
    hrun -np N training.py FOLDER       compares"""

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gpu
import numpy as np
import torch
from gpu import DEVICE, check, checking, hvd
from torch import nn

DATA = pathlib.Path(__file__).resolve().parents[3] / "examples/data/digits.csv"
TOGETHER = 64
STEPS = 60 if not gpu.FAKE else 10
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}  # of sums over batches that are cut in another way
ALLOWANCE = 16 << 20  # bytes beside the fusion buffer: the gradients themselves, and alignment


def images(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    table = np.loadtxt(DATA, delimiter=",", dtype=np.int64)
    return torch.tensor(table[:, :64], dtype=dtype).reshape(-1, 1, 8, 8).to(DEVICE) / 16, torch.tensor(
        table[:, 64]
    ).to(DEVICE)


def network(dtype: torch.dtype) -> nn.Sequential:
    """Its functions are smooth: a ReLU whose input is almost 0 makes a jump of any rounding."""
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(2048, 64),
        nn.Tanh(),
        nn.Linear(64, 10),
    )
    return net.to(DEVICE, dtype)


def batches(count: int, rank: int, size: int) -> Iterator[torch.Tensor]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(3))
    for step in range(STEPS):
        begin = step * TOGETHER % (count - TOGETHER)
        yield order[begin : begin + TOGETHER][rank::size].to(DEVICE)


Step = Callable[[torch.Tensor], None]


def step_by_step(step: Step, all_batches: Iterator[torch.Tensor]) -> None:
    for index in all_batches:
        step(index)


def train(
    dtype: torch.dtype,
    compiled: bool = False,
    run: Callable[[Step, Iterator[torch.Tensor]], None] = step_by_step,
    **options: Any,
) -> list[torch.Tensor]:
    pixels, labels = images(dtype)
    net = network(dtype)
    model = torch.compile(net) if compiled else net
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), 0.05, momentum=0.9), net.named_parameters(), **options
    )
    hvd.broadcast_parameters(net.state_dict(), 0)

    def step(index: torch.Tensor) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pixels[index]), labels[index]).backward()
        optimizer.step()

    run(step, batches(len(labels), hvd.rank(), hvd.size()))
    gpu.finish()
    return [parameter.detach().cpu() for parameter in net.parameters()]


def distance(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    """The distance of all parameters together, as a part of their norm."""
    apart = sum((a.double() - b.double()).square().sum().item() for a, b in zip(ours, theirs, strict=True))
    whole = sum(b.double().square().sum().item() for b in theirs)
    return float((apart / whole) ** 0.5)


def equal_on_all_ranks(parameters: list[torch.Tensor]) -> bool:
    flat = torch.cat([parameter.flatten() for parameter in parameters])
    with gpu.on_cpu():
        everybodys = hvd.allgather(flat.unsqueeze(0), name="parameters")
    return bool((everybodys == everybodys[0]).all())


def compare(
    what: str, alone: dict[torch.dtype, list[torch.Tensor]], dtype: torch.dtype, close: float, **options: Any
) -> None:
    with checking(what):
        parameters = train(dtype, **options)
        assert equal_on_all_ranks(parameters), "parameters differ between ranks"
        apart = distance(parameters, alone[dtype])
        assert apart <= close, f"{apart:.2e} away from the run on one rank, more than {close:.0e}"
        if hvd.rank() == 0:
            gpu.say("NOTE", text=f"{what}: {apart:.2e} away from the run on one rank")


def memory(size: int) -> None:
    """The memory that Hora has taken of the GPU, against what it may take."""
    report = hvd.memory_report()
    print(report)
    first = report.splitlines()[0]
    taken = float(first.split(": ")[1].split(" MiB")[0])
    nccl = float(first.split(", ")[-1].split(" MiB")[0])
    most = ((32 << 20) + ALLOWANCE) / (1 << 20)
    gpu.figure(
        f"device memory taken by Hora, {size} ranks",
        taken,
        "MiB",
        lower=True,
        most=most,
        note=f"fusion cap 32 MiB, gradients beside; NCCL has {nccl:.0f} MiB",
    )


def one_context(size: int) -> None:
    """That this process is once among those that use the GPU."""
    import os
    import subprocess

    if gpu.FAKE:
        return
    said = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    entries = [line.split(",")[0].strip() for line in said.stdout.splitlines() if line.strip()]
    mine = entries.count(str(os.getpid()))
    if mine == 0:
        gpu.say(
            "NOTE",
            text=f"nvidia-smi does not show process {os.getpid()} among {len(entries)}: contexts cannot be counted here",
        )
    else:
        check(f"one CUDA context in each process, {size} ranks", mine == 1, f"{mine} entries of nvidia-smi")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    gpu.start()
    size = hvd.size()
    if size == 1:
        torch.save({dtype: train(dtype) for dtype in CLOSE}, folder / "alone.pt")
        check("training on one rank", True)
        return
    alone = torch.load(folder / "alone.pt")
    for dtype, close in CLOSE.items():
        compare(
            f"training in {str(dtype).removeprefix('torch.')} equals one rank, {size} ranks",
            alone,
            dtype,
            close,
        )
    f32 = torch.float32
    compare(f"training with a 16-bit wire, {size} ranks", alone, f32, 0.05, compression=hvd.Compression.fp16)
    compare(
        f"training with groups and a check of finite gradients, {size} ranks",
        alone,
        f32,
        CLOSE[f32],
        groups=2,
        check_finite=True,
    )
    memory(size)
    one_context(size)
    if size == 2:
        compare(
            f"training of a compiled model equals one rank, {size} ranks",
            alone,
            f32,
            CLOSE[f32],
            compiled=not gpu.FAKE,
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
