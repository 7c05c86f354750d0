# SPDX-License-Identifier: Apache-2.0
"""Hora for PyTorch, with the names of horovod.torch.

    import hora.torch as hvd
    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

Start it with `hrun -np 2 python train.py`.
"""

from hora._errors import HoraArgumentError, HoraError, HoraInternalError, HoraTimeoutError
from hora._job import (
    barrier,
    cross_rank,
    cross_size,
    init,
    is_initialized,
    local_rank,
    local_size,
    poll,
    rank,
    shutdown,
    size,
    synchronize,
)
from hora._objects import allgather_object, broadcast_object
from hora.compression import Compression
from hora.ops import Average, Max, Min, Product, Sum
from hora.torch import elastic
from hora.torch._batch_norm import SyncBatchNorm
from hora.torch._ops import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
)
from hora.torch._optimizer import DistributedOptimizer
from hora.torch._state import broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HoraArgumentError",
    "HoraError",
    "HoraInternalError",
    "HoraTimeoutError",
    "Max",
    "Min",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "elastic",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "shutdown",
    "size",
    "synchronize",
]
