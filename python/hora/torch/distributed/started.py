# SPDX-License-Identifier: Apache-2.0
"""Operations of torch.distributed that have been submitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from hora._job import Handle
from hora.torch.distributed.flight_recorder import Recorded


def _nothing(results: list[Any]) -> None:
    """Of outputs that the operation writes by itself."""


class Started(NamedTuple):
    """Operations that end together. A value."""

    handles: Sequence[Handle]
    outputs: Sequence[torch.Tensor]
    finish: Callable[[list[Any]], None] = _nothing  # makes the outputs of the results, one for each handle
    inputs: Sequence[torch.Tensor] | None = None  # None: the outputs
    recorded: Sequence[Recorded] = ()


def together(parts: Sequence[Started]) -> Started:
    """All of them as one."""

    def finish(results: list[Any]) -> None:
        begin = 0
        for part in parts:
            part.finish(results[begin : begin + len(part.handles)])
            begin += len(part.handles)

    return Started(
        [handle for part in parts for handle in part.handles],
        [output for part in parts for output in part.outputs],
        finish,
        [each for part in parts for each in (part.outputs if part.inputs is None else part.inputs)],
        [recorded for part in parts for recorded in part.recorded],
    )
