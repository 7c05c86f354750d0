# SPDX-License-Identifier: Apache-2.0
"""The evaluation of evaluation_before.py, with Hora. An average of the ranks' averages would be wrong here,
as there.

    hrun -np 2 python examples/moving/evaluation_after.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] 389 images  loss 2...  accuracy 0...
"""

import digits
import hora.torch as hvd
import torch
from torch import nn

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).eval()
pixels, labels = (torch.from_numpy(part)[hvd.rank() :: hvd.size()] for part in digits.read(held_out=True))

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
sums = hvd.allreduce(sums, op=hvd.Sum)
loss, right, images = sums.tolist()
if hvd.rank() == 0:
    print(f"{images:.0f} images  loss {loss / images:.6f}  accuracy {right / images:.6f}", flush=True)
