# SPDX-License-Identifier: Apache-2.0
"""Python objects between ranks."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from hora import _arrays, _job, _native, _rooted
from hora._arguments import documented
from hora._errors import HoraArgumentError, HoraUnsupportedError
from hora._messages import (
    ANY_SOURCE,
    ANY_TAG,
    Received,
    checked_address,
    checked_choice,
    receiving,
    result,
    sending,
)
from hora._naming import Naming
from hora.process_sets import ProcessSet, global_process_set

Object = TypeVar("Object")


@documented
def broadcast_object(
    obj: Object, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Object:
    """The object that rank `root_rank` passed: itself there, a copy (by pickle) on the others, whose own
    argument does not matter. It travels over the job's own connections, between ranks that have proved that
    they belong to it.

    Raises:
        HoraUnsupportedError (a NotImplementedError): HORA_NO_PICKLE is set; nothing was sent.
        HoraArgumentError (a ValueError): there is no such rank, this rank is no member of the process set, or
            (on every rank) the object cannot be pickled.
        HoraInternalError (a RuntimeError): the job has failed.
    """
    _check_allowed("broadcast_object")
    root = _job.rank() == root_rank
    content, refusal = _pickled(obj) if root else (b"", None)
    announced = np.array([len(content), refusal is not None])
    with Naming("broadcast_object", name, process_set) as named:
        label = named.full
        length, refused = (
            int(number) for number in _arrays.broadcast(announced, root_rank, f"{label}.length", process_set)
        )
    received = _arrays.broadcast(
        np.frombuffer(content, np.uint8) if root else np.zeros(length, np.uint8),
        root_rank,
        f"{label}.bytes",
        process_set,
    )
    if refused:
        raise HoraArgumentError(
            f"'{label}': rank {root_rank} cannot pickle its object: {received.tobytes().decode()}"
        ) from refusal
    return obj if root else pickle.loads(received.tobytes())


@documented
def allgather_object(
    obj: Object, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Object]:
    """The objects of all ranks of the process set, in rank order, as copies (by pickle); those of ranks that
    have joined are missing. They travel over the job's own connections, between ranks that have proved that
    they belong to it.

    Raises:
        HoraUnsupportedError (a NotImplementedError): HORA_NO_PICKLE is set; nothing was sent.
        HoraArgumentError (a ValueError): this rank is no member of the process set; or, on every rank, the
            object of one of them cannot be pickled, and the text names it.
        HoraInternalError (a RuntimeError): the job has failed.
    """
    _check_allowed("allgather_object")
    content, refusal = _pickled(obj)
    refused = np.frombuffer(b"\1" if refusal is not None else b"\0", np.uint8)
    with Naming("allgather_object", name, process_set) as named:
        parts = _arrays.gather_parts(
            np.concatenate([refused, np.frombuffer(content, np.uint8)]), named.full, process_set
        )
    objects = []
    for rank, part in zip(process_set.ranks or (), parts, strict=True):
        if len(part) > 0:
            if part[0]:
                raise HoraArgumentError(
                    f"'{named.full}': rank {rank} cannot pickle its object: {part[1:].tobytes().decode()}"
                ) from refusal
            objects.append(pickle.loads(part[1:].tobytes()))
    return objects


@documented
def gather_object(
    obj: Object, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Object] | None:
    """The objects of all ranks of the process set, in rank order, as copies (by pickle), on rank `root_rank`;
    None on the others.

    Raises:
        HoraUnsupportedError (a NotImplementedError): HORA_NO_PICKLE is set; nothing was sent.
        HoraArgumentError (a ValueError): there is no such rank, or this one is no member of the process set;
            on the root and on the rank itself: its object cannot be pickled.
        HoraInternalError (a RuntimeError): the job has failed, or a rank has joined.
    """
    _check_allowed("gather_object")
    content, refusal = _pickled(obj)
    with Naming("gather_object", name, process_set) as named:
        label = named.full
        lengths = _rooted.gather(
            np.array([[len(content), refusal is not None]]), root_rank, f"{label}.length", process_set
        )
        whole = _rooted.gather(np.frombuffer(content, np.uint8), root_rank, f"{label}.bytes", process_set)
    if refusal is not None:
        raise HoraArgumentError(
            f"'{label}': rank {_job.rank()} cannot pickle its object: {content.decode()}"
        ) from refusal
    if lengths is None or whole is None:
        return None
    objects = []
    for rank, part, refused in zip(
        process_set.ranks or (), np.split(whole, np.cumsum(lengths[:, 0])[:-1]), lengths[:, 1], strict=True
    ):
        if refused:
            raise HoraArgumentError(
                f"'{label}': rank {rank} cannot pickle its object: {part.tobytes().decode()}"
            )
        objects.append(pickle.loads(part.tobytes()))
    return objects


@documented
def scatter_object(
    objects: Sequence[Object] | None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Object:
    """This rank's of the objects that rank `root_rank` passes, one for each rank of the process set: a copy
    (by pickle).

    Args:
        objects: on the root as many objects as the set has ranks, which can be pickled; on the others it does
            not matter.

    Raises:
        HoraUnsupportedError (a NotImplementedError): HORA_NO_PICKLE is set; nothing was sent.
        HoraArgumentError (a ValueError): there is no such rank, this rank is no member of the process set, or
            (on every rank) the root's objects are not as many as ranks or cannot be pickled.
        HoraInternalError (a RuntimeError): the job has failed, or a rank has joined.
    """
    _check_allowed("scatter_object")
    size = process_set.size() or 1
    parts, refusal = _pickled_parts(objects, size) if _job.rank() == root_rank else ([b""] * size, None)
    with Naming("scatter_object", name, process_set) as named:
        label = named.full
        splits = [1 + len(part) for part in parts]
        mark = b"\0" if refusal is None else b"\1"
        whole = np.frombuffer(b"".join(mark + part for part in parts), np.uint8)
        own = _rooted.scatter(whole, root_rank, splits, label, process_set).tobytes()
    if own[0]:
        raise HoraArgumentError(
            f"'{label}': rank {root_rank} cannot scatter its objects: {own[1:].decode()}"
        ) from refusal
    received: Object = pickle.loads(own[1:])
    return received


@sending
def send_object(obj: object, dest: int, tag: int = 0, process_set: ProcessSet = global_process_set) -> None:
    """Sends a copy of an object (by pickle) to one rank, which calls `recv_object`. It is a message as those
    of `send` are: in one order with them, and a large one has been received when this returns.

    Raises:
        HoraUnsupportedError (a NotImplementedError): HORA_NO_PICKLE is set; nothing was sent.
        HoraArgumentError (a ValueError): the object cannot be pickled, there is no such rank, or the tag is
            negative; nothing was sent.
        HoraInternalError (a RuntimeError): the rank has left the job or cannot be reached, or the job has
            failed.
    """
    _check_allowed("send_object")
    address = checked_address(dest, tag, process_set, "send_object")
    content, refusal = _pickled(obj)
    if refusal is not None:
        raise HoraArgumentError(
            f"'send_object': rank {_job.rank()} cannot pickle its object: {content.decode()}"
        ) from refusal
    view = np.frombuffer(content, np.uint8)
    handle = _job.runtime().send(
        *address, _native.DType.uint8, list(view.shape), view.ctypes.data, object=True
    )
    _job.synchronize(_job.under_way(handle, lambda outcome: None, view))


@receiving
def recv_object(
    source: int = ANY_SOURCE, tag: int = ANY_TAG, process_set: ProcessSet = global_process_set
) -> Received[Any]:
    """Receives an object that another rank has sent to this one with `send_object`, or will. It travels over
    the job's own connections, between ranks that have proved that they belong to it.

    Returns:
        `Received(value, source, tag)`: the object, who sent it, and with which tag.

    Raises:
        HoraUnsupportedError (a NotImplementedError): HORA_NO_PICKLE is set; nothing was sent.
        HoraArgumentError (a ValueError): there is no such rank.
        HoraInternalError (a RuntimeError): the message is no object but an array or a tensor; it is lost
            then, and the job goes on. Or the rank has left the job, or the job has failed.
    """
    _check_allowed("recv_object")
    handle = _job.runtime().receive(*checked_choice(source, tag, process_set, "recv_object"), object=True)
    got: Received[Any] = _job.synchronize(
        _job.under_way(handle, lambda outcome: result(pickle.loads(outcome.memory or b""), outcome))
    )
    return got


def _check_allowed(operation: str) -> None:
    """A pickle may run any code of the sender's. HORA_NO_PICKLE, set on all ranks, forbids pickles of other
    ranks."""
    if os.environ.get("HORA_NO_PICKLE", "0") not in ("", "0"):
        raise HoraUnsupportedError(
            f"'{operation}': objects travel as pickles, which HORA_NO_PICKLE={os.environ['HORA_NO_PICKLE']} "
            "forbids: use arrays or tensors, or unset it on all ranks"
        )


def _pickled_parts(objects: Sequence[object] | None, size: int) -> tuple[list[bytes], Exception | None]:
    """A pickle for each rank; or for each the text of what is wrong, and an exception."""
    if objects is None or len(objects) != size:
        wrong = HoraArgumentError(
            f"expected {size} objects, one for each rank, not {'None' if objects is None else len(objects)}"
        )
        return [str(wrong).encode()] * size, wrong
    parts = []
    for obj in objects:
        part, refusal = _pickled(obj)
        if refusal is not None:
            return [part] * size, refusal
        parts.append(part)
    return parts, None


def _pickled(obj: object) -> tuple[bytes, Exception | None]:
    """The pickle; or the text of the exception, and that."""
    try:
        return pickle.dumps(obj), None
    except Exception as error:  # noqa: BLE001 - objects raise what they like
        return f"{type(error).__name__}: {error}".encode(), error
