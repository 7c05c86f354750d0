# SPDX-License-Identifier: Apache-2.0
"""Messages from one rank to another, point to point: send and recv, for tensors. Without autograd."""

from __future__ import annotations

import torch

from hora import _job, _native
from hora._errors import HoraArgumentError
from hora._job import Handle
from hora._messages import (
    ANY_SOURCE,
    ANY_TAG,
    Envelope,
    Received,
    checked_address,
    checked_choice,
    receiving,
    result,
    seen,
    sending,
)
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.lending import Loan, lent_in_place, received, torch_dtype


def _on_host(loan: Loan) -> Loan:
    """The same in the host's memory, in which messages travel: a copy, made when the GPU has come so far."""
    return loan if loan.place.gpu is None else Loan(loan.memory.cpu(), "message")


def isend(
    tensor: torch.Tensor, dest: int, tag: int = 0, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts `send`; the handle is for `poll` and `synchronize`, which returns None. Until then the tensor
    must not be changed."""
    address = checked_address(dest, tag, process_set, "send")
    loan = _on_host(Loan(tensor, "send"))
    handle = _job.runtime().send(*address, loan.native, list(loan.memory.shape), loan.place.address)
    return _job.under_way(handle, lambda outcome: None, loan)


@sending
def send(tensor: torch.Tensor, dest: int, tag: int = 0, process_set: ProcessSet = global_process_set) -> None:
    """Sends a tensor to one rank, which calls `recv`. As MPI_Send.

    A small tensor (64 KiB and less, as a rule) has been copied when this returns, whether the receiver wants
    it yet or not; a larger one has been received. So ranks that send each other large tensors use `isend` or
    `irecv`, or one of them receives first: else each waits for the other.

    Args:
        tensor: any shape; any dtype that `broadcast` takes; dense, on the CPU or a GPU. Messages travel
            between CPUs: of a tensor on a GPU a copy in the host's memory is sent.

    Raises:
        HoraArgumentError (a ValueError): the tensor cannot be sent, there is no such rank, or the tag is
            negative; nothing was sent.
        HoraInternalError (a RuntimeError): the rank has left the job and not taken a large tensor, and the
            text names it; it cannot be reached; or the job has failed, as it does when a rank has not
            received a large tensor for HORA_MISSING_TIMEOUT.
    """
    _job.synchronize(isend(tensor, dest, tag, process_set))


def irecv(
    tensor: torch.Tensor | None = None,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts `recv`; the handle is for `poll` and `synchronize`, which returns what `recv` does. A tensor to
    receive into has its new values once `synchronize` has returned."""
    choice = checked_choice(source, tag, process_set, "recv")
    if tensor is None:
        handle = _job.runtime().receive(*choice)
        return _job.under_way(
            handle, lambda outcome: result(received(outcome, torch_dtype(outcome.dtype)), outcome)
        )
    if isinstance(tensor, int):
        raise HoraArgumentError(
            f"'recv': {type(tensor).__name__} has no memory to receive into; give a torch.Tensor, or none; "
            "write source= and tag= by name"
        )
    loan = lent_in_place(tensor, "recv")
    memory = _on_host(loan)

    def finish(outcome: _native.Outcome) -> Received[torch.Tensor]:
        if memory is not loan:
            loan.memory.copy_(memory.memory)
        return result(loan.written_back(), outcome)

    handle = _job.runtime().receive(*choice, memory.native, list(memory.memory.shape), memory.place.address)
    return _job.under_way(handle, finish, memory)


@receiving
def recv(
    tensor: torch.Tensor | None = None,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    process_set: ProcessSet = global_process_set,
) -> Received[torch.Tensor]:
    """Receives a tensor that another rank has sent to this one, or will. As MPI_Recv.

    Args:
        tensor: where to receive it, on the CPU or a GPU, whichever the message came from; it must be of the
            message's shape and dtype. Without one, a new tensor on the CPU, of whatever shape and dtype the
            message has.

    Returns:
        `Received(value, source, tag)`: the tensor, who sent it, and with which tag.

    Raises:
        HoraArgumentError (a ValueError): nothing can be received into the tensor (it is expanded, say), or
            there is no such rank.
        HoraInternalError (a RuntimeError): the message has another shape or dtype, or is an object, and the
            text says both; it is lost then, and the job goes on. Or the rank has left the job (from
            ANY_SOURCE: all others have) and nothing is left of what it sent, and the text names it. Or the
            job has failed, as it does when nothing has been sent for HORA_MISSING_TIMEOUT.
    """
    got: Received[torch.Tensor] = _job.synchronize(irecv(tensor, source, tag, process_set))
    return got


@receiving
def probe(
    source: int = ANY_SOURCE, tag: int = ANY_TAG, process_set: ProcessSet = global_process_set
) -> Envelope[torch.dtype] | None:
    """The message that `recv` with these arguments would take now: `Envelope(source, tag, dtype, shape)`;
    None if none has come yet. It does not wait, and the message stays where it is. Of an object the dtype is
    None. As MPI_Iprobe.

    Raises:
        HoraArgumentError (a ValueError): there is no such rank.
        HoraInternalError (a RuntimeError): the rank has left the job and nothing is left of what it sent, or
            the job has failed.
    """
    return seen(source, tag, process_set, torch_dtype)
