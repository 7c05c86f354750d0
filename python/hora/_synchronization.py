# SPDX-License-Identifier: Apache-2.0
"""Operations without a tensor."""

from __future__ import annotations

from hora import _job, _native
from hora._arguments import documented
from hora._job import Handle
from hora._naming import Naming
from hora.process_sets import ProcessSet, global_process_set


@documented
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the process set has called it. Does not wait for other operations.

    Raises:
        HoraArgumentError (a ValueError): this rank is no member of the process set, or the set is not
            registered.
        HoraInternalError (a RuntimeError): a rank has joined, or the job has failed.
    """
    _job.run(start_barrier, process_set)


def start_barrier(process_set: ProcessSet) -> Handle:
    """Starts `barrier`."""
    with Naming("barrier", None, process_set) as named:
        entry = _native.Entry(
            _native.Operation.barrier, named.full, _native.DType.uint8, [], process_set=named.process_set
        )
        return _job.start(entry, lambda outcome: None)


def join(device: int = -1, *, divide_by_initial_world_size: bool = True) -> int:
    """For ranks with fewer batches than others: says that this rank has no more, and returns when every rank
    has said so.

    Until then it takes part in the operations of the others by itself. It counts as zeros in sums, averages
    and Adasum, as the neutral element in the other reductions (where Horovod counts zeros, too), and brings
    no rows to allgather and sparse allreduce. The other operations fail with HoraInternalError on the ranks
    that are still there, and operations of process sets other than `global_process_set` wait for their
    members. May be used again and again, once every epoch.

    Args:
        device: not used; there for scripts written for Horovod.
        divide_by_initial_world_size: averages divide by the number of all ranks, as in Horovod and DDP;
            False: by the number of those that have not joined. The same on all ranks.

    Returns:
        The rank that joined last, the same on all ranks.

    Raises:
        HoraArgumentError (a ValueError): another thread of this rank has joined already.
        HoraInternalError (a RuntimeError): the job has failed.
    """
    entry = _native.Entry(
        _native.Operation.join,
        "join.noname",
        _native.DType.uint8,
        [],
        divide_by_initial_size=divide_by_initial_world_size,
    )
    with _native.BlockingScope():
        last_rank = _job.runtime().submit(entry).wait().last_rank
    _job.restart_numbers()  # ranks with more batches have issued more operations
    return last_rank
