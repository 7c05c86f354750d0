# SPDX-License-Identifier: Apache-2.0
"""A script written for Horovod: images are classified, with fp16 gradients that are clipped, a learning rate
that grows with the ranks and warms up, metrics averaged over ranks, and checkpoints to resume from.

    hrun --horovod -np 2 python examples/horovod/image_classification.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] training on 2 ranks from epoch 0 on, learning rate 0.04
    [0] epoch 0  train loss ...  train accuracy ...  test loss ...  test accuracy ...
    [0] epoch 4  train loss 0...  train accuracy 0.9...  test loss 0...  test accuracy 0...
    [0] the parameters are equal on all 2 ranks
"""

import argparse
import math
import pathlib

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

HELD_OUT = 389


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Classify handwritten digits.")
    parser.add_argument("--data", default=pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv")
    parser.add_argument(
        "--checkpoint-format", help="where rank 0 saves each epoch, such as checkpoint-{epoch}.pt"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument(
        "--batches-per-allreduce", type=int, default=1, help="batches added up on each rank before each step"
    )
    parser.add_argument("--base-lr", type=float, default=0.02, help="for one rank")
    parser.add_argument("--warmup-epochs", type=float, default=1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--clip", type=float, default=5.0, help="the largest norm of the gradients")
    parser.add_argument("--fp16-allreduce", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


class Metric:
    """The mean of a figure over the batches of all ranks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = torch.tensor(0.0)
        self.batches = 0

    def update(self, value: torch.Tensor) -> None:
        self.total += value.detach()
        self.batches += 1

    @property
    def average(self) -> float:
        return hvd.allreduce(self.total / self.batches, name=self.name).item()


def accuracy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (scores.argmax(1) == labels).float().mean()


def adjust_learning_rate(optimizer: torch.optim.Optimizer, progress: float, args: argparse.Namespace) -> None:
    """Raises the rate from that for one rank to that for all of them, over the first epochs. `progress` is in
    epochs."""
    scale = hvd.size() * args.batches_per_allreduce
    factor = scale * (1.0 if progress < 4 else 0.1)
    if progress < args.warmup_epochs:
        factor = 1 + progress * (scale - 1) / args.warmup_epochs
    for group in optimizer.param_groups:
        group["lr"] = args.base_lr * factor


def train(
    epoch: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader,
    sampler: DistributedSampler,
    args: argparse.Namespace,
) -> list[float]:
    model.train()
    sampler.set_epoch(epoch)
    loss_metric, accuracy_metric = Metric("train_loss"), Metric("train_accuracy")
    for step, (pixels, labels) in enumerate(loader):
        adjust_learning_rate(optimizer, epoch + step / len(loader), args)
        optimizer.zero_grad()
        for begin in range(0, len(labels), args.batch_size):
            x, y = pixels[begin : begin + args.batch_size], labels[begin : begin + args.batch_size]
            scores = model(x)
            loss = F.cross_entropy(scores, y)
            loss_metric.update(loss)
            accuracy_metric.update(accuracy(scores, y))
            loss.div_(math.ceil(len(labels) / args.batch_size))
            loss.backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        with optimizer.skip_synchronize():
            optimizer.step()
    return [loss_metric.average, accuracy_metric.average]


def evaluate(model: nn.Module, loader: DataLoader) -> list[float]:
    model.eval()
    loss_metric, accuracy_metric = Metric("test_loss"), Metric("test_accuracy")
    with torch.no_grad():
        for pixels, labels in loader:
            scores = model(pixels)
            loss_metric.update(F.cross_entropy(scores, labels))
            accuracy_metric.update(accuracy(scores, labels))
    return [loss_metric.average, accuracy_metric.average]


def find_epoch_to_resume(args: argparse.Namespace) -> int:
    """How many epochs are done; rank 0 looks, and tells the others."""
    done = 0
    while args.checkpoint_format and pathlib.Path(args.checkpoint_format.format(epoch=done + 1)).exists():
        done += 1
    return hvd.broadcast(torch.tensor(done), root_rank=0, name="resume_from_epoch").item()


def are_equal_on_all_ranks(model: nn.Module) -> bool:
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    gathered = hvd.allgather(flat.unsqueeze(0), name="parameters")
    return bool((gathered == gathered[0]).all())


def main() -> None:
    args = parse_arguments()
    hvd.init()
    torch.manual_seed(42 + hvd.rank())
    torch.set_num_threads(1)

    table = torch.from_numpy(np.loadtxt(args.data, delimiter=",", dtype=np.int64))
    data = TensorDataset(table[:, :64].float().reshape(-1, 1, 8, 8) / 16, table[:, 64])
    train_data, test_data = (
        torch.utils.data.Subset(data, part)
        for part in (range(len(data) - HELD_OUT), range(len(data) - HELD_OUT, len(data)))
    )
    train_sampler = DistributedSampler(train_data, num_replicas=hvd.size(), rank=hvd.rank())
    train_loader = DataLoader(
        train_data, batch_size=args.batch_size * args.batches_per_allreduce, sampler=train_sampler
    )
    test_sampler = DistributedSampler(test_data, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
    test_loader = DataLoader(test_data, batch_size=64, sampler=test_sampler)

    model = Net()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.base_lr, momentum=args.momentum, weight_decay=1e-4
    )
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=compression,
        backward_passes_per_step=args.batches_per_allreduce,
        op=hvd.Average,
    )

    first_epoch = find_epoch_to_resume(args)
    if first_epoch > 0 and hvd.rank() == 0:
        checkpoint = torch.load(args.checkpoint_format.format(epoch=first_epoch))
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    if hvd.rank() == 0:
        print(
            f"training on {hvd.size()} ranks from epoch {first_epoch} on, learning rate "
            f"{args.base_lr * hvd.size() * args.batches_per_allreduce:g}",
            flush=True,
        )
    for epoch in range(first_epoch, args.epochs):
        figures = train(epoch, model, optimizer, train_loader, train_sampler, args) + evaluate(
            model, test_loader
        )
        if hvd.rank() == 0:
            results = "train loss {:.4f}  train accuracy {:.4f}  test loss {:.4f}  test accuracy {:.4f}"
            print(f"epoch {epoch}  {results.format(*figures)}", flush=True)
            if args.checkpoint_format:
                torch.save(
                    {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                    args.checkpoint_format.format(epoch=epoch + 1),
                )

    equal = are_equal_on_all_ranks(model)
    if hvd.rank() == 0:
        print(f"the parameters are {'equal' if equal else 'NOT EQUAL'} on all {hvd.size()} ranks")


if __name__ == "__main__":
    main()
