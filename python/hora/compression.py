# SPDX-License-Identifier: Apache-2.0
"""The form that tensors have between the ranks.

Those of Compression are part of the transfer: elements are converted on the way, and sums made in float32.
mxfp8_e4m3 and mxfp8_e5m2 are for sums and averages of floats; with anything else they raise
HoraArgumentError. For another form, derive from Compressor, or write a class with the same two functions:

    class Half(hora.compression.Compressor):
        @staticmethod
        def compress(tensor):
            return tensor / 2, None

        @staticmethod
        def decompress(tensor, ctx):
            return tensor * 2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hora import _native
from hora._errors import HoraArgumentError


class Compressor:
    """A form for tensors between the ranks. Hora reduces the result of `compress`, and calls `decompress`."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor to be sent, and whatever `decompress` needs to know; must not change the one that it is
        given."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor to be returned, of the reduced one and what `compress` returned with it."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """As they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor itself."""
        return tensor


class FP16Compressor(Compressor):
    """As float16: 11 bits of precision, magnitudes up to 65504."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Floating-point tensors as float16, and their own dtype; others as they are."""
        return _narrowed(tensor, "float16")

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor with its own dtype."""
        return _widened(tensor, ctx)


class BF16Compressor(Compressor):
    """As bfloat16: 8 bits of precision, the range of float32."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Floating-point tensors as bfloat16, and their own dtype; others as they are."""
        return _narrowed(tensor, "bfloat16")

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor with its own dtype."""
        return _widened(tensor, ctx)


class MXFP8E4M3Compressor(BF16Compressor):
    """As float8_e4m3fn, with a scale for each 32 elements: 4 bits of precision, magnitudes down to 2^-17 of
    the largest of the 32. Infinite elements become NaN. Elements that are gathered and not reduced, as those
    of sparse gradients, travel as bfloat16, which the functions of this class make."""


class MXFP8E5M2Compressor(BF16Compressor):
    """As float8_e5m2, with a scale for each 32 elements: 3 bits of precision, magnitudes down to 2^-31 of
    the largest of the 32. Gathered elements travel as bfloat16, as with MXFP8E4M3Compressor."""


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
    mxfp8_e4m3 = MXFP8E4M3Compressor
    mxfp8_e5m2 = MXFP8E5M2Compressor


_WIRES: dict[Any, _native.DType] = {
    NoneCompressor: _native.DType.float32,
    FP16Compressor: _native.DType.float16,
    BF16Compressor: _native.DType.bfloat16,
    MXFP8E4M3Compressor: _native.DType.float8_e4m3fn,
    MXFP8E5M2Compressor: _native.DType.float8_e5m2,
}
_CHOICES = "Compression.none, fp16, bf16, mxfp8_e4m3, mxfp8_e5m2"


def in_transfer(compression: Any) -> bool:
    """Whether this compression is part of the transfer (see `wire_of`); else its own functions are to be
    called. Raises HoraArgumentError if this is no compression."""
    try:
        if compression in _WIRES:
            return True
    except TypeError:  # not hashable
        pass
    if callable(getattr(compression, "compress", None)) and callable(
        getattr(compression, "decompress", None)
    ):
        return False
    raise HoraArgumentError(
        f"compression={compression!r} is none of {_CHOICES}, and has no compress() and decompress()"
    )


def wire_of(compression: Any) -> _native.DType:
    """The dtype in which elements travel, as `hora::Entry` has it. Raises HoraArgumentError if this is no
    compression, or one that is not part of the transfer."""
    if in_transfer(compression):
        return _WIRES[compression]
    raise HoraArgumentError(f"compression={compression!r} cannot be used here: choose one of {_CHOICES}")


def _narrowed(tensor: Any, dtype: str) -> tuple[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return (
            (tensor.astype(dtype), tensor.dtype)
            if np.issubdtype(tensor.dtype, np.floating)
            else (tensor, None)
        )
    if not tensor.is_floating_point():
        return tensor, None
    import torch  # whoever has a tensor has it

    return tensor.to(getattr(torch, dtype)), tensor.dtype


def _widened(tensor: Any, dtype: Any) -> Any:
    if dtype is None:
        return tensor
    return tensor.astype(dtype) if isinstance(tensor, np.ndarray) else tensor.to(dtype)
