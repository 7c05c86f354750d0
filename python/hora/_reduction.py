# SPDX-License-Identifier: Apache-2.0
"""How elements are reduced, and in which form they travel."""

from __future__ import annotations

import dataclasses
from typing import Any

from hora import _native, ops
from hora._arguments import check_factor
from hora.compression import Compression, Compressor, wire_of
from hora.process_sets import ProcessSet


@dataclasses.dataclass(frozen=True)
class Reduction:
    """postscale * op(prescale * elements of every rank). A value.

    Raises:
        HoraArgumentError (a ValueError): there is no such op, or a factor is no number.
    """

    op: int
    prescale: float
    postscale: float
    process_set: ProcessSet
    compression: type[Compressor] = Compression.none

    def __post_init__(self) -> None:
        ops.checked(self.op)
        if type(self.prescale) is not float:
            check_factor(self.prescale, "prescale_factor")
        if type(self.postscale) is not float:
            check_factor(self.postscale, "postscale_factor")

    def natively(self) -> tuple[_native.ReduceOp, float, float, _native.DType]:
        """The reduction, the factors before and after it, and the dtype that elements travel in."""
        return ops.native(self.op), self.prescale, self.postscale, self._wire()

    def arguments(self) -> dict[str, Any]:
        """The same as an Entry takes it."""
        return dict(zip(("op", "prescale", "postscale", "wire"), self.natively(), strict=True))

    def _wire(self) -> _native.DType:
        return wire_of(self.compression)
