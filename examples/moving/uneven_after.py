# SPDX-License-Identifier: Apache-2.0
"""The training of uneven_before.py, with Hora's join(): a rank that has no more batches counts as zeros until
the last rank is done. Then all ranks have the parameters of that rank.

    hrun -np 2 python examples/moving/uneven_after.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] epoch 0  loss ...
    [0] epoch 1  loss ...
    [0] epoch 2  loss ...
"""

import digits
import hora.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

hvd.init()
rank, size = hvd.rank(), hvd.size()
torch.set_num_threads(1)
torch.manual_seed(1)
pixels, labels = (torch.from_numpy(part)[rank::size] for part in digits.read())
images = len(labels) * (rank + 1) // size  # 11 batches on the first of two ranks, 22 on the second
loader = DataLoader(TensorDataset(pixels[:images], labels[:images]), batch_size=32)

net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())

for epoch in range(3):
    sums = torch.zeros(2)  # losses, batches
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        sums += torch.tensor([loss.item(), 1.0])
    last = hvd.join()
    hvd.broadcast_parameters(net.state_dict(), root_rank=last)
    sums = hvd.allreduce(sums, op=hvd.Sum)
    if rank == 0:
        print(f"epoch {epoch}  loss {sums[0].item() / sums[1].item():.6f}", flush=True)
