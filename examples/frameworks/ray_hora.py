# SPDX-License-Identifier: Apache-2.0
"""Ray Train with the optimizer of hora.torch, in the place of DDP.

    python examples/frameworks/ray_hora.py

Expected output (figures differ a little from machine to machine; ... is any text):
    loss 0...
    parameters: sum ..., equal on 2 ranks
"""

import digits
import hora.torch as hvd
import torch
from hora.ray import HoraConfig
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler


def train() -> dict[str, float | str]:
    """Runs in each process that Ray starts."""
    data = digits.read()
    order = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(data, batch_size=32, sampler=order)
    net = digits.network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), net.named_parameters()
    )
    for epoch in range(3):
        order.set_epoch(epoch)
        total = torch.zeros(())
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = cross_entropy(net(pixels), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
    mean = hvd.allreduce(total).item() / len(loader)
    return {"loss": mean, "parameters": digits.sum_of_parameters(net)}


if __name__ == "__main__":
    trainer = TorchTrainer(train, torch_config=HoraConfig(), scaling_config=ScalingConfig(num_workers=2))
    trained = trainer.fit().return_value  # of rank 0
    print(f"loss {trained['loss']:.6f}")
    print(f"parameters: sum {trained['parameters']}")
