# SPDX-License-Identifier: Apache-2.0
"""An operation as JAX traces it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from hora import _job, _native, ops
from hora._reduction import Reduction

ALLREDUCE, BROADCAST, ALLGATHER, ALLTOALL, REDUCESCATTER = 0, 1, 2, 4, 5  # hora/c.h, hora_operation

AVERAGE, SUM, ADASUM = (ops.native(op).value for op in (ops.Average, ops.Sum, ops.Adasum))
DTYPES = frozenset(_native.DType.__members__)


@dataclasses.dataclass(frozen=True)
class Call:
    """One custom call. A value that can be hashed: JAX compiles once for equal ones.

    Attributes:
        names: of its operations, one for each array, such as "allreduce.gradients.w".
        unnamed: the names lack that of the program, which comes when JAX lowers it.
        splits: alltoall: how many rows go to each rank of the process set.
        rows: of the output; None: the output has the shape of the input.
        parts: how many of the rows each rank of the process set brings (allgather), gets (reducescatter), or
            sends here (alltoall).
        place: this rank's number in the process set.
        ranks: of the job, if the program depends on it and on this rank's number; 0 elsewhere.
    """

    operation: int
    names: tuple[str, ...]
    unnamed: bool = False
    process_set: int = 0
    op: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    wire: int = _native.DType.float32.value
    root: int = 0
    splits: tuple[int, ...] = ()
    rows: int | None = None
    parts: tuple[int, ...] = ()
    place: int = 0
    ranks: int = 0

    @property
    def is_linear(self) -> bool:
        """Whether its derivative is the operation itself."""
        return self.operation not in (ALLREDUCE, REDUCESCATTER) or self.op in (AVERAGE, SUM)

    def of(self, chosen: Sequence[int], suffix: str) -> Call:
        """The same for some of its arrays, under other names."""
        return dataclasses.replace(self, names=tuple(self.names[i] + suffix for i in chosen))

    def attributes(self, program: str, names: Sequence[str]) -> dict[str, Any]:
        """The attributes of the custom call, as frameworks/jax/operation.cc reads them."""
        return {
            "operation": np.int32(self.operation),
            "names": "\n".join(names),
            "program": program,
            "process_set": np.int32(self.process_set),
            "op": np.int32(self.op),
            "prescale": np.float64(self.prescale or -0.0),  # hora/c.h: 0 counts as 1
            "postscale": np.float64(self.postscale or -0.0),
            "wire": np.int32(self.wire),
            "root": np.int32(self.root),
            "splits": np.array(self.splits, np.int64),
            "ranks": np.int32(self.ranks),
            "rank": np.int32(_job.rank()),
        }


def reduction(how: Reduction) -> dict[str, Any]:
    """The attributes of a Call that reduces."""
    op, prescale, postscale, wire = how.natively()
    return {"op": op.value, "prescale": float(prescale), "postscale": float(postscale), "wire": wire.value}
