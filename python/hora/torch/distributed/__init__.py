# SPDX-License-Identifier: Apache-2.0
"""Hora as a backend of torch.distributed: `init_process_group("hora")`, once this module is imported."""

from __future__ import annotations

import datetime
from typing import Any

import torch.distributed as dist

import hora.torch as hvd
from hora import _job, _membership
from hora.torch.distributed import meeting
from hora.torch.distributed.group import ProcessGroup

__all__ = ["ProcessGroup", "register"]


def register() -> None:
    """Makes the name "hora" known to torch.distributed. Idempotent."""
    if not hasattr(dist.Backend, "HORA"):
        dist.Backend.register_backend("hora", create, extended_api=True, devices=["cpu", "cuda"])


def create(options: Any, _: Any = None) -> ProcessGroup:
    """A group: of all ranks, or of some of those that the first one has."""
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    rank: int = options.group_rank
    timeout: datetime.timedelta = options.timeout
    if not options.global_ranks_in_group:
        joined = not _job.is_initialized()
        meeting.join(options.store, rank, options.group_size)
        return ProcessGroup(
            hvd.global_process_set, ranks, rank, timeout, _membership.leave if joined else _fail
        )
    members = hvd.add_process_set(sorted(ranks), name=options.group_id)
    return ProcessGroup(members, ranks, rank, timeout, _fail)


def _fail(reason: str) -> None:
    """Fails the job, if there is a reason. Else the process set stays until the job ends: its ranks need not
    end the group at the same time."""
    if reason:
        _membership.leave(reason)


register()
