# SPDX-License-Identifier: Apache-2.0
"""Hora as a backend of torch.distributed: `init_process_group("hora")`.

The installed package registers it by entry points. Elsewhere, as in a build tree, importing this module does.
"""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import hora_torch_backend

import hora.torch as hvd
from hora import _job, _membership
from hora._errors import HoraInternalError, HoraUnsupportedError
from hora.torch.distributed import meeting, set_names
from hora.torch.distributed.ddp import ddp_hook
from hora.torch.distributed.group import ProcessGroup
from hora.torch.distributed.reconfiguring import ReconfigurableGroup

__all__ = ["ProcessGroup", "create", "ddp_hook", "register"]

register = hora_torch_backend.register


def create(options: Any) -> ProcessGroup:
    """A group: of all ranks, or of some of those that the first one has. PyTorch calls it.

    Args:
        options: PyTorch's DistributedBackendOptions: the store, the ranks, this one, the timeout, the name.

    Raises:
        HoraArgumentError (a ValueError): the ranks are not those of the job that this process is in.
        HoraUnsupportedError (a ValueError): the ranks do not ascend.
        HoraError: the ranks do not meet.
    """
    ranks = list(options.global_ranks_in_group)
    rank: int = options.group_rank
    timeout: datetime.timedelta = options.timeout
    if ranks:
        if ranks != sorted(ranks):
            raise HoraUnsupportedError(
                f"process group '{options.group_id}' has the ranks {ranks}, and those of hora's ascend: "
                "make it with sort_ranks=True"
            )
        members = hvd.add_process_set(ranks, name=set_names.next_for(tuple(ranks)))
        return ProcessGroup(members, ranks, rank, timeout, lambda reason: _leave_set(members, reason))
    set_names.forget()
    if getattr(options, "enable_reconfigure", False):  # PyTorch 2.15
        return ReconfigurableGroup(rank, options.group_size, timeout)
    joined = not _job.is_initialized()
    meeting.join(options.store, rank, options.group_size)
    everyone = list(range(options.group_size))
    return ProcessGroup(
        hvd.global_process_set, everyone, rank, timeout, _membership.leave if joined else _fail
    )


def _leave_set(members: hvd.ProcessSet, reason: str) -> None:
    """The set ends when its other ranks have left it, too, or with the job, which may have failed."""
    _fail(reason)
    if _job.is_initialized():
        with contextlib.suppress(HoraInternalError):
            hvd.remove_process_set(members)


def _fail(reason: str) -> None:
    """Fails the job, if there is a reason."""
    if reason:
        _membership.leave(reason)


register()
