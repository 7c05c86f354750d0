# SPDX-License-Identifier: Apache-2.0
"""Checks of a call that a rank makes by itself, before any other rank waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hora._errors import HoraArgumentError


def member(name: str, ranks: Sequence[int], rank: int) -> int:
    """The rank in the job of a rank in the group. Raises HoraArgumentError if the group has none such."""
    if not 0 <= rank < len(ranks):
        raise HoraArgumentError(
            f"'{name}': there is no rank {rank} in its process group: ranks are 0 to {len(ranks) - 1}"
        )
    return ranks[rank]


def one_for_each(name: str, which: str, tensors: Sequence[Any], size: int) -> None:
    """Raises HoraArgumentError if a list does not have a tensor for each rank."""
    if len(tensors) != size:
        raise HoraArgumentError(
            f"'{name}': the list of {which}s has the length {len(tensors)}, and there are {size} ranks: give "
            "one for each"
        )
