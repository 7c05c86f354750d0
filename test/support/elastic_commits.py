# SPDX-License-Identifier: Apache-2.0
"""The files that test/job/elastic_worker writes."""

import pathlib
from typing import NamedTuple


class Commit(NamedTuple):
    """A step that counts, as one rank has written it."""

    at: int  # nanoseconds
    step: int
    generation: int
    rank: int
    size: int


def commits_in(file: pathlib.Path) -> list[Commit]:
    """Those of a process, but for a last line that is not finished."""
    lines = file.read_text().splitlines(keepends=True)
    return [Commit(*map(int, line.split())) for line in lines if line.endswith("\n")]
