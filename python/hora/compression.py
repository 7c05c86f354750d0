# SPDX-License-Identifier: Apache-2.0
"""What tensors look like between the ranks."""

from __future__ import annotations

from hora import _native


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


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
