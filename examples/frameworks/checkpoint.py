# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint: each rank writes and reads its part of a model of FSDP2. The training that
goes on from the checkpoint does the same as the one that has written it. The arguments are the folder of the
checkpoint, on a disk that all ranks share, and maybe another backend.

    torchrun --standalone --nproc-per-node 2 examples/frameworks/checkpoint.py /tmp/digits
    hrun -np 2 python examples/frameworks/checkpoint.py /tmp/digits

Expected output (figures differ a little from machine to machine; ... is any text):
    epoch 0  loss ...
    epoch 1  loss 0...
    epoch 1 again, from the checkpoint  loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys

import digits
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

Training = tuple[torch.nn.Module, torch.optim.Optimizer]


def begin() -> Training:
    net = fully_shard(digits.network(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return net, torch.optim.AdamW(net.parameters(), lr=0.01)


def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, text: str) -> None:
    """An epoch."""
    pixels, labels = (part[dist.get_rank() :: dist.get_world_size()] for part in digits.read().tensors)
    for some_pixels, some_labels in zip(pixels.split(32), labels.split(32), strict=True):
        optimizer.zero_grad()
        loss = cross_entropy(net(some_pixels), some_labels)
        loss.backward()
        optimizer.step()
    last = loss.detach()
    dist.all_reduce(last)
    if dist.get_rank() == 0:
        print(f"{text}  loss {last.item() / dist.get_world_size():.6f}", flush=True)


def state(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    return dict(zip(("net", "optimizer"), get_state_dict(net, optimizer), strict=True))


def main(folder: str) -> None:
    first = begin()
    train(*first, "epoch 0")
    dcp.save(state(*first), checkpoint_id=folder)
    train(*first, "epoch 1")

    second = begin()
    saved = state(*second)
    dcp.load(saved, checkpoint_id=folder)
    set_state_dict(*second, model_state_dict=saved["net"], optim_state_dict=saved["optimizer"])
    train(*second, "epoch 1 again, from the checkpoint")
    parameters = digits.sum_of_parameters(second[0])
    if dist.get_rank() == 0:
        print(f"parameters: sum {parameters}")


if __name__ == "__main__":
    dist.init_process_group(sys.argv[2] if sys.argv[2:] else "hora")
    main(sys.argv[1])
    dist.destroy_process_group()
