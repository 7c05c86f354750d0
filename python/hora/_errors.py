# SPDX-License-Identifier: Apache-2.0
"""The exceptions of hora. Some are of two kinds, so that scripts written for Horovod catch what they caught
there."""

from __future__ import annotations


class HoraError(Exception):
    """Everything that Hora itself raises."""


class HoraInternalError(HoraError, RuntimeError):
    """The ranks disagree about a tensor, the job has failed or ended, or Hora is not initialised."""


class HoraArgumentError(HoraError, ValueError):
    """A wrong argument; nothing was sent, and the job goes on."""


class HoraTimeoutError(HoraInternalError, TimeoutError):
    """The ranks did not meet in time."""


class HoraUnavailableError(HoraInternalError):
    """Something that is not here: memory, a library such as libhora_nccl.so, a driver, a way to another
    rank."""


class HoraNotInitializedError(HoraInternalError, HoraArgumentError):
    """This process is in no job: `init` was not called, or `shutdown` was."""


class HoraShapeError(HoraInternalError, HoraArgumentError, IndexError):
    """A scalar where rows are needed, or a group without tensors; nothing was sent, and the job goes on."""


class HoraProcessSetError(HoraArgumentError, IndexError):
    """A process set that is not registered, or that this rank does not belong to; nothing was sent."""


class HoraUnsupportedError(HoraInternalError, HoraArgumentError, NotImplementedError):
    """Something that Hora does not do, such as a reduction that an operation lacks; nothing was sent."""


class HoraReplicaError(HoraInternalError):
    """The ranks' models are not the same any more. Raised by `hora.torch.check_replicas`.

    Attributes:
        differences: the names of what differs, each with the ranks that do; all of them where nobody can say
            which is wrong.
    """

    def __init__(self, text: str, differences: list[tuple[str, list[int]]]) -> None:
        super().__init__(text)
        self.differences = differences

    def __reduce__(self) -> tuple[type[HoraReplicaError], tuple[str, list[tuple[str, list[int]]]]]:
        return type(self), (str(self), self.differences)


class HoraBackwardError(HoraInternalError):
    """backward() failed on a rank, or what reduces gradients did. All ranks get this, but for that one, where
    backward() raises what it failed with. No rank makes a step; the job goes on with the next zero_grad() and
    backward()."""


class HoraRanksChangedError(HoraInternalError):
    """The ranks of an elastic job change, as one was lost. `hora.elastic.run` catches it, and goes on with
    the other ranks."""

    def __str__(self) -> str:
        return f"{super().__str__()}; hora.elastic.run goes on with the other ranks"


class HoraRankError(HoraInternalError):
    """A function that `hora.run` called raised an exception on a rank.

    Attributes:
        rank: which one.
        traceback_text: its traceback there, and the exception.
    """

    def __init__(self, rank: int, traceback_text: str) -> None:
        super().__init__(f"rank {rank} raised an exception:\n{traceback_text.rstrip()}")
        self.rank = rank
        self.traceback_text = traceback_text

    def __reduce__(self) -> tuple[type[HoraRankError], tuple[int, str]]:
        return type(self), (self.rank, self.traceback_text)


class HoraUsageError(HoraArgumentError, AssertionError):
    """A call that makes no sense here, such as a method that this kind of optimizer does not have."""


def exception_for(code: str) -> type[HoraError]:
    """The exception for a native code such as "mismatch"."""
    if code == "invalid_argument":
        return HoraArgumentError
    if code == "rank_failed":
        return HoraBackwardError
    if code == "generation_ended":
        return HoraRanksChangedError
    if code == "unavailable":
        return HoraUnavailableError
    return HoraTimeoutError if code == "timeout" else HoraInternalError
