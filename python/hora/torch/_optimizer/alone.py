# SPDX-License-Identifier: Apache-2.0
"""An optimizer on a rank that has nobody to reduce gradients with."""

from __future__ import annotations

from hora import _job, _native
from hora._errors import HoraArgumentError, HoraProcessSetError
from hora.process_sets import ProcessSet
from hora.torch._optimizer.rounds import Rounds


class Alone(Rounds):
    """In place of a reducer where there is nobody to reduce with: a job or process set of one rank, or a rank
    that does not belong to the process set."""

    def check(self) -> None:
        """Rounds are always possible."""

    def carry_out(self, action: _native.Action, making: _native.Round) -> None:
        """Nothing to do: rounds are only counted."""


def is_alone(process_set: ProcessSet) -> bool:
    """Whether there is nobody to reduce with. Raises HoraArgumentError if it is no registered process set."""
    size = _job.size()
    if not isinstance(process_set, ProcessSet):
        raise HoraArgumentError(
            f"process_set must be a ProcessSet, such as add_process_set([0, 2]) returns, not {process_set!r}"
        )
    if process_set.size() is None:
        raise HoraProcessSetError(
            f"{process_set} does not exist, or has not been registered; call add_process_set "
            "first, on all ranks"
        )
    return size == 1 or not process_set.included() or process_set.size() == 1
