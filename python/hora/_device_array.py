# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU, for whichever library the user has: by DLPack and the CUDA array interface."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hora import _native

_CUDA = 2  # DLPack's number for it
_MANAGED = 13  # memory that moves between host and GPU

DEFAULT_STREAM = 0
_LEGACY_DEFAULT = 1  # in both protocols
_PER_THREAD_DEFAULT = 2  # work on it is in order with that on the other default stream
_NOT_ORDERED = -1

# The type strings of the CUDA array interface, which are NumPy's.
_TYPES = {
    native: np.dtype(name).str
    for name, native in _native.DType.__members__.items()
    if not name.startswith(("bfloat16", "float8"))
}


def gpu_of(array: Any) -> int | None:
    """The number of the GPU that another library's array is on; None: it is elsewhere, or does not speak
    DLPack."""
    ask = getattr(array, "__dlpack_device__", None)
    if ask is None:
        return None
    kind, number = ask()
    return int(number) if int(kind) in (_CUDA, _MANAGED) else None


def bytes_of(dtype: _native.DType, shape: tuple[int, ...]) -> int:
    """How much memory elements take."""
    return dtype.itemsize * math.prod(shape)


class DeviceArray:
    """A result on a GPU. Give it to your library, which takes it as it is, without a copy:
    `cupy.from_dlpack(array)`, `jax.dlpack.from_dlpack(array)`, `torch.from_dlpack(array)`, or whatever reads
    `__cuda_array_interface__`.

    The operation that makes it may still be under way on the GPU: work that the library puts on its current
    stream from then on comes after it, and the host does not wait. The memory is freed behind the work of
    CUDA's default stream when nobody has it any more; who uses it on another stream keeps it until that work
    is done.

    Attributes:
        shape: elements per dimension.
        dtype: the name of their type, such as "float32".
        device: the number of the GPU.
    """

    def __init__(
        self,
        memory: _native.Memory,
        native: _native.DType,
        shape: tuple[int, ...],
        handle: _native.Handle | None = None,
    ) -> None:
        assert memory.device is not None
        self.shape = shape
        self.dtype = native.name
        self.device = memory.device
        self._memory = memory
        self._native = native
        self.made_by = handle  #: the operation whose result it is

    @property
    def address(self) -> int:
        """Where the elements are."""
        return self._memory.address

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """As the array API standard has it; `stream` is the one that the elements will be used on."""
        if copy or (dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__()):
            raise BufferError("this array is given as it is, without a copy, on its own GPU")
        if stream == 0:
            raise ValueError(
                "stream=0 means two things in DLPack: give 1 for the default stream, or 2 for "
                "that of each thread"
            )
        if self.made_by is not None and stream != _NOT_ORDERED:
            defaults = (None, _LEGACY_DEFAULT, _PER_THREAD_DEFAULT)
            self.made_by.wait_on(DEFAULT_STREAM if stream in defaults or stream is None else stream)
        return self._memory.dlpack(self._native, self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = _TYPES.get(self._native)
        if kind is None:
            raise AttributeError(f"the CUDA array interface has no {self.dtype}; use from_dlpack")
        address = self.address if math.prod(self.shape) else 0
        return {
            "shape": self.shape,
            "typestr": kind,
            "data": (address, False),
            "strides": None,
            "version": 3,
            "stream": _LEGACY_DEFAULT,
        }

    def __repr__(self) -> str:
        return f"hora.DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self.device})"
