# SPDX-License-Identifier: Apache-2.0
"""A script written for Horovod: a language model whose embedding has sparse gradients, which add up over
several batches before they are reduced. It learns to guess the next word of this project's licence.

    hrun --horovod -np 2 python examples/horovod/language_model.py
    hrun --horovod -np 2 python examples/horovod/language_model.py --sparse-as-dense

Expected output (figures differ a little from machine to machine; ... is any text):
    [0] ... words, ... of them different; 4 batches a step
    [0] epoch 0  loss ...  perplexity ...
    [0] epoch 5  loss ...  perplexity ...
    [0] the parameters are equal on all 2 ranks
"""

import argparse
import math
import pathlib
import re

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn to guess the next word.")
    parser.add_argument("--text", default=pathlib.Path(__file__).resolve().parents[2] / "LICENSE")
    parser.add_argument("--context", type=int, default=4, help="words to guess from")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--backward-passes-per-step", type=int, default=4)
    parser.add_argument("--sparse-as-dense", action="store_true")
    return parser.parse_args()


class LanguageModel(nn.Module):
    def __init__(self, words: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 32, sparse=True)
        self.hidden = nn.Linear(context * 32, 64)
        self.guess = nn.Linear(64, words)

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        return self.guess(torch.tanh(self.hidden(self.embedding(context).flatten(1))))


def read_words(path: str) -> tuple[torch.Tensor, int]:
    """The text as numbers of words, and how many words differ."""
    words = re.findall(r"[a-z]+|[.,;:]", pathlib.Path(path).read_text().lower())
    numbers = {word: number for number, word in enumerate(sorted(set(words)))}
    return torch.tensor([numbers[word] for word in words]), len(numbers)


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[torch.Tensor], passes: int
) -> float:
    """The mean loss over all ranks."""
    total = torch.tensor(0.0)
    for begin in range(0, len(batches), passes):
        optimizer.zero_grad()
        for batch in batches[begin : begin + passes]:
            loss = F.cross_entropy(model(batch[:, :-1]), batch[:, -1])
            total += loss.detach()
            (loss / passes).backward()
        optimizer.step()
    return hvd.allreduce(total / len(batches), name="loss").item()


def main() -> None:
    args = parse_arguments()
    hvd.init()
    torch.manual_seed(7)
    torch.set_num_threads(1)

    words, different = read_words(args.text)
    examples = words.unfold(0, args.context + 1, 1)
    together = args.batch_size * args.backward_passes_per_step * hvd.size()
    examples = examples[: len(examples) // together * together]  # whole steps on all ranks

    model = LanguageModel(different, args.context)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=args.backward_passes_per_step,
        sparse_as_dense=args.sparse_as_dense,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    if hvd.rank() == 0:
        print(
            f"{len(words)} words, {different} of them different; "
            f"{args.backward_passes_per_step} batches a step",
            flush=True,
        )
    for epoch in range(args.epochs):
        order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(epoch))
        mine = examples[order[hvd.rank() :: hvd.size()]]
        loss = train_epoch(model, optimizer, list(mine.split(args.batch_size)), args.backward_passes_per_step)
        if hvd.rank() == 0:
            print(f"epoch {epoch}  loss {loss:.4f}  perplexity {math.exp(loss):.1f}", flush=True)

    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    gathered = hvd.allgather(flat.unsqueeze(0), name="parameters")
    equal = bool((gathered == gathered[0]).all())
    if hvd.rank() == 0:
        print(f"the parameters are {'equal' if equal else 'NOT EQUAL'} on all {hvd.size()} ranks")


if __name__ == "__main__":
    main()
