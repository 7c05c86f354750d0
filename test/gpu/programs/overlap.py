# SPDX-License-Identifier: Apache-2.0
"""G5: how much longer a training step is because ranks exchange gradients, against DistributedDataParallel
over NCCL. Two ranks share a GPU, in all of the runs that are compared."""

from collections.abc import Callable
from typing import Any

import gpu
import torch
import torch.distributed as dist
from gpu import DEVICE, check, figure, hvd
from peers import all_ranks, enter_torch_distributed
from torch import nn

WIDTH, LAYERS, BATCH = (1024, 16, 8192) if not gpu.FAKE else (16, 3, 8)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers).to(DEVICE)


def stepper(model: nn.Module, optimizer: Any, batch: torch.Tensor) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def main() -> None:
    gpu.start()
    batch = torch.randn(BATCH, WIDTH, device=DEVICE)
    alone, ours = network(), network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), 1e-3), ours.named_parameters())
    contenders = {
        "alone": stepper(alone, torch.optim.SGD(alone.parameters(), 1e-3), batch),
        "Hora": stepper(ours, optimizer, batch),
    }
    theirs = network()

    def data_parallel() -> nn.Module:
        enter_torch_distributed("gloo" if gpu.FAKE else "nccl")
        return nn.parallel.DistributedDataParallel(
            theirs, device_ids=None if gpu.FAKE else [0], gradient_as_bucket_view=True
        )

    peer = gpu.attempt("DistributedDataParallel", data_parallel)
    if all_ranks(peer is not None):
        contenders["DDP"] = stepper(peer, torch.optim.SGD(theirs.parameters(), 1e-3), batch)
    taken = gpu.in_turn(contenders, repeat=12, inner=2, warm_up=4)
    base = taken["alone"][0]
    steps = ", ".join(f"{name} {time:.0f}" for name, (time, _) in taken.items())
    if "Hora" in taken:
        more = {"peer": taken["DDP"][0] - base, "peer_is": "DDP", "of_peer": 1.0} if "DDP" in taken else {}
        figure(
            "G5 exposed time of a step",
            taken["Hora"][0] - base,
            "us",
            lower=True,
            spread=taken["Hora"][1],
            note=f"steps: {steps} us",
            **more,
        )
    if "DDP" in taken:
        apart = max(
            (a - b).abs().max().item() for a, b in zip(ours.parameters(), theirs.parameters(), strict=True)
        )
        check("G5 both have learnt the same", apart < 1e-4, f"{apart:.1e} apart")
        dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
