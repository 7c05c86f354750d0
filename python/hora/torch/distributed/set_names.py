# SPDX-License-Identifier: Apache-2.0
"""Names of the process sets behind groups of torch.distributed."""

from __future__ import annotations

_made: dict[tuple[int, ...], int] = {}  # how many groups of these ranks, since that of all was made


def forget() -> None:
    """There is another group of all ranks."""
    _made.clear()


def next_for(ranks: tuple[int, ...]) -> str:
    """A name that all these ranks give their next group. PyTorch's counts the groups of each process, which
    differ where groups overlap."""
    _made[ranks] = _made.get(ranks, 0) + 1
    return f"torch.distributed.{_made[ranks]}"
