# SPDX-License-Identifier: Apache-2.0
"""Digits: a small network learns to read handwritten digits, on any number of ranks. The twin of
03_digits.cc.

    hrun -np 2 python examples/04_digits.py                     # python -m hora.demo is the same, of an
    installed Hora hrun -np 2 python examples/04_digits.py --device cuda       # one GPU for each rank

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] epoch  1/12  loss ...  accuracy ...  ... images/s
    [0] epoch 12/12  loss ...  accuracy 0.9...  ... images/s
    [0] held-out accuracy 0.9...
    [0] parameters are equal on all 2 ranks
"""

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Iterator

import hora.torch as hvd
import numpy as np
import torch
from torch import nn

HELD_OUT = 5  # every fifth image is for the exam, and never learned from


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits.")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32, help="on each rank")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--compression", choices=["none", "fp16", "bf16"], default="none")
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cpu",
        help="cuda: the GPU of this rank's number on its host",
    )
    parser.add_argument("--data", default=pathlib.Path(__file__).parent / "data/digits.csv")
    parser.add_argument("--checkpoint", help="where rank 0 saves what was learned")
    parser.add_argument("--resume", help="a checkpoint to go on from")
    parser.add_argument("--losses", help="where rank 0 writes the loss of every step")
    return parser.parse_args()


def choose_device(kind: str) -> torch.device:
    """The CPU, or this rank's GPU: the one of its number among the ranks of its host."""
    if kind == "cpu":
        return torch.device("cpu")
    if torch.cuda.device_count() <= hvd.local_rank():
        sys.exit(
            f"digits: --device cuda: this host has {torch.cuda.device_count()} GPUs, and rank {hvd.rank()} "
            f"wants number {hvd.local_rank()}"
        )
    torch.cuda.set_device(hvd.local_rank())
    return torch.device("cuda", hvd.local_rank())


def read_images(path: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels, float32[images, 64] from 0 to 1, and labels, int64[images]."""
    table = np.loadtxt(path, delimiter=",", dtype=np.int64)
    return torch.tensor(table[:, :64], dtype=torch.float32, device=device) / 16, torch.tensor(
        table[:, 64], device=device
    )


def batches(images: int, epoch: int, batch: int) -> Iterator[torch.Tensor]:
    """This rank's batches of an epoch: all ranks shuffle alike, and take turns, so that batch B on each of 2
    ranks is batch 2B on one."""
    order = torch.randperm(images, generator=torch.Generator().manual_seed(epoch))
    together = batch * hvd.size()
    for begin in range(0, images - together + 1, together):
        yield order[begin : begin + together][hvd.rank() :: hvd.size()]


def count_steps(images: int, batch: int) -> int:
    """Batches in an epoch."""
    if not 0 < batch <= images // hvd.size():
        sys.exit(f"digits: --batch {batch} on {hvd.size()} ranks makes no batch of {images} images")
    return images // (batch * hvd.size())


def mean_over_ranks(value: float, name: str) -> float:
    return hvd.allreduce(torch.tensor(value, dtype=torch.float64), name=name).item()


def draw_bar(done: int, steps: int) -> None:
    if hvd.rank() == 0 and (sys.stdout.isatty() or "HORA_TERMINAL" in os.environ):
        print("#" * (40 * done // steps) + "." * (40 - 40 * done // steps), end="\r", flush=True)


def main() -> int:
    flags = parse_flags()
    torch.set_num_threads(1)  # the network is small; the ranks are the parallelism
    torch.manual_seed(1)
    hvd.init()

    pixels, labels = read_images(flags.data, choose_device(flags.device))
    exam = torch.arange(len(labels)) % HELD_OUT == 0
    exam_pixels, exam_labels = pixels[exam], labels[exam]
    pixels, labels = pixels[~exam], labels[~exam]

    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(pixels.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=flags.learning_rate, momentum=0.9)
    if flags.resume and hvd.rank() == 0:
        saved = torch.load(flags.resume, map_location=pixels.device)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=net.named_parameters(),
        compression=getattr(hvd.Compression, flags.compression),
    )

    losses = []
    steps = count_steps(len(labels), flags.batch)
    for epoch in range(1, flags.epochs + 1):
        start = time.perf_counter()
        right = 0
        for step, index in enumerate(batches(len(labels), epoch, flags.batch)):
            optimizer.zero_grad()
            scores = net(pixels[index])
            loss = nn.functional.cross_entropy(scores, labels[index])
            loss.backward()
            optimizer.step()
            losses.append(mean_over_ranks(loss.item(), "loss"))
            right += (scores.argmax(1) == labels[index]).sum().item()
            draw_bar(step + 1, steps)
        seconds = time.perf_counter() - start
        seen = steps * flags.batch
        accuracy = mean_over_ranks(right / seen, "accuracy")
        if hvd.rank() == 0:
            mean_loss = sum(losses[-steps:]) / steps
            speed = seen * hvd.size() / seconds
            print(
                f"epoch {epoch:2}/{flags.epochs}  loss {mean_loss:.4f}  accuracy "
                f"{accuracy:.4f}  {speed:.0f} images/s",
                flush=True,
            )

    with torch.no_grad():  # every rank reads some of the held-out images
        mine = slice(hvd.rank(), None, hvd.size())
        right = (net(exam_pixels[mine]).argmax(1) == exam_labels[mine]).sum()
    accuracy = hvd.allreduce(right.double(), name="right", op=hvd.Sum).item() / len(exam_labels)
    flat = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    everybodys = hvd.allgather(flat.unsqueeze(0), name="parameters")
    equal = bool((everybodys == everybodys[0]).all())
    if hvd.rank() == 0:
        print(f"held-out accuracy {accuracy:.4f}")
        print(f"parameters are {'equal' if equal else 'NOT EQUAL'} on all {hvd.size()} ranks")
        if flags.checkpoint:
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, flags.checkpoint)
        if flags.losses:
            pathlib.Path(flags.losses).write_text("\n".join(f"{loss:.9g}" for loss in losses) + "\n")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
