# SPDX-License-Identifier: Apache-2.0
"""Python objects between ranks."""

from __future__ import annotations

import pickle
from typing import TypeVar

import numpy as np

from hora import _arrays, _job

Object = TypeVar("Object")


def broadcast_object(obj: Object, root_rank: int = 0, name: str | None = None) -> Object:
    """What rank `root_rank` passed: the object itself there, a copy (by pickle) on the others, whose own argument does
    not matter. It travels over the job's own connections, between ranks that have proved that they belong to it.

    Raises:
        HoraArgumentError: there is no such rank.
        HoraInternalError: the job has failed.
    """
    label = _job.name_or_number("broadcast_object", name)
    content = pickle.dumps(obj) if _job.rank() == root_rank else b""
    length = int(_arrays.broadcast(np.array([len(content)]), root_rank, f"{label}.length")[0])
    buffer = np.frombuffer(content, np.uint8) if _job.rank() == root_rank else np.zeros(length, np.uint8)
    received = _arrays.broadcast(buffer, root_rank, f"{label}.bytes")
    return obj if _job.rank() == root_rank else pickle.loads(received.tobytes())
