# SPDX-License-Identifier: Apache-2.0
"""How far a training has come."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Progress:
    """How far training has come. It is the same on all ranks, and moves only with steps that count."""

    epoch: int = 0
    place: int = 0  #: how many samples of the epoch are done
    steps: int = 0  #: how many steps count

    def become(self, other: Progress) -> None:
        """Takes the values of another one."""
        self.epoch, self.place, self.steps = other.epoch, other.place, other.steps
