# SPDX-License-Identifier: Apache-2.0
"""Accelerate, which uses the group that is there. An argument names another backend.

    accelerate launch --multi-gpu --num-processes 2 examples/frameworks/accelerate_ddp.py
    hrun -np 2 python examples/frameworks/accelerate_ddp.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys

import digits
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

dist.init_process_group(sys.argv[1] if sys.argv[1:] else "hora")  # before Accelerator
accelerator = Accelerator(cpu=True)

net = digits.network()
net, optimizer, loader = accelerator.prepare(
    net,
    torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
    DataLoader(digits.read(), batch_size=32, shuffle=True),
)
for epoch in range(3):
    total = torch.zeros(())
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = cross_entropy(net(pixels), labels)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        total += loss.detach()
    mean = accelerator.reduce(total, reduction="mean").item() / len(loader)
    accelerator.print(f"epoch {epoch}  loss {mean:.6f}", flush=True)

accelerator.print(f"parameters: sum {digits.sum_of_parameters(net)}")
accelerator.end_training()
