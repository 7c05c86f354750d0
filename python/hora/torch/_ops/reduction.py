# SPDX-License-Identifier: Apache-2.0
"""How tensors are reduced, and how they travel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from hora import _native, _reduction
from hora.compression import Compression, in_transfer, wire_of


class Reduction(_reduction.Reduction):
    """A reduction whose compression may also be a class with functions of its own. These are called before
    and after the transfer."""

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

    def apply_to_group(
        self, function: type[torch.autograd.Function], name: str | None, tensors: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The results of a differentiable operation on a group. It is called with the name, the reduction and
        the tensors."""
        sent = [self.compressed(tensor) for tensor in tensors]
        results = function.apply(name, self.without_calls(), *(tensor for tensor, _ in sent))  # type: ignore[no-untyped-call, unused-ignore]
        return [decompressed(result) for (_, decompressed), result in zip(sent, results, strict=True)]

    def _wire(self) -> _native.DType:
        return wire_of(self.compression if in_transfer(self.compression) else Compression.none)
