# SPDX-License-Identifier: Apache-2.0
"""mpi4py beside Hora."""

from __future__ import annotations

import sys
from typing import Any

from hora import _job, _native
from hora._errors import HoraArgumentError, HoraUnsupportedError


def checked_communicator(comm: Any) -> int:
    """The number that a communicator of mpi4py has in MPI's Fortran interface, which every C library
    understands."""
    from mpi4py import MPI

    if not comm:
        raise HoraArgumentError(
            "comm is COMM_NULL: this process is in no communicator; only those that are call init(comm=...)"
        )
    ours = _native.mpi_library()
    if not ours:
        raise HoraUnsupportedError(
            "init(comm=...) needs libhora_mpi.so: build Hora where CMake finds MPI (apt-get install "
            "libopenmpi-dev)"
        )
    theirs = MPI.Get_library_version()
    if not theirs.startswith(ours):
        raise HoraArgumentError(
            f"comm belongs to another MPI library: mpi4py uses {theirs.splitlines()[0]}, and Hora {ours}; "
            "build both with the same"
        )
    return int(comm.py2f())


def tell_of_singleton() -> None:
    """Says on rank 0 that mpi4py, which the program has imported, does not know the other ranks."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or _job.size() == 1 or _job.rank() != 0 or not mpi.Is_initialized() or mpi.Is_finalized():
        return
    known = mpi.COMM_WORLD.Get_size()
    if known != _job.size():
        print(
            f"hora: the job has {_job.size()} ranks, but mpi4py's COMM_WORLD has {known}: start with `hrun "
            "--mpi` if the program uses it",
            file=sys.stderr,
            flush=True,
        )
