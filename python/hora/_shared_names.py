# SPDX-License-Identifier: Apache-2.0
"""The names that the modules for frameworks, such as `hora.torch`, take from `hora` as they are."""

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
    HoraError,
    HoraInternalError,
    HoraNotInitializedError,
    HoraProcessSetError,
    HoraRanksChangedError,
    HoraShapeError,
    HoraTimeoutError,
    HoraUnavailableError,
    HoraUnsupportedError,
    HoraUsageError,
)
from hora._errors import HoraInternalError as HorovodInternalError
from hora._job import cross_rank, cross_size, is_initialized, local_rank, local_size, rank, size
from hora._membership import init, is_homogeneous, shutdown
from hora._metrics import average_metrics
from hora._objects import allgather_object, broadcast_object, gather_object, scatter_object
from hora._synchronization import join
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
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Compression",
    "HoraArgumentError",
    "HoraError",
    "HoraInternalError",
    "HoraNotInitializedError",
    "HoraProcessSetError",
    "HoraRanksChangedError",
    "HoraShapeError",
    "HoraTimeoutError",
    "HoraUnavailableError",
    "HoraUnsupportedError",
    "HoraUsageError",
    "HorovodInternalError",
    "LogicalAnd",
    "LogicalOr",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather_object",
    "average_metrics",
    "broadcast_object",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "expect_delay",
    "gather_object",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "memory_report",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "remove_process_set",
    "rocm_built",
    "scatter_object",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
