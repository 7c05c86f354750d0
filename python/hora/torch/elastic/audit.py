# SPDX-License-Identifier: Apache-2.0
"""A record of which rank has trained on which samples."""

from __future__ import annotations

import json
import os
import pathlib
import socket
from typing import NamedTuple

from hora import _job
from hora.torch.elastic.shares import Piece


class Who(NamedTuple):
    """The rank of a process in a generation of the job."""

    generation: int
    rank: int
    ranks: int


def who() -> Who:
    """The rank of this process now."""
    return Who(_job.runtime().generation, _job.rank(), _job.size())


class Audit:
    """Writes one line of JSON for each step that counts, into a file of this process: FOLDER/HOST-PID.jsonl.

    A line has the number of the step (`step`, from 1) and the places of its samples in the order of the epoch
    (`epoch`, `first`, `last`: one more than the last). `pieces` are the samples of this rank: lists of first
    and last. `generation`, `rank`, and `ranks` tell who it was. The pieces of all ranks in one step are its
    samples, each once.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        self._file = (path / f"{socket.gethostname()}-{os.getpid()}.jsonl").open("a", buffering=1)

    def write(self, step: int, whole: Piece, pieces: list[Piece], made_by: Who) -> None:
        """Writes the line of a step."""
        line = {
            "step": step,
            **whole._asdict(),
            "pieces": [[piece.first, piece.last] for piece in pieces],
            **made_by._asdict(),
        }
        self._file.write(json.dumps(line) + "\n")
