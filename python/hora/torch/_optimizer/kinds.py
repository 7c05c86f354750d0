# SPDX-License-Identifier: Apache-2.0
"""How the ranks find out which gradients are sparse: those of some ranks, or of all, may be missing in a
pass. They remember it when some of them are lost or others join."""

from __future__ import annotations

import threading

import torch

from hora import _job, _native
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._optimizer.slots import DENSE, UNKNOWN, Slot, give_places, kind_of
from hora.torch._optimizer.transfers import start_on_host


class KindExchange:
    """Every rank tells of each gradient whether it has one, and whether it is sparse. It is submitted when it
    is made.

    A gradient that is dense on any rank is dense for all. One row for each gradient: on how many ranks it is
    dense, on how many sparse, and the sum of their numbers of sparse dimensions; the first row counts the
    ranks.
    """

    def __init__(self, slots: list[Slot], name: str, process_set: ProcessSet, failed_with: str) -> None:
        self.slots = slots
        kinds = [kind_of(slot.parameter.grad) for slot in slots]
        rows = [[kind == DENSE, kind not in (UNKNOWN, DENSE), kind if kind != DENSE else 0] for kind in kinds]
        self._table = torch.tensor([[1, 0, 0], *rows], dtype=torch.int32)
        self._ranks = process_set.size()
        self.handle = start_on_host(self._table, name, _native.ReduceOp.sum, process_set, failed_with)

    def finish(self) -> tuple[list[int], bool]:
        """Waits; the kind of each gradient, and whether all ranks know it now: those that have joined do
        not."""
        self.handle.wait()
        (present, _, _), *rows = self._table.tolist()
        return [
            DENSE if dense else (dimensions // sparse if sparse else UNKNOWN)
            for dense, sparse, dimensions in rows
        ], present == self._ranks


class LastingKinds:
    """The kinds of an optimizer's gradients, as all ranks know them, from one generation of the job to the
    next. So its first step reduces gradients as any other step does. Those over a process set the ranks
    exchange again."""

    def __init__(self, label: str, slots: list[Slot], units: _native.Units, process_set: ProcessSet) -> None:
        self.label = label
        self._slots = slots
        self._units = units
        self._mutex = threading.Lock()
        self._lacks_places = False  # some gradients, whose kinds others have told; under the mutex
        if process_set is global_process_set:
            _job.keep_agreement(self)

    def agreed(self) -> list[int]:
        """The kinds; none if not all ranks know any."""
        kinds = self._units.lasting_kinds()
        return kinds if any(kind != UNKNOWN for kind in kinds) else []

    def can_recall(self, agreed: list[int]) -> bool:
        """Whether this optimizer has as many gradients."""
        return len(agreed) == len(self._slots)

    def recall(self, agreed: list[int]) -> None:
        """All ranks know these kinds. Others wait here, so memory is taken later."""
        self._units.recall(agreed)
        self._lacks_places = True

    def take_places(self) -> None:
        """Takes memory for the gradients that have none, if there are any."""
        if not self._lacks_places:
            return
        with self._mutex:  # autograd has a thread for each device
            if self._lacks_places:
                give_places(self._slots, self._units.lasting_kinds(), self._units)
                self._lacks_places = False
