# SPDX-License-Identifier: Apache-2.0
"""The reductions of torch.distributed."""

from __future__ import annotations

from typing import Any

from hora import ops
from hora._errors import HoraUnsupportedError
from hora.torch.distributed.pytorch import ReduceOp

_OPS = {
    int(kind): op
    for kind, op in (
        (ReduceOp.RedOpType.SUM, ops.Sum),
        (ReduceOp.RedOpType.AVG, ops.Average),
        (ReduceOp.RedOpType.PRODUCT, ops.Product),
        (ReduceOp.RedOpType.MIN, ops.Min),
        (ReduceOp.RedOpType.MAX, ops.Max),
        (ReduceOp.RedOpType.BAND, ops.BitAnd),
        (ReduceOp.RedOpType.BOR, ops.BitOr),
        (ReduceOp.RedOpType.BXOR, ops.BitXor),
        (ReduceOp.RedOpType.PREMUL_SUM, ops.Sum),
    )
}


def reduction(op: Any) -> tuple[int, float]:
    """Hora's reduction, and the factor of each rank's elements before it."""
    if type(op) is ReduceOp.RedOpType:  # as ReduceOp.SUM is
        op = ReduceOp(op)
    kind, factor = op.__getstate__()
    known = _OPS.get(kind)
    if known is None:
        raise HoraUnsupportedError(f"hora has no reduction {op}")
    return known, 1.0 if factor is None else float(factor)
