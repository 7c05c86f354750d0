# SPDX-License-Identifier: Apache-2.0
"""How tensors are reduced, and how they travel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from hora import _native, ops
from hora.compression import Compression, Compressor, in_transfer, wire_of
from hora.process_sets import ProcessSet


@dataclasses.dataclass(frozen=True)
class Reduction:
    """postscale * op(prescale * tensor of every rank). A value."""

    op: int
    prescale: float
    postscale: float
    process_set: ProcessSet
    compression: type[Compressor] = Compression.none

    def natively(self) -> tuple[_native.ReduceOp, float, float, _native.DType]:
        """The reduction, the factors before and after it, and what elements travel as."""
        wire = wire_of(self.compression if in_transfer(self.compression) else Compression.none)
        return ops.native(self.op), self.prescale, self.postscale, wire

    def arguments(self) -> dict[str, Any]:
        """The same as an Entry takes it."""
        return dict(zip(("op", "prescale", "postscale", "wire"), self.natively(), strict=True))

    def keywords(self) -> dict[str, Any]:
        """As the operations of hora.torch take them, `op` and compression aside."""
        return {
            "prescale_factor": self.prescale,
            "postscale_factor": self.postscale,
            "process_set": self.process_set,
        }

    def compressed(self, tensor: Any) -> tuple[Any, Callable[[Any], Any]]:
        """The tensor to send instead, and the function that makes the result of the reduced one. A
        compression that is part of the transfer changes nothing here."""
        if in_transfer(self.compression) or not isinstance(tensor, torch.Tensor):
            return tensor, lambda result: result
        sent, context = self.compression.compress(tensor)
        return sent, lambda result: self.compression.decompress(result, context)

    def without_calls(self) -> Reduction:
        """The same for tensors that `compressed` has made."""
        return (
            self if in_transfer(self.compression) else dataclasses.replace(self, compression=Compression.none)
        )
