# SPDX-License-Identifier: Apache-2.0
"""Hora for PyTorch, with the names of horovod.torch.

    import hora.torch as hvd
    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

Start it with `hrun -np 2 python train.py`.
"""

from hora import _shared_names
from hora._errors import HoraBackwardError, HoraReplicaError
from hora._job import Handle, poll, synchronize
from hora._messages import ANY_SOURCE, ANY_TAG, Envelope, Received
from hora._native import JobListener
from hora._objects import recv_object, send_object
from hora._shared_names import *  # noqa: F403
from hora._synchronization import barrier
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
    "DistributedOptimizer",
    "Envelope",
    "Handle",
    "HoraBackwardError",
    "HoraReplicaError",
    "JobListener",
    "Received",
    "SyncBatchNorm",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "check_replicas",
    "elastic",
    "gather",
    "gather_async",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "irecv",
    "isend",
    "poll",
    "probe",
    "recv",
    "recv_object",
    "reduce",
    "reduce_async",
    "reducescatter",
    "reducescatter_async",
    "scan",
    "scan_async",
    "scatter",
    "scatter_async",
    "send",
    "send_object",
    "sparse_allreduce_async",
    "synchronize",
]
__all__ += _shared_names.__all__

_untrace(globals(), __all__)  # within the package they call each other as they are
