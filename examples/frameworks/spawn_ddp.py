# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel in processes of torch.multiprocessing.spawn. An argument names another backend.

    python examples/frameworks/spawn_ddp.py

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 2  loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys
import tempfile

import digits
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

RANKS = 2


def train(rank: int, backend: str, store: str) -> None:
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=RANKS)
    data = digits.read()
    order = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=order)
    net = DistributedDataParallel(digits.network())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        order.set_epoch(epoch)
        total = torch.zeros(())
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = cross_entropy(net(pixels), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}  loss {total.item() / len(loader) / RANKS:.6f}", flush=True)
    parameters = digits.sum_of_parameters(net)
    if rank == 0:
        print(f"parameters: sum {parameters}")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(sys.argv[1] if sys.argv[1:] else "hora", f"{folder}/store"), nprocs=RANKS)
