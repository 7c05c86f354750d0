# SPDX-License-Identifier: Apache-2.0
"""The samples of a dataset that each rank gets, when an epoch may be begun again in the middle."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import torch

from hora import _job


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Gives each rank its part of a dataset of `len(dataset)` samples, and leaves out those that were
    processed in this epoch before it was begun again.

    Give it to a DataLoader, and to a TorchState; after each batch call `record_batch`, and at the end of an
    epoch `set_epoch`. All ranks get equally many samples: where the rest cannot be shared equally, some are
    given twice.

    Args:
        dataset: anything with a length.
        shuffle: in another order each epoch, the same on all ranks.
        seed: of that order.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.num_replicas = 0
        self.rank = 0
        self.remaining_indices: list[int] = []
        self.num_samples = 0
        self.total_size = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: nothing of it is processed. Call it at the end of the epoch before."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """A batch of that many samples was processed on every rank."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Shares what is left of the epoch among the ranks that there are now."""
        self.num_replicas = _job.size()
        self.rank = _job.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        rest = self.remaining_indices
        return iter(
            [rest[place % len(rest)] for place in range(self.rank, self.total_size, self.num_replicas)]
        )

    def __len__(self) -> int:
        return self.num_samples
