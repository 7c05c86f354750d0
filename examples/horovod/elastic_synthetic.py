# SPDX-License-Identifier: Apache-2.0
"""A script written for elastic Horovod: a benchmark on made-up images, which goes on when ranks come and go.

    hrun --horovod -np 3 --min-np 1 python examples/horovod/elastic_synthetic.py

Expected output (figures differ from machine to machine; ... is any text):
    [0] model of ... parameters, batches of 8, on 3 ranks
    [0] iteration 0: ... images/s on each rank
    [0] iteration 4: ... images/s on each rank
    [0] ... +- ... images/s on each rank
    [0] ... images/s in all on ... ranks
"""

import argparse
import timeit

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on made-up images.")
    parser.add_argument("--batch-size", type=int, default=8, help="on each rank")
    parser.add_argument("--num-warmup-batches", type=int, default=2)
    parser.add_argument("--num-batches-per-iter", type=int, default=5)
    parser.add_argument("--num-iters", type=int, default=5)
    parser.add_argument("--num-batches-per-commit", type=int, default=1)
    parser.add_argument("--base-lr", type=float, default=0.01, help="for one rank")
    parser.add_argument("--fp16-allreduce", action="store_true")
    return parser.parse_args()


def make_model() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for wide in (16, 32, 64):
        layers += [nn.Conv2d(channels, wide, 3, stride=2, padding=1), nn.BatchNorm2d(wide), nn.ReLU()]
        channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100))


def main() -> None:
    args = parse_arguments()
    hvd.init()
    torch.set_num_threads(1)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * hvd.size())
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=compression
    )
    images = torch.randn(args.batch_size, 3, 32, 32)
    labels = torch.randint(100, (args.batch_size,))

    def log(text: str) -> None:
        if hvd.rank() == 0:
            print(text, flush=True)

    def make_step(state: hvd.elastic.TorchState) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        state.batch += 1
        if state.batch % args.num_batches_per_commit == 0:
            state.commit()

    @hvd.elastic.run
    def run_benchmark(state: hvd.elastic.TorchState) -> None:
        if not state.warm:
            parameters = sum(each.numel() for each in model.parameters())
            log(f"model of {parameters} parameters, batches of {args.batch_size}, on {hvd.size()} ranks")
            timeit.timeit(lambda: make_step(state), number=args.num_warmup_batches)
            state.warm = True
            state.commit()
        for number in range(state.iteration, args.num_iters):
            time = timeit.timeit(lambda: make_step(state), number=args.num_batches_per_iter)
            speed = args.batch_size * args.num_batches_per_iter / time
            log(f"iteration {number}: {speed:.1f} images/s on each rank")
            state.speeds = [*state.speeds, speed]
            state.iteration = number + 1
            state.commit()

    def on_reset() -> None:
        for group in optimizer.param_groups:
            group["lr"] = args.base_lr * hvd.size()

    state = hvd.elastic.TorchState(model, optimizer, warm=False, iteration=0, batch=0, speeds=[])
    state.register_reset_callbacks([on_reset])
    run_benchmark(state)
    log(f"{np.mean(state.speeds):.1f} +- {1.96 * np.std(state.speeds):.1f} images/s on each rank")
    log(f"{hvd.size() * np.mean(state.speeds):.1f} images/s in all on {hvd.size()} ranks")


if __name__ == "__main__":
    main()
