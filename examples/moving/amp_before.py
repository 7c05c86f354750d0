# SPDX-License-Identifier: Apache-2.0
"""torch.amp with DistributedDataParallel: float16 where it is safe, a scaled loss, clipped gradients. The
scale begins too large on purpose, so that gradients overflow and the first steps are skipped.

    torchrun --standalone --nproc-per-node 2 examples/moving/amp_before.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...  scale ...
    epoch 1  loss ...  scale ...
    epoch 2  loss 0...  scale ...
"""

import digits
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(1)
dataset = TensorDataset(*map(torch.from_numpy, digits.read()))
order = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=32, sampler=order)

net = DistributedDataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
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
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(
            f"epoch {epoch}  loss {total.item() / dist.get_world_size() / len(loader):.6f}  scale "
            f"{scaler.get_scale():.0f}",
            flush=True,
        )

dist.barrier()
dist.destroy_process_group()
