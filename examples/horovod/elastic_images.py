# SPDX-License-Identifier: Apache-2.0
"""A script written for elastic Horovod: images are classified, and the training goes on from the last commit
when a rank is lost. Each rank takes its part of what is left of an epoch.

    hrun --horovod -np 3 --min-np 1 python examples/horovod/elastic_images.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] epoch 0  train loss ...  test accuracy ...
    [0] epoch 4  train loss 0...  test accuracy 0...
    [0] trained on ... ranks at the end; the parameters are equal on all of them
"""

import argparse
import pathlib

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

HELD_OUT = 389


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Classify handwritten digits on ranks that may be lost.")
    parser.add_argument("--data", default=pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16, help="on each rank")
    parser.add_argument("--batches-per-commit", type=int, default=5)
    parser.add_argument("--base-lr", type=float, default=0.02, help="for one rank")
    parser.add_argument("--momentum", type=float, default=0.9)
    return parser.parse_args()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.drop = nn.Dropout2d(0.1)
        self.fc = nn.Linear(16 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.drop(self.conv2(x))), 2)
        return self.fc(x.flatten(1))


def average(value: float, name: str) -> float:
    return hvd.allreduce(torch.tensor(value), name=name).item()


def evaluate(model: nn.Module, loader: DataLoader) -> float:
    """The accuracy on the samples that nobody has trained on. Each rank has all of them."""
    model.eval()
    right = total = 0
    with torch.no_grad():
        for pixels, labels in loader:
            right += int((model(pixels).argmax(1) == labels).sum())
            total += len(labels)
    return average(right / total, "test_accuracy")


def main() -> None:
    args = parse_arguments()
    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)

    table = torch.from_numpy(np.loadtxt(args.data, delimiter=",", dtype=np.int64))
    data = TensorDataset(table[:, :64].float().reshape(-1, 1, 8, 8) / 16, table[:, 64])
    train_data = Subset(data, range(len(data) - HELD_OUT))
    test_data = Subset(data, range(len(data) - HELD_OUT, len(data)))
    sampler = hvd.elastic.ElasticSampler(train_data)
    train_loader = DataLoader(train_data, batch_size=args.batch_size, sampler=sampler)
    test_loader = DataLoader(test_data, batch_size=64)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * hvd.size(), momentum=args.momentum)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        while state.epoch < args.epochs:
            model.train()
            losses = []
            for number, (pixels, labels) in enumerate(train_loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(pixels), labels)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                state.sampler.record_batch(number, args.batch_size)
                state.batch += 1
                if state.batch % args.batches_per_commit == 0:
                    state.commit()
            loss = average(sum(losses) / max(len(losses), 1), "train_loss")
            accuracy = evaluate(model, test_loader)
            if hvd.rank() == 0:
                print(f"epoch {state.epoch}  train loss {loss:.3f}  test accuracy {accuracy:.3f}", flush=True)
            state.epoch += 1
            state.batch = 0
            state.sampler.set_epoch(state.epoch)
            state.commit()

    def on_reset() -> None:
        for group in optimizer.param_groups:
            group["lr"] = args.base_lr * hvd.size()

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, batch=0)
    state.register_reset_callbacks([on_reset])
    train(state)

    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    gathered = hvd.allgather(flat.unsqueeze(0), name="parameters")
    if hvd.rank() == 0:
        assert bool((gathered == gathered[0]).all()), "the parameters differ"
        print(f"trained on {hvd.size()} ranks at the end; the parameters are equal on all of them")


if __name__ == "__main__":
    main()
