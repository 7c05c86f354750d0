# SPDX-License-Identifier: Apache-2.0
"""A transformer with FSDP2: each rank keeps a part of every parameter. An argument names another backend.

    torchrun --standalone --nproc-per-node 2 examples/frameworks/fsdp2.py
    hrun -np 2 python examples/frameworks/fsdp2.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys

import digits
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group(sys.argv[1] if sys.argv[1:] else "hora")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
data = digits.read()
order = DistributedSampler(data)
loader = DataLoader(data, batch_size=32, sampler=order)
net = digits.transformer()
for part in (*net[1].layers, net):
    fully_shard(part, mesh=mesh)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

for epoch in range(3):
    order.set_epoch(epoch)
    total = torch.zeros(())
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = cross_entropy(net(pixels), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}  loss {total.item() / len(loader) / dist.get_world_size():.6f}", flush=True)

parameters = digits.sum_of_parameters(net)
if dist.get_rank() == 0:
    print(f"parameters: sum {parameters}")
dist.destroy_process_group()
