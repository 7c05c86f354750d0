# SPDX-License-Identifier: Apache-2.0
"""DTensor: all ranks compute the same batch, each with a part of every layer. An argument names another
backend.

    torchrun --standalone --nproc-per-node 2 examples/frameworks/dtensor.py
    hrun -np 2 python examples/frameworks/dtensor.py

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
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

dist.init_process_group(sys.argv[1] if sys.argv[1:] else "hora")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
net = parallelize_module(digits.network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
same_order = torch.Generator().manual_seed(1)
loader = DataLoader(digits.read(), batch_size=64, shuffle=True, generator=same_order)

for epoch in range(3):
    total = torch.zeros(())
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = cross_entropy(net(pixels), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    if dist.get_rank() == 0:
        print(f"epoch {epoch}  loss {total.item() / len(loader):.6f}", flush=True)

parameters = digits.sum_of_parameters(net)
if dist.get_rank() == 0:
    print(f"parameters: sum {parameters}")
dist.destroy_process_group()
