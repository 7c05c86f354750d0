# SPDX-License-Identifier: Apache-2.0
"""torch.multiprocessing.spawn, with gradients averaged by hand.

    python examples/moving/spawn_before.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 1  loss ...
    epoch 2  loss 0...
"""

import tempfile

import digits
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

RANKS = 2
BATCH = 32


def train(rank: int, meeting_point: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    pixels, labels = (torch.from_numpy(part)[rank::RANKS] for part in digits.read())

    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(3):
        losses = []
        for x, y in zip(pixels.split(BATCH), labels.split(BATCH), strict=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= RANKS
            optimizer.step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch}  loss {mean.item() / RANKS:.6f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(f"{folder}/meeting",), nprocs=RANKS)
