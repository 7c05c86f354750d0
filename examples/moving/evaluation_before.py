# SPDX-License-Identifier: Apache-2.0
"""Distributed evaluation with torchrun. The ranks' parts are of unequal length, so sums are reduced, and
divided once.

    torchrun --standalone --nproc-per-node 2 examples/moving/evaluation_before.py

Expected output (figures differ a little from machine to machine; ... is any text):
    389 images  loss 2...  accuracy 0...
"""

import digits
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).eval()
pixels, labels = (
    torch.from_numpy(part)[dist.get_rank() :: dist.get_world_size()] for part in digits.read(held_out=True)
)

sums = torch.zeros(3, dtype=torch.float64)  # losses, right answers, images
with torch.no_grad():
    for x, y in zip(pixels.split(50), labels.split(50), strict=True):
        scores = net(x)
        sums += torch.tensor(
            [
                nn.functional.cross_entropy(scores, y, reduction="sum").item(),
                (scores.argmax(1) == y).sum().item(),
                len(y),
            ]
        )
dist.all_reduce(sums)
loss, right, images = sums.tolist()
if dist.get_rank() == 0:
    print(f"{images:.0f} images  loss {loss / images:.6f}  accuracy {right / images:.6f}", flush=True)

dist.barrier()
dist.destroy_process_group()
