# SPDX-License-Identifier: Apache-2.0
"""The arguments of the objects that reduce gradients, in every framework."""

from __future__ import annotations

from typing import Any, TypeVar

from hora import _job, ops
from hora._errors import HoraArgumentError, HoraProcessSetError
from hora._reduction import Reduction
from hora.compression import in_transfer
from hora.process_sets import ProcessSet, global_process_set, is_of_others

Kind = TypeVar("Kind", bound=Reduction)


def checked_reduction(
    kind: type[Kind], op: int, predivide: float, process_set: ProcessSet, compression: Any
) -> Kind:
    """The reduction of gradients, as a `kind`. Raises HoraArgumentError."""
    if predivide != 1.0 and op != ops.Average:
        raise HoraArgumentError("gradient_predivide_factor needs op=Average")
    if not predivide > 0:
        raise HoraArgumentError(f"gradient_predivide_factor must be positive, not {predivide!r}")
    if op not in (ops.Average, ops.Sum, ops.Adasum):
        raise HoraArgumentError(f"op={op!r}: gradients are reduced by op=Average, op=Sum or op=Adasum")
    in_transfer(compression)
    return kind(op, 1.0 / predivide, predivide, process_set, compression)


def is_alone(process_set: ProcessSet) -> bool:
    """Whether there is nobody to reduce with, now and later. Raises HoraArgumentError if it is no registered
    process set."""
    size = _job.size()
    if not isinstance(process_set, ProcessSet):
        raise HoraArgumentError(
            f"process_set must be a ProcessSet, such as add_process_set([0, 2]) returns, not {process_set!r}"
        )
    if is_of_others(process_set):
        return True
    if process_set.size() is None:
        raise HoraProcessSetError(
            f"{process_set} does not exist, or has not been registered; call add_process_set "
            "first, on all ranks"
        )
    if _job.runtime().is_elastic and process_set is global_process_set:
        return False
    return size == 1 or not process_set.included() or process_set.size() == 1
