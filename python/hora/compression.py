# SPDX-License-Identifier: Apache-2.0
"""What tensors look like between the ranks."""

from __future__ import annotations

from hora import _native
from hora._errors import HoraArgumentError


class Compressor:
    """How float32 and float64 elements travel. The conversion is part of the transfer; sums are made in float32."""

    wire = _native.DType.float32


class NoneCompressor(Compressor):
    """As they are."""


class FP16Compressor(Compressor):
    """As float16: 11 bits of precision, magnitudes up to 65504."""

    wire = _native.DType.float16


class BF16Compressor(Compressor):
    """As bfloat16: 8 bits of precision, the range of float32."""

    wire = _native.DType.bfloat16


def wire_of(compression: type[Compressor]) -> _native.DType:
    """The dtype on the wire. Raises HoraArgumentError if this is no compression."""
    if isinstance(compression, type) and issubclass(compression, Compressor):
        return compression.wire
    raise HoraArgumentError(f"compression={compression!r} is none of Compression.none, Compression.fp16 and Compression.bf16")


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
