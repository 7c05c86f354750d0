# SPDX-License-Identifier: Apache-2.0
"""torch.nn.DataParallel: one process. Where there is no GPU, as here, it calls the network itself.

    python examples/moving/data_parallel_before.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 1  loss ...
    epoch 2  loss 0...
"""

import digits
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

BATCH = 64

torch.set_num_threads(1)
torch.manual_seed(1)
dataset = TensorDataset(*map(torch.from_numpy, digits.read()))
order = torch.Generator()
loader = DataLoader(dataset, batch_size=BATCH, sampler=RandomSampler(dataset, generator=order))

net = nn.DataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    order.manual_seed(epoch)
    total = torch.zeros(())
    for pixels, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(pixels), labels)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"epoch {epoch}  loss {total.item() / len(loader):.6f}", flush=True)
