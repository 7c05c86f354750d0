# SPDX-License-Identifier: Apache-2.0
"""The training of spawn_before.py: hrun starts the processes.

    hrun -np 2 python examples/moving/spawn_after.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] epoch 0  loss ...
    [0] epoch 1  loss ...
    [0] epoch 2  loss 0...
"""

import digits
import hora.torch as hvd
import torch
from torch import nn

BATCH = 32


def train() -> None:
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    pixels, labels = (torch.from_numpy(part)[hvd.rank() :: hvd.size()] for part in digits.read())

    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())

    for epoch in range(3):
        losses = []
        for x, y in zip(pixels.split(BATCH), labels.split(BATCH), strict=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        mean = hvd.allreduce(torch.stack(losses).mean())
        if hvd.rank() == 0:
            print(f"epoch {epoch}  loss {mean.item():.6f}", flush=True)


if __name__ == "__main__":
    train()
