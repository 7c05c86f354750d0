# SPDX-License-Identifier: Apache-2.0
"""Questions that scripts for Horovod ask about the libraries below it. The answers speak of those libraries:
Hora's own connections and shared memory need neither MPI nor Gloo nor NCCL, and every operation works without
them. And what of a GPU's memory Hora takes."""

from __future__ import annotations

from hora import _job, _native
from hora._errors import HoraUnsupportedError
from hora._nccl import packaged_nccl


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
        raise HoraUnsupportedError(
            "this job does not use MPI, so there is no answer; ask mpi_enabled() first"
        )
    return _native.mpi_threads()


def gloo_built() -> bool:
    """False: Hora does not use Gloo. Scripts ask in order to work around what Gloo lacks, such as Adasum, and
    Hora has."""
    return False


def gloo_enabled() -> bool:
    """False: Hora does not use Gloo. Scripts ask in order to work around what Gloo lacks, such as Adasum, and
    Hora has."""
    return False


def nccl_built() -> int:
    """The version code of the NCCL that tensors on GPUs move with here, 22809 for 2.28.9; 0: there is none,
    or no libhora_nccl.so; they move by way of the host's memory then, or not at all."""
    _, version = _native.nccl_library(packaged_nccl())
    if not version:
        return 0
    major, minor, patch = (int(part) for part in version.split("."))
    return 10000 * major + 100 * minor + patch


def ddl_built() -> bool:
    """False: Hora does not use IBM's DDL."""
    return False


def ccl_built() -> bool:
    """False: Hora does not use Intel's oneCCL."""
    return False


def cuda_built() -> bool:
    """Whether libhora_nccl.so is there, which tensors on NVIDIA's GPUs need. It is there also where no GPU
    is."""
    return _native.gpu_support()


def rocm_built() -> bool:
    """False: Hora does not use ROCm."""
    return False


def memory_report() -> str:
    """The memory that this rank has taken for itself on its GPU and for it, a line each: fusion buffers and
    gradients that live in Hora's memory, NCCL's communicators, the host's memory for copies.

    Raises:
        HoraNotInitializedError (a ValueError): Hora is not initialised.
    """
    return _job.runtime().memory_report()
