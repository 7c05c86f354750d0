# SPDX-License-Identifier: Apache-2.0
"""How the ranks of torch.distributed become those of a job."""

from __future__ import annotations

import contextlib
import os

import torch.distributed as dist

from hora import _job
from hora._errors import HoraArgumentError, HoraTimeoutError
from hora._membership import init
from hora._native import JobListener
from hora.torch.distributed.pytorch import Store

_LISTENER = "hora/listener"  # the key of rank 0's address in the store


def join(store: Store, rank: int, size: int) -> None:
    """Joins the job: the one that this process is in, or that hrun has started; else one of the ranks that
    have this store. The store tells them where rank 0 listens, and the secret: all who can read the store can
    join."""
    if not _job.is_initialized():
        if "HORA_SECRET_FD" in os.environ:
            if {"HORA_RANK", "HORA_SIZE"} <= os.environ.keys():
                _check_place((rank, size), (int(os.environ["HORA_RANK"]), int(os.environ["HORA_SIZE"])))
            init()
        else:
            _meet(store, rank, size)
    _check_place((rank, size), (_job.rank(), _job.size()))


def _check_place(wanted: tuple[int, int], own: tuple[int, int]) -> None:
    """Raises HoraArgumentError if the rank and the size of torch.distributed are not those of the job."""
    if wanted != own:
        raise HoraArgumentError(
            f"this process is rank {wanted[0]} of {wanted[1]} for torch.distributed, but rank {own[0]} of "
            f"{own[1]} of its job: leave rank= and world_size= to the launcher, or call hora.shutdown() first"
        )


def _meet(store: Store, rank: int, size: int) -> None:
    if size == 1:
        return enter(0, 1, None, "")
    if rank == 0:
        listener = JobListener()
        store.set(_LISTENER, address_of(listener))
        enter(0, size, listener, "")
        with contextlib.suppress(RuntimeError):  # a store that cannot: its next job would find this one
            store.delete_key(_LISTENER)  # all have read it
        return None
    try:
        address = store.get(_LISTENER).decode()
    except dist.DistError as error:
        raise HoraTimeoutError(
            f"rank {rank} of {size} has not found rank 0 in PyTorch's store, which all ranks must have: "
            f"{error}"
        ) from error
    return enter(rank, size, None, address)


def address_of(listener: JobListener) -> str:
    """Where rank 0 listens, and the secret: the coordinator, a space, and hexadecimal digits."""
    return f"{listener.coordinator} {listener.secret.hex()}"


def enter(rank: int, size: int, listener: JobListener | None, address: str) -> None:
    """Joins a job: rank 0 of several with its listener, the others with its address. Raises
    HoraArgumentError for what is no address."""
    if size == 1:
        init(rank=0, size=1)
    elif rank == 0:
        init(rank=0, size=size, listener=listener)
    else:
        coordinator, secret = _parsed(address)
        init(rank=rank, size=size, coordinator=coordinator, secret=secret)


def _parsed(address: str) -> tuple[str, bytes]:
    try:
        coordinator, secret = address.split()
        return coordinator, bytes.fromhex(secret)
    except ValueError as error:
        raise HoraArgumentError(f"'{address[:40]}' is no address of a rank of the backend hora") from error
