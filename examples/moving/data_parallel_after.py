# SPDX-License-Identifier: Apache-2.0
"""The training of data_parallel_before.py, on any number of ranks: each has its part of every batch.

    hrun -np 2 python examples/moving/data_parallel_after.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] epoch 0  loss ...
    [0] epoch 1  loss ...
    [0] epoch 2  loss 0...
"""

import digits
import hora.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 64

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
dataset = TensorDataset(*map(torch.from_numpy, digits.read()))
order = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(dataset, batch_size=BATCH // hvd.size(), sampler=order)

net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())

for epoch in range(3):
    order.set_epoch(epoch)
    total = torch.zeros(())
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(pixels), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    total = hvd.allreduce(total)
    if hvd.rank() == 0:
        print(f"epoch {epoch}  loss {total.item() / len(loader):.6f}", flush=True)
