# SPDX-License-Identifier: Apache-2.0
"""The training of distributed_data_parallel_before.py, with Hora. The script also runs under torchrun.

    hrun -np 2 python examples/moving/distributed_data_parallel_after.py

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

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1 + hvd.rank())
dataset = TensorDataset(*map(torch.from_numpy, digits.read()))
order = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(dataset, batch_size=32, sampler=order)

net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())

for epoch in range(3):
    order.set_epoch(epoch)
    total = torch.zeros(())
    for step, (pixels, labels) in enumerate(loader):
        if step % 2 == 0:
            optimizer.zero_grad()
            with optimizer.no_sync():
                loss = nn.functional.cross_entropy(net(pixels), labels)
                (loss / 2).backward()
        else:
            loss = nn.functional.cross_entropy(net(pixels), labels)
            (loss / 2).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        total += loss.detach()
    total = hvd.allreduce(total, op=hvd.Sum)
    if hvd.rank() == 0:
        print(f"epoch {epoch}  loss {total.item() / hvd.size() / len(loader):.6f}", flush=True)
