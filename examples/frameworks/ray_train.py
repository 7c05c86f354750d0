# SPDX-License-Identifier: Apache-2.0
"""Ray Train with DDP. An argument names another backend.

    python examples/frameworks/ray_train.py

Expected output (figures differ a little from machine to machine; ... is any text):
    loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import sys

import digits
import torch
import torch.distributed as dist
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader


def train() -> dict[str, float | str]:
    """Runs in each process that Ray starts."""
    loader = prepare_data_loader(DataLoader(digits.read(), batch_size=32, shuffle=True))
    net = prepare_model(digits.network())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        total = torch.zeros(())
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = cross_entropy(net(pixels), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
    dist.all_reduce(total)
    mean = total.item() / len(loader) / dist.get_world_size()
    return {"loss": mean, "parameters": digits.sum_of_parameters(net)}


if __name__ == "__main__":
    backend = sys.argv[1] if sys.argv[1:] else "hora"
    trainer = TorchTrainer(
        train, torch_config=TorchConfig(backend=backend), scaling_config=ScalingConfig(num_workers=2)
    )
    trained = trainer.fit().return_value  # of rank 0
    print(f"loss {trained['loss']:.6f}")
    print(f"parameters: sum {trained['parameters']}")
