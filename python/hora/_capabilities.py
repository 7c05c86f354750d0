# SPDX-License-Identifier: Apache-2.0
"""What scripts written for Horovod ask about the libraries below it. The answers speak of those libraries: Hora's own
connections and shared memory need neither MPI nor Gloo nor NCCL, and every operation works without them."""

from __future__ import annotations

from hora import _job, _native
from hora._errors import HoraUnsupportedError


def mpi_built() -> bool:
    """Whether libhora_mpi.so is there, and the MPI that it was built with. Does not start MPI."""
    return _native.mpi_library() != ""


def mpi_enabled() -> bool:
    """Whether this job uses MPI: HORA_CPU_OPERATIONS=mpi, or init(comm=...) with a communicator."""
    return _job.is_initialized() and _job.runtime().uses_mpi


def mpi_threads_supported() -> bool:
    """Whether several threads may call MPI at a time (MPI_THREAD_MULTIPLE), in a job that uses MPI.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
        HoraUnsupportedError (a ValueError): this job does not use MPI.
    """
    if not _job.runtime().uses_mpi:
        raise HoraUnsupportedError("this job does not use MPI, so there is no answer; ask mpi_enabled() first")
    return _native.mpi_threads()


def gloo_built() -> bool:
    """False: Hora does not use Gloo. Scripts ask in order to work around what Gloo lacks, such as Adasum, and Hora has."""
    return False


def gloo_enabled() -> bool:
    """False: Hora does not use Gloo. Scripts ask in order to work around what Gloo lacks, such as Adasum, and Hora has."""
    return False


def nccl_built() -> int:
    """0: Hora does not use NCCL. Else it would be NCCL's version code."""
    return 0


def ddl_built() -> bool:
    """False: Hora does not use IBM's DDL."""
    return False


def ccl_built() -> bool:
    """False: Hora does not use Intel's oneCCL."""
    return False


def cuda_built() -> bool:
    """False: Hora does not use CUDA."""
    return False


def rocm_built() -> bool:
    """False: Hora does not use ROCm."""
    return False
