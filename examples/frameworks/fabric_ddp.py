# SPDX-License-Identifier: Apache-2.0
"""Lightning Fabric with DDP. An argument names another backend.

    python examples/frameworks/fabric_ddp.py                # Fabric starts the other rank itself
    hrun -np 2 python examples/frameworks/fabric_ddp.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys

import digits
import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

backend = sys.argv[1] if sys.argv[1:] else "hora"
fabric = Fabric(accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend=backend))
fabric.launch()

net = digits.network()
net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
loader = fabric.setup_dataloaders(DataLoader(digits.read(), batch_size=32, shuffle=True))

for epoch in range(3):
    total = torch.zeros(())
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = cross_entropy(net(pixels), labels)
        fabric.backward(loss)
        optimizer.step()
        total += loss.detach()
    fabric.print(f"epoch {epoch}  loss {fabric.all_reduce(total).item() / len(loader):.6f}", flush=True)

fabric.print(f"parameters: sum {digits.sum_of_parameters(net)}")
