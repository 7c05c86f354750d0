# SPDX-License-Identifier: Apache-2.0
"""How the ranks find out which gradients are sparse: those of some ranks, or of all, may be missing in a
pass."""

from __future__ import annotations

import torch

from hora import _native
from hora.process_sets import ProcessSet
from hora.torch._optimizer.slots import DENSE, UNKNOWN, Slot, kind_of
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
