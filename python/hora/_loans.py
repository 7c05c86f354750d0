# SPDX-License-Identifier: Apache-2.0
"""Arrays lent to the runtime, wherever they lie: on the host as NumPy sees them, on a GPU as DLPack gives
them."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from hora import _job, _native
from hora._device_array import DEFAULT_STREAM, DeviceArray, bytes_of, gpu_of
from hora._errors import HoraArgumentError
from hora._rows import check_output, refuse_output
from hora._submission import Loan, Place

Array = np.ndarray[Any, Any]

_DTYPES = _native.DType.__members__  # by NumPy's names


def viewed(array: Any, name: str) -> Array:
    """An array on the host as NumPy sees it. Raises HoraArgumentError for what cannot be sent."""
    if isinstance(array, np.ma.MaskedArray):
        raise HoraArgumentError(f"'{name}': masks cannot be sent; use array.filled(...)")
    if isinstance(array, np.ndarray):
        view = array
    elif isinstance(array, (bool, int, float, list, tuple, np.generic)):
        view = np.asarray(array)
    else:
        try:
            view = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(memoryview(array))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise HoraArgumentError(
                f"'{name}': {type(array).__name__} cannot be sent: {error}; give a NumPy array, or one on "
                "the CPU or on a GPU of NVIDIA's that speaks DLPack; "
                "PyTorch tensors go with hora.torch"
            ) from error
    if view.dtype.name not in _DTYPES:
        raise HoraArgumentError(
            f"'{name}': elements of type {view.dtype} cannot be sent; convert with .astype() to one of "
            f"{', '.join(_DTYPES)}"
        )
    if not view.dtype.isnative:
        raise HoraArgumentError(
            f"'{name}': the elements are in foreign byte order; use "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    return view


def view_of(array: Any, name: str) -> Array:
    """The same, contiguous: a copy if it is not."""
    view = viewed(array, name)
    return view if view.flags.c_contiguous else view.copy(order="C")


def native_dtype(view: Array) -> _native.DType:
    """The dtype of what `viewed` returned."""
    return _DTYPES[view.dtype.name]


def received(outcome: _native.Outcome, dtype: np.dtype[Any]) -> Array:
    """The output on the host that the runtime allocated."""
    array: Array = np.frombuffer(outcome.memory, dtype, int(np.prod(outcome.shape))).reshape(outcome.shape)  # type: ignore[call-overload]
    return array


class HostLoan:
    """An array on the host."""

    def __init__(self, view: Array) -> None:
        self.array = view
        self.native = native_dtype(view)
        self.shape = view.shape
        self.place = Place(view.ctypes.data, None, DEFAULT_STREAM)

    def first(self, rows: int) -> HostLoan:
        """The first rows of it."""
        return HostLoan(self.array[:rows])

    def output(self) -> Array:
        """An array for a result of the same shape."""
        return np.empty_like(self.array)

    def output_of(self, rows: int) -> Array:
        """An array for a result of as many rows."""
        return np.empty((rows, *self.shape[1:]), self.array.dtype)

    @staticmethod
    def address_of(output: Array) -> int:
        """Where its elements are."""
        return output.ctypes.data

    def checked_output(self, out: Any, rows: int | None, name: str) -> Array:
        """Memory of the caller's for a result of so many rows, or of any number. Raises
        HoraArgumentError."""
        if not isinstance(out, np.ndarray):
            refuse_output(name, f"is {type(out).__name__}, and not a NumPy array")
        check_output(out.shape, out.dtype, rows, self.shape[1:], self.array.dtype, name)
        if not (out.flags.c_contiguous and out.flags.writeable):
            refuse_output(name, "is read-only, or its elements do not lie side by side")
        return out

    def receiver(self) -> Callable[[_native.Outcome], Array]:
        """Gives the output that the runtime allocated, and keeps no elements."""
        dtype = self.array.dtype
        return lambda outcome: received(outcome, dtype)

    def under_way(self, handle: _native.Handle, output: Any) -> _job.UnderWay:
        """The operation to wait for."""
        return handle.keep((self.array, output))


class GpuLoan:
    """Another library's array on a GPU. The library makes CUDA's default stream wait for what makes the
    array, and Hora's work comes after that."""

    def __init__(self, array: _native.LentArray, gpu: int, shape: tuple[int, ...]) -> None:
        self.array = array
        self.native = array.dtype
        self.shape = shape
        self.place = Place(array.address, gpu, DEFAULT_STREAM)
        self._gpu = gpu
        self._handle: _native.Handle | None = None

    def first(self, rows: int) -> GpuLoan:
        """The first rows of it."""
        return GpuLoan(self.array, self._gpu, (rows, *self.shape[1:]))

    def output(self) -> DeviceArray:
        """An array for a result of the same shape."""
        return self._empty(self.shape)

    def output_of(self, rows: int) -> DeviceArray:
        """An array for a result of as many rows."""
        return self._empty((rows, *self.shape[1:]))

    def _empty(self, shape: tuple[int, ...]) -> DeviceArray:
        memory = _job.runtime().allocate_on(DEFAULT_STREAM, max(bytes_of(self.native, shape), 1), self._gpu)
        return DeviceArray(memory, self.native, shape)

    @staticmethod
    def address_of(output: DeviceArray | _native.LentArray) -> int:
        """Where its elements are."""
        return output.address

    def checked_output(self, out: Any, rows: int | None, name: str) -> _native.LentArray:
        """Memory of the caller's for a result of so many rows, or of any number. Raises
        HoraArgumentError."""
        if gpu_of(out) != self._gpu:
            refuse_output(name, f"is {type(out).__name__}, and not an array on cuda:{self._gpu}")
        lent = _lent_on_gpu(out, name)
        if not lent.contiguous:
            refuse_output(name, "has elements that do not lie side by side")
        check_output(lent.shape, lent.dtype.name, rows, self.shape[1:], self.native.name, name)
        return lent

    def receiver(self) -> Callable[[_native.Outcome], DeviceArray]:
        """Gives the output that the runtime allocated."""
        return self._received

    def _received(self, outcome: _native.Outcome) -> DeviceArray:
        assert outcome.memory is not None
        return DeviceArray(outcome.memory, self.native, tuple(outcome.shape), self._handle)

    def under_way(self, handle: _native.Handle, output: Any) -> _job.UnderWay:
        """The operation to wait for."""
        self._handle = handle
        if isinstance(output, DeviceArray):
            output.made_by = handle
        return _OnGpu(handle, self.array, output)


class _OnGpu(_job.OnGpu):
    """An operation on a GPU. Waiting for it is up to CUDA's default stream, not to the host.

    Its arrays are kept until it has ended on the GPU, also after `wait`. The library that has lent an array
    knows nothing of Hora's own stream, and would use memory that it gets back at once."""

    __slots__ = ()

    _used: collections.deque[_job.OnGpu] = collections.deque()  # in the order in which they end
    _lock = threading.Lock()

    def wait(self) -> _native.Outcome:
        """Returns when the operation has been given to the GPU; the default stream waits for its end."""
        try:
            return self._waited(lambda: self._handle.wait_on(DEFAULT_STREAM))
        finally:
            with self._lock:
                self._used.append(self)
                while self._used and self._used[0].let_go_if_ended():
                    self._used.popleft()


def lend(array: Any, name: str) -> Loan:
    """The array's elements, side by side. Raises HoraArgumentError for what cannot be sent."""
    gpu = gpu_of(array)
    if gpu is None:
        return HostLoan(view_of(array, name))
    lent = _lent_on_gpu(array, name)
    if not lent.contiguous:
        raise HoraArgumentError(
            f"'{name}': the elements on cuda:{gpu} do not lie side by side; make it so: "
            "cupy.ascontiguousarray(array), tensor.contiguous()"
        )
    return GpuLoan(lent, gpu, tuple(lent.shape))


def _lent_on_gpu(array: Any, name: str) -> _native.LentArray:
    try:
        return _native.LentArray(array.__dlpack__(stream=1))  # 1: CUDA's default stream
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise HoraArgumentError(
            f"'{name}': {type(array).__name__} on cuda:{gpu_of(array)} cannot be sent: {error}"
        ) from error


def lend_on_host(array: Any, name: str) -> Array:
    """A contiguous array on the host, for a message. Raises HoraArgumentError for what cannot be sent."""
    check_on_host(array, name)
    return view_of(array, name)


def check_on_host(array: Any, name: str) -> None:
    """Raises HoraArgumentError for an array on a GPU."""
    gpu = gpu_of(array)
    if gpu is not None:
        raise HoraArgumentError(
            f"'{name}': the array is on cuda:{gpu}, and messages travel between CPUs: give a copy there "
            "(cupy.asnumpy(array)); hora.torch makes one by itself"
        )
