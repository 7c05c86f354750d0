# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel with torchrun. Started with hrun, it runs as it is.

    torchrun --standalone --nproc-per-node 2 examples/moving/distributed_data_parallel_before.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 1  loss ...
    epoch 2  loss 0...
"""

import digits
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(1 + dist.get_rank())
dataset = TensorDataset(*map(torch.from_numpy, digits.read()))
order = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=32, sampler=order)

net = DistributedDataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

for epoch in range(3):
    order.set_epoch(epoch)
    total = torch.zeros(())
    for step, (pixels, labels) in enumerate(loader):
        if step % 2 == 0:
            optimizer.zero_grad()
            with net.no_sync():
                loss = nn.functional.cross_entropy(net(pixels), labels)
                (loss / 2).backward()
        else:
            loss = nn.functional.cross_entropy(net(pixels), labels)
            (loss / 2).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}  loss {total.item() / dist.get_world_size() / len(loader):.6f}", flush=True)

dist.barrier()
dist.destroy_process_group()
