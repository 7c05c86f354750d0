# SPDX-License-Identifier: Apache-2.0
"""Hora: allreduce and its kin for the processes of a job.

This module takes NumPy arrays and whatever speaks DLPack or the buffer protocol; on a GPU, what speaks
DLPack. `hora.torch` has the names of `horovod.torch` for PyTorch.

    import hora, numpy as np
    hora.init()
    total = hora.allreduce(np.ones(3), op=hora.Sum)
    print(hora.rank(), total)

Start it with `hrun -np 2 python program.py`.
"""

from hora import _loading as _loading  # the first: it says why a Hora cannot be loaded
from hora._aliases import install_as_horovod
from hora._arrays import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_async,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_async,
    reducescatter,
    reducescatter_async,
)
from hora._capabilities import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    memory_report,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from hora._delays import expect_delay
from hora._device_array import DeviceArray
from hora._errors import (
    HoraArgumentError,
    HoraError,
    HoraInternalError,
    HoraNotInitializedError,
    HoraProcessSetError,
    HoraRankError,
    HoraRanksChangedError,
    HoraShapeError,
    HoraTimeoutError,
    HoraUnavailableError,
    HoraUnsupportedError,
    HoraUsageError,
)
from hora._groups import (
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
)
from hora._job import (
    Handle,
    cross_rank,
    cross_size,
    is_initialized,
    local_rank,
    local_size,
    poll,
    rank,
    size,
    synchronize,
)
from hora._launch import run
from hora._membership import init, is_homogeneous, shutdown
from hora._messages import ANY_SOURCE, ANY_TAG, Envelope, Received, irecv, isend, probe, recv, send
from hora._metrics import average_metrics
from hora._native import JobListener, __version__
from hora._objects import (
    allgather_object,
    broadcast_object,
    gather_object,
    recv_object,
    scatter_object,
    send_object,
)
from hora._rooted import gather, gather_async, reduce, reduce_async, scan, scan_async, scatter, scatter_async
from hora._synchronization import barrier, join
from hora._timeline import start_timeline, stop_timeline
from hora.compression import Compression
from hora.ops import (
    Adasum,
    Average,
    BitAnd,
    BitOr,
    BitXor,
    LogicalAnd,
    LogicalOr,
    Max,
    Min,
    Product,
    Sum,
)
from hora.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = [
    "ANY_SOURCE",
    "ANY_TAG",
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Compression",
    "DeviceArray",
    "Envelope",
    "Handle",
    "HoraArgumentError",
    "HoraError",
    "HoraInternalError",
    "HoraNotInitializedError",
    "HoraProcessSetError",
    "HoraRankError",
    "HoraRanksChangedError",
    "HoraShapeError",
    "HoraTimeoutError",
    "HoraUnavailableError",
    "HoraUnsupportedError",
    "HoraUsageError",
    "JobListener",
    "LogicalAnd",
    "LogicalOr",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Received",
    "Sum",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_async",
    "alltoall",
    "alltoall_async",
    "average_metrics",
    "barrier",
    "broadcast",
    "broadcast_async",
    "broadcast_object",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "expect_delay",
    "gather",
    "gather_async",
    "gather_object",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_async",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "install_as_horovod",
    "irecv",
    "is_homogeneous",
    "is_initialized",
    "isend",
    "join",
    "local_rank",
    "local_size",
    "memory_report",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "probe",
    "rank",
    "recv",
    "recv_object",
    "reduce",
    "reduce_async",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "run",
    "scan",
    "scan_async",
    "scatter",
    "scatter_async",
    "scatter_object",
    "send",
    "send_object",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
