# SPDX-License-Identifier: Apache-2.0
"""Averages of metrics, such as the losses that ranks print."""

from __future__ import annotations

import json
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from hora import _job, _operations
from hora._arguments import documented
from hora._errors import HoraArgumentError, HoraInternalError
from hora._job import Handle
from hora._loans import Array, lend
from hora._naming import Naming, label
from hora._submission import start_group
from hora.process_sets import ProcessSet, global_process_set


@documented
def average_metrics(
    metrics: Mapping[str, Any], name: str | None = None, process_set: ProcessSet = global_process_set
) -> dict[str, float]:
    """The averages of the ranks' metrics, computed in float64. All ranks get the same bits.

    Args:
        metrics: names and numbers: of Python, of NumPy, or arrays and tensors without dimensions. The names
            are the same on all ranks, in any order.

    Returns:
        A new dict with the same names in the same order. The values are Python floats.

    Raises:
        HoraArgumentError (a ValueError): a name is no string, a value is no number, or this rank is no member
            of the set; nothing was sent, and the text has the name of the metric.
        HoraInternalError (a RuntimeError): the ranks have different metrics; all ranks get this, and the text
            has the names.
    """
    values = _numbers_of(metrics, label("average_metrics", name))
    order = sorted(values)
    gathered = _job.run(_start, order, [values[key] for key in order], name, process_set)
    present = {  # a rank that has joined brings no bytes; the names of no metrics are "[]"
        rank: (keys.tobytes(), brought)
        for rank, keys, brought in zip(process_set.ranks or (), *gathered, strict=True)
        if keys.size > 0
    }
    _check_alike({rank: keys for rank, (keys, _) in present.items()}, label("average_metrics", name))
    means = np.mean([brought for _, brought in present.values()], axis=0)
    averages = dict(zip(order, means.tolist(), strict=True))
    return {key: averages[key] for key in values}


def _start(order: list[str], values: list[float], name: str | None, process_set: ProcessSet) -> Handle:
    """Gathers the names and the values of all ranks in one step, so that ranks with other names meet, too."""
    with Naming("average_metrics", name, process_set) as named:
        keys = np.frombuffer(json.dumps(order).encode(), np.uint8)
        arrays = {".keys": keys, ".values": np.array(values, np.float64)}
        return start_group(
            [
                _operations.allgather(lend(array, named.full + suffix), named, suffix).then(_rows_of_ranks)
                for suffix, array in arrays.items()
            ]
        )


def _rows_of_ranks(gathered: tuple[Array, list[int]]) -> list[Array]:
    whole, rows = gathered
    return np.split(whole, np.cumsum(rows)[:-1])


def _numbers_of(metrics: Mapping[str, Any], name: str) -> dict[str, float]:
    if not isinstance(metrics, Mapping):
        raise HoraArgumentError(
            f"'{name}': metrics must be a dict of names and numbers, not {type(metrics).__name__}"
        )
    return {_checked_key(key, name): _number(value, key, name) for key, value in metrics.items()}


def _checked_key(key: Any, name: str) -> str:
    if not isinstance(key, str):
        raise HoraArgumentError(f"'{name}': the name of a metric must be a string, not {key!r}")
    return key


def _number(value: Any, key: str, name: str) -> float:
    shape = tuple(getattr(value, "shape", ()))
    if shape:
        raise HoraArgumentError(
            f"'{name}': metric {key!r} has the shape {shape}, and a metric is one number: give its mean or "
            "one of its elements"
        )
    if hasattr(value, "numpy") and not hasattr(value, "item"):  # TensorFlow's, and variables of Keras
        value = value.numpy()
    item = value.item() if hasattr(value, "item") else value
    if not isinstance(item, numbers.Real):
        raise HoraArgumentError(f"'{name}': metric {key!r} is {item!r}, and a metric is a real number")
    try:
        return float(item)
    except OverflowError:
        raise HoraArgumentError(f"'{name}': metric {key!r} is too large for float64") from None


def _check_alike(keys: dict[int, bytes], name: str) -> None:
    """Raises HoraInternalError if two ranks have other names."""
    (first, expected), *others = keys.items()
    for rank, found in others:
        if found != expected:
            here, there = set(json.loads(expected)), set(json.loads(found))
            raise HoraInternalError(
                f"'{name}': the ranks have different metrics: only rank {first} has "
                f"{sorted(here - there)}, and only rank {rank} has {sorted(there - here)}; give the same "
                "names on all ranks"
            )
