# SPDX-License-Identifier: Apache-2.0
"""Python objects between ranks."""

from __future__ import annotations

import pickle
from typing import TypeVar

import numpy as np

from hora import _arrays, _job
from hora._errors import HoraArgumentError

Object = TypeVar("Object")


def broadcast_object(obj: Object, root_rank: int = 0, name: str | None = None) -> Object:
    """What rank `root_rank` passed: the object itself there, a copy (by pickle) on the others, whose own argument does
    not matter. It travels over the job's own connections, between ranks that have proved that they belong to it.

    Raises:
        HoraArgumentError: there is no such rank, or (on every rank) the object cannot be pickled.
        HoraInternalError: the job has failed.
    """
    label = _job.name_or_number("broadcast_object", name)
    root = _job.rank() == root_rank
    content, refusal = _pickled(obj) if root else (b"", None)
    announced = np.array([len(content), refusal is not None])
    length, refused = (int(number) for number in _arrays.broadcast(announced, root_rank, f"{label}.length"))
    received = _arrays.broadcast(np.frombuffer(content, np.uint8) if root else np.zeros(length, np.uint8), root_rank, f"{label}.bytes")
    if refused:
        raise HoraArgumentError(f"'{label}': rank {root_rank} cannot pickle its object: {received.tobytes().decode()}") from refusal
    return obj if root else pickle.loads(received.tobytes())


def allgather_object(obj: Object, name: str | None = None) -> list[Object]:
    """The objects of all ranks, in rank order, as copies (by pickle). They travel over the job's own connections, between
    ranks that have proved that they belong to it.

    Raises:
        HoraArgumentError: on every rank, if the object of one of them cannot be pickled; the text names it.
        HoraInternalError: the job has failed.
    """
    label = _job.name_or_number("allgather_object", name)
    content, refusal = _pickled(obj)
    refused = np.frombuffer(b"\1" if refusal is not None else b"\0", np.uint8)
    parts = _arrays.gather_parts(np.concatenate([refused, np.frombuffer(content, np.uint8)]), label)
    for rank, part in enumerate(parts):
        if part[0]:
            raise HoraArgumentError(f"'{label}': rank {rank} cannot pickle its object: {part[1:].tobytes().decode()}") from refusal
    return [pickle.loads(part[1:].tobytes()) for part in parts]


def _pickled(obj: object) -> tuple[bytes, Exception | None]:
    """The pickle; or the text of the exception, and that."""
    try:
        return pickle.dumps(obj), None
    except Exception as error:  # noqa: BLE001 - objects raise what they like
        return f"{type(error).__name__}: {error}".encode(), error
