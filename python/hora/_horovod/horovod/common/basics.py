# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hora.torch
from hora import _job
from hora._errors import HoraArgumentError


class HorovodBasics:
    """The job, its queries and its process sets as methods: `rank()`, `size()`, `init()`, ... are those of
    hora.torch."""

    def __init__(self, pkg_path: str = "", *lib_path_parts: str) -> None:
        """There is no library to be loaded."""

    def __getattr__(self, name: str) -> Any:
        if name in hora.torch.__all__:
            return getattr(hora.torch, name)
        raise AttributeError(f"Hora has no {name!r}")

    def _get_process_set_ids_and_ranks(self) -> dict[int, list[int]]:
        return {number: list(ranks) for number, (ranks, _) in _job.runtime().process_sets().items()}

    def _ranks_of(self, process_set_id: int) -> list[int]:
        sets = self._get_process_set_ids_and_ranks()
        if process_set_id not in sets:
            raise HoraArgumentError(f"process set {process_set_id} does not exist; there are {sorted(sets)}")
        return sets[process_set_id]

    def _process_set_rank(self, process_set_id: int) -> int:
        ranks = self._ranks_of(process_set_id)
        if _job.rank() not in ranks:
            raise HoraArgumentError(
                f"rank {_job.rank()} is not a member of process set {process_set_id}, which is {ranks}"
            )
        return ranks.index(_job.rank())

    def _process_set_size(self, process_set_id: int) -> int:
        return len(self._ranks_of(process_set_id))

    def _add_process_set_impl(self, ranks: Sequence[int]) -> int | None:
        return hora.torch.add_process_set(ranks).process_set_id

    def _remove_process_set_impl(self, process_set_id: int) -> int | None:
        removed = hora.torch.ProcessSet(self._ranks_of(process_set_id))
        removed.process_set_id = process_set_id
        return process_set_id if hora.torch.remove_process_set(removed) else None
