# SPDX-License-Identifier: Apache-2.0
"""Hora: allreduce and its kin for the processes of a job.

This module takes NumPy arrays and whatever speaks DLPack or the buffer protocol, on the CPU. `hora.torch` has the names
of `horovod.torch` for PyTorch.

    import hora, numpy as np
    hora.init()
    total = hora.allreduce(np.ones(3), op=hora.Sum)
    print(hora.rank(), total)

Start it with `hrun -np 2 python program.py`.
"""

from hora._aliases import install_as_horovod
from hora._arrays import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_async,
    broadcast,
    broadcast_async,
)
from hora._errors import HoraArgumentError, HoraError, HoraInternalError, HoraRankError, HoraTimeoutError
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
from hora._launch import run
from hora._native import __version__
from hora._objects import allgather_object, broadcast_object
from hora.compression import Compression
from hora.ops import Average, Max, Min, Product, Sum

__all__ = [
    "Average",
    "Compression",
    "HoraArgumentError",
    "HoraError",
    "HoraInternalError",
    "HoraRankError",
    "HoraTimeoutError",
    "Max",
    "Min",
    "Product",
    "Sum",
    "__version__",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_async",
    "barrier",
    "broadcast",
    "broadcast_async",
    "broadcast_object",
    "cross_rank",
    "cross_size",
    "init",
    "install_as_horovod",
    "is_initialized",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "run",
    "shutdown",
    "size",
    "synchronize",
]
