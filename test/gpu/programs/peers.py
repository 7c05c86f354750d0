# SPDX-License-Identifier: Apache-2.0
"""The peers that Hora is compared with, among the same ranks: NCCL itself, and torch.distributed."""

import ctypes
import socket

import gpu
import torch
import torch.distributed as dist
from gpu import hvd

FLOAT32, MAX = 7, 2  # as nccl.h numbers them


class _Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


class BareNccl:
    """A communicator of NCCL's own, and nothing around it."""

    def __init__(self) -> None:
        self._nccl = ctypes.CDLL("libnccl.so.2")  # the one that PyTorch has loaded
        unique = _Id()
        if hvd.rank() == 0:
            self._check(self._nccl.ncclGetUniqueId(ctypes.byref(unique)))
        with gpu.on_cpu():
            unique = _Id.from_buffer_copy(hvd.broadcast_object(bytes(unique), 0))
        self._communicator = ctypes.c_void_p()
        self._nccl.ncclCommInitRank.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_int,
            _Id,
            ctypes.c_int,
        ]
        self._check(
            self._nccl.ncclCommInitRank(ctypes.byref(self._communicator), hvd.size(), unique, hvd.rank())
        )
        self._all_reduce = self._nccl.ncclAllReduce
        self._all_reduce.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """The largest of all ranks, in place, on the current stream."""
        address = tensor.data_ptr()
        stream = torch.cuda.current_stream().cuda_stream
        self._check(
            self._all_reduce(address, address, tensor.numel(), FLOAT32, MAX, self._communicator, stream)
        )

    @staticmethod
    def _check(result: int) -> None:
        if result != 0:
            raise RuntimeError(f"NCCL returned {result}")


def enter_torch_distributed(backend: str) -> None:
    """Makes the ranks of the job those of torch.distributed."""
    port = 0
    if hvd.rank() == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    with gpu.on_cpu():
        port = hvd.broadcast_object(port, 0)
    device = {} if backend == "gloo" or gpu.FAKE else {"device_id": gpu.DEVICE}
    dist.init_process_group(
        backend, init_method=f"tcp://127.0.0.1:{port}", rank=hvd.rank(), world_size=hvd.size(), **device
    )


def all_ranks(there: bool) -> bool:
    """Whether all ranks have a peer: else none uses it."""
    with gpu.on_cpu():
        return bool(
            hvd.allreduce(torch.tensor(float(there), dtype=torch.float64), op=hvd.Min, name="there").item()
        )
