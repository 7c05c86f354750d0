# SPDX-License-Identifier: Apache-2.0
"""The operations of hora.torch, all in one place."""

from hora.torch._allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from hora.torch._allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from hora.torch._alltoall import alltoall, alltoall_async
from hora.torch._broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from hora.torch._lending import native_dtype
from hora.torch._reducescatter import grouped_reducescatter, grouped_reducescatter_async, reducescatter, reducescatter_async
from hora.torch._sparse import sparse_allreduce_async

__all__ = [
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "native_dtype",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
]
