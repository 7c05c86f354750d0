# SPDX-License-Identifier: Apache-2.0
"""A script written for Horovod: two models at the same time, each on a process set of its own. One looks at
the upper half of an image, the other at the lower half; in the end all ranks put together what both say.

    hrun --horovod -np 2 python examples/horovod/two_models.py

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] upper half on ranks [0], loss ...  accuracy 0...
    [1] lower half on ranks [1], loss ...  accuracy 0...
    [0] together accuracy 0...
    [0] the parameters are equal on the ranks of each set
"""

import argparse
import pathlib

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HELD_OUT = 389
HALVES = {"upper": slice(0, 32), "lower": slice(32, 64)}  # of an image's pixels


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Classify handwritten digits by their halves.")
    parser.add_argument("--data", default=pathlib.Path(__file__).resolve().parents[1] / "data/digits.csv")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="over all ranks of a set")
    parser.add_argument("--lr", type=float, default=0.01)
    return parser.parse_args()


class Half:
    """The model for one half of the image, on the ranks of its process set."""

    def __init__(self, name: str, process_set: hvd.ProcessSet, lr: float) -> None:
        self.name = name
        self.process_set = process_set
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
        for key, tensor in sorted(self.model.state_dict().items()):
            hvd.broadcast_(
                tensor, root_rank=process_set.ranks[0], name=f"{name}.{key}", process_set=process_set
            )
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.Adam(self.model.parameters(), lr=lr),
            named_parameters=[
                (f"{name}.{key}", parameter) for key, parameter in self.model.named_parameters()
            ],
            process_set=process_set,
        )

    def scores(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.model(pixels[:, HALVES[self.name]])

    def train_epoch(self, pixels: torch.Tensor, labels: torch.Tensor, batch_size: int) -> float:
        """The mean loss over the set. All its ranks have the same images, and take turns."""
        rank, size = self.process_set.rank(), self.process_set.size()
        total = torch.tensor(0.0)
        batches = len(labels) // batch_size
        for index in torch.arange(batches * batch_size).reshape(batches, batch_size):
            mine = index[rank::size]
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.scores(pixels[mine]), labels[mine])
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return hvd.allreduce(total / batches, name=f"{self.name}.loss", process_set=self.process_set).item()

    def is_equal_on_all_ranks(self) -> bool:
        flat = torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])
        gathered = hvd.allgather(
            flat.unsqueeze(0), name=f"{self.name}.parameters", process_set=self.process_set
        )
        return bool((gathered == gathered[0]).all())


def make_process_sets() -> dict[str, hvd.ProcessSet]:
    """One half of the ranks for each model; a single rank has both."""
    if hvd.size() == 1:
        return {name: hvd.global_process_set for name in HALVES}
    middle = hvd.size() // 2
    return {
        "upper": hvd.add_process_set(range(middle)),
        "lower": hvd.add_process_set(range(middle, hvd.size())),
    }


def main() -> None:
    args = parse_arguments()
    hvd.init(process_sets="dynamic")
    torch.manual_seed(hvd.rank())
    torch.set_num_threads(1)

    table = torch.from_numpy(np.loadtxt(args.data, delimiter=",", dtype=np.int64))
    pixels, labels = table[:, :64].float() / 16, table[:, 64]
    train_pixels, train_labels = pixels[:-HELD_OUT], labels[:-HELD_OUT]
    test_pixels, test_labels = pixels[-HELD_OUT:], labels[-HELD_OUT:]

    sets = make_process_sets()
    halves = [
        Half(name, process_set, args.lr) for name, process_set in sets.items() if process_set.included()
    ]
    for half in halves:
        for _ in range(args.epochs):
            loss = half.train_epoch(train_pixels, train_labels, args.batch_size)
        if half.process_set.rank() == 0:
            accuracy = (half.scores(test_pixels).argmax(1) == test_labels).double().mean().item()
            print(
                f"{half.name} half on ranks {half.process_set.ranks}, loss {loss:.4f}  accuracy "
                f"{accuracy:.4f}",
                flush=True,
            )

    with torch.no_grad():  # every rank of a set says the same, so each counts for its part of it
        likely = sum(F.log_softmax(half.scores(test_pixels), 1) / half.process_set.size() for half in halves)
    together = hvd.allreduce(likely, op=hvd.Sum, name="likely")
    equal = hvd.allreduce(
        torch.tensor(int(all(half.is_equal_on_all_ranks() for half in halves))), op=hvd.Min, name="equal"
    ).item()
    if hvd.rank() == 0:
        print(f"together accuracy {(together.argmax(1) == test_labels).double().mean().item():.4f}")
        print(f"the parameters are {'equal' if equal else 'NOT EQUAL'} on the ranks of each set")

    for process_set in sets.values():
        hvd.remove_process_set(process_set)


if __name__ == "__main__":
    main()
