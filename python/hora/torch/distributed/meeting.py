# SPDX-License-Identifier: Apache-2.0
"""How the ranks of torch.distributed become those of a job."""

from __future__ import annotations

import os

import torch.distributed as dist

from hora import _job
from hora._errors import HoraArgumentError, HoraTimeoutError
from hora._membership import init
from hora._native import JobListener
from hora.torch.distributed.pytorch import Store

_LISTENER = (
    "hora/listener"  # the key in the store: coordinator, a space, and the secret as hexadecimal digits
)


def join(store: Store, rank: int, size: int) -> None:
    """Joins the job: the one that this process is in, or that hrun has started; else one of the ranks that
    have this store. The store tells them where rank 0 listens, and the secret: all who can read the store can
    join."""
    if not _job.is_initialized():
        if "HORA_SECRET_FD" in os.environ:
            init()
        else:
            _meet(store, rank, size)
    if (_job.rank(), _job.size()) != (rank, size):
        raise HoraArgumentError(
            f"this process is rank {rank} of {size} for torch.distributed, but rank {_job.rank()} of "
            f"{_job.size()} of its job: leave rank= and world_size= to the launcher, or call hora.shutdown() "
            "first"
        )


def _meet(store: Store, rank: int, size: int) -> None:
    if size == 1:
        init(rank=0, size=1)
    elif rank == 0:
        listener = JobListener()
        store.set(_LISTENER, f"{listener.coordinator} {listener.secret.hex()}")
        init(rank=0, size=size, listener=listener)
    else:
        try:
            coordinator, secret = store.get(_LISTENER).decode().split()
        except dist.DistError as error:
            raise HoraTimeoutError(
                f"rank {rank} of {size} has not found rank 0 in PyTorch's store, which all ranks must have: {error}"
            ) from error
        init(rank=rank, size=size, coordinator=coordinator, secret=bytes.fromhex(secret))
