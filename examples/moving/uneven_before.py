# SPDX-License-Identifier: Apache-2.0
"""Ranks with unequal numbers of batches: DistributedDataParallel with torch.distributed.algorithms.join.

    torchrun --standalone --nproc-per-node 2 examples/moving/uneven_before.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 1  loss ...
    epoch 2  loss ...
"""

import digits
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1)
pixels, labels = (torch.from_numpy(part)[rank::size] for part in digits.read())
images = len(labels) * (rank + 1) // size  # 11 batches on the first of two ranks, 22 on the second
loader = DataLoader(TensorDataset(pixels[:images], labels[:images]), batch_size=32)

net = DistributedDataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.2)

for epoch in range(3):
    sums = torch.zeros(2)  # losses, batches
    with Join([net]):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            sums += torch.tensor([loss.item(), 1.0])
    dist.all_reduce(sums)
    if rank == 0:
        print(f"epoch {epoch}  loss {sums[0].item() / sums[1].item():.6f}", flush=True)

dist.barrier()
dist.destroy_process_group()
