# SPDX-License-Identifier: Apache-2.0
"""The training of amp_before.py, with Hora. Gradients are the reduced ones when backward() returns: unscaling
and clipping need no extra call, and all ranks skip the same steps.

    hrun -np 2 python examples/moving/amp_after.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] epoch 0  loss ...  scale ...
    [0] epoch 1  loss ...  scale ...
    [0] epoch 2  loss 0...  scale ...
"""

import digits
import hora.torch as hvd
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
dataset = TensorDataset(*map(torch.from_numpy, digits.read()))
order = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(dataset, batch_size=32, sampler=order)

net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)

for epoch in range(3):
    order.set_epoch(epoch)
    total = torch.zeros(())
    for pixels, labels in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(pixels), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.detach()
    total = hvd.allreduce(total, op=hvd.Sum)
    if hvd.rank() == 0:
        print(
            f"epoch {epoch}  loss {total.item() / hvd.size() / len(loader):.6f}  scale "
            f"{scaler.get_scale():.0f}",
            flush=True,
        )
