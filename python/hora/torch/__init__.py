# SPDX-License-Identifier: Apache-2.0
"""Hora for PyTorch, with the names of horovod.torch.

    import hora.torch as hvd
    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

Start it with `hrun -np 2 python train.py`.
"""

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
from hora._errors import (
    HoraArgumentError,
    HoraBackwardError,
    HoraError,
    HoraInternalError,
    HoraNotInitializedError,
    HoraProcessSetError,
    HoraRanksChangedError,
    HoraReplicaError,
    HoraShapeError,
    HoraTimeoutError,
    HoraUnavailableError,
    HoraUnsupportedError,
    HoraUsageError,
)
from hora._errors import HoraInternalError as HorovodInternalError
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
from hora._membership import init, is_homogeneous, shutdown
from hora._messages import ANY_SOURCE, ANY_TAG, Envelope, Received
from hora._metrics import average_metrics
from hora._native import JobListener
from hora._objects import (
    allgather_object,
    broadcast_object,
    gather_object,
    recv_object,
    scatter_object,
    send_object,
)
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
from hora.torch import _pytorch as _pytorch  # the first: it says why a PyTorch is of no use
from hora.torch import elastic
from hora.torch._batch_norm import SyncBatchNorm
from hora.torch._ops.allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from hora.torch._ops.allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from hora.torch._ops.alltoall import alltoall, alltoall_async
from hora.torch._ops.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from hora.torch._ops.messages import irecv, isend, probe, recv, send
from hora.torch._ops.reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from hora.torch._ops.rooted import (
    gather,
    gather_async,
    reduce,
    reduce_async,
    scan,
    scan_async,
    scatter,
    scatter_async,
)
from hora.torch._ops.sparse import sparse_allreduce_async
from hora.torch._optimizer.optimizer import DistributedOptimizer
from hora.torch._state.broadcast import broadcast_optimizer_state, broadcast_parameters
from hora.torch._state.replicas import check_replicas
from hora.torch._untraced import untrace as _untrace

__all__ = [
    "ANY_SOURCE",
    "ANY_TAG",
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Compression",
    "DistributedOptimizer",
    "Envelope",
    "Handle",
    "HoraArgumentError",
    "HoraBackwardError",
    "HoraError",
    "HoraInternalError",
    "HoraNotInitializedError",
    "HoraProcessSetError",
    "HoraRanksChangedError",
    "HoraReplicaError",
    "HoraShapeError",
    "HoraTimeoutError",
    "HoraUnavailableError",
    "HoraUnsupportedError",
    "HoraUsageError",
    "HorovodInternalError",
    "JobListener",
    "LogicalAnd",
    "LogicalOr",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Received",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "average_metrics",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "check_replicas",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
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
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
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
    "scan",
    "scan_async",
    "scatter",
    "scatter_async",
    "scatter_object",
    "send",
    "send_object",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]

_untrace(globals(), __all__)  # within the package they call each other as they are
