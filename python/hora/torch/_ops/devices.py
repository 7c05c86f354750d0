# SPDX-License-Identifier: Apache-2.0
"""Where tensors lie, and what keeps the order of work on a GPU. All that hora.torch knows of CUDA is here.

Orders. An operation begins when the stream that is current when it is submitted (the one on which its input
was made) has come so far, and `synchronize` makes the stream that is current then wait for its end; the host
waits for neither. Gradients are submitted by hooks, in which the stream is current that the gradient was made
on; and when backward() ends, the stream is current that was so when it was called, so that this is the one
that waits for them.

Lifetimes. PyTorch's caching allocator gives memory that is freed to whoever wants some next on the stream
that it was allocated on, without waiting for the GPU: what is put on that stream later comes later. Hora's
own stream is not in that order.

- Until `synchronize`, the tensors are kept (`OnGpu`). Without `synchronize` they are kept until the job ends.
- After it, if the stream that waits is the one of the submission, memory that is freed is used again on a
  stream that comes after Hora's work: nothing is to be done.
- If it is another stream, the allocator is told of that (`record_stream`): it uses the memory again when what
  has been put on that stream, which waits for Hora's work, is done.
- Outputs that PyTorch allocates belong to the stream of the submission, as those of any operation on it; what
  is lent includes them.
- Outputs that Hora allocates, when it hears how large they are (allgather, alltoall, gather, scatter), are
  none of the allocator's: `record_stream` does nothing for them. They are freed behind the work of the stream
  of the submission. If another stream waits for the operation, it gets a copy that is PyTorch's
  (`on_current_stream`).
- Gradients live in memory of Hora's, which is freed when no work uses it any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

import torch

from hora import _job, _native, _submission
from hora._errors import HoraArgumentError

Place = _submission.Place


def check_device(tensor: torch.Tensor, name: str) -> None:
    """Raises HoraArgumentError for a tensor that lies where Hora does not reach."""
    if tensor.is_cpu:
        return
    kind = tensor.device.type
    if kind == "meta":
        raise HoraArgumentError(
            f"'{name}': the tensor is on meta, so it has no elements; give one on the CPU or on a GPU"
        )
    if kind == "cuda" and torch.version.hip is not None:
        raise HoraArgumentError(
            f"'{name}': the tensor is on {tensor.device} of ROCm; Hora reaches the CPU "
            "and NVIDIA's GPUs: use .cpu()"
        )
    if kind != "cuda":
        raise HoraArgumentError(
            f"'{name}': the tensor is on {tensor.device}; Hora reaches the CPU and NVIDIA's "
            "GPUs (cuda): use .cpu()"
        )


def gpu_of(tensor: torch.Tensor) -> int | None:
    """The number of the GPU that a tensor is on; None: it is in the host's memory."""
    return tensor.device.index if tensor.is_cuda else None


def current_stream(gpu: int) -> int:
    """The cudaStream_t to which PyTorch gives what this thread does on that GPU."""
    stream: int = torch._C._cuda_getCurrentRawStream(
        gpu
    )  # torch.cuda.current_stream(gpu).cuda_stream without making an object
    return stream


def is_captured(gpus: Iterable[int]) -> bool:
    """Whether PyTorch's current stream of one of these GPUs is being captured into a CUDA graph."""
    for gpu in gpus:
        with torch.cuda.device(gpu):
            if torch.cuda.is_current_stream_capturing():
                return True
    return False


def place_of(tensor: torch.Tensor) -> Place:
    """Where a tensor's elements are, and the stream that this thread makes them on."""
    gpu = gpu_of(tensor)
    return Place(tensor.data_ptr(), gpu, 0 if gpu is None else current_stream(gpu))


def tensor_in(memory: _native.Memory, dtype: torch.dtype, count: int, offset: int = 0) -> torch.Tensor:
    """Elements in memory of Hora's, from that byte on; keeps the memory."""
    if count == 0:
        return torch.empty(0, dtype=dtype, device="cpu" if memory.device is None else f"cuda:{memory.device}")
    if memory.device is None:
        return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
    capsule = memory.dlpack(_native.DType.uint8, [count * dtype.itemsize], offset)
    whole: torch.Tensor = torch.utils.dlpack.from_dlpack(capsule)
    return whole.view(dtype)


def wait_on(handle: _native.Handle, stream: int) -> _native.Outcome:
    """Makes that stream wait for an operation on its GPU."""
    return handle.wait_on(stream)


def note_use(tensor: torch.Tensor, gpu: int) -> None:
    """Tells the allocator that the current stream, too, uses a tensor's memory."""
    tensor.record_stream(torch.cuda.current_stream(gpu))


def on_current_stream(result: torch.Tensor, place: Place) -> torch.Tensor:
    """The tensor that Hora has allocated on the stream of that place. If another stream is current, a copy
    that PyTorch has allocated on that one."""
    if place.gpu is None or current_stream(place.gpu) == place.stream:
        return result
    copy = result.clone()
    let_wait(place)  # the result is freed behind the copying then
    return copy


def let_wait(place: Place) -> None:
    """Makes the stream of that place wait for what has been put on the current one."""
    assert place.gpu is not None
    # ExternalStream(0) would be a new stream.
    stream: torch.cuda.Stream = torch.cuda.default_stream(place.gpu)
    if place.stream:
        stream = torch.cuda.ExternalStream(place.stream, device=place.gpu)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(place.gpu))


Mark = torch.cuda.Event


def mark_current_stream(gpu: int) -> Mark:
    """A mark behind all that has been put on the current stream of that GPU."""
    mark = Mark()  # type: ignore[no-untyped-call, unused-ignore]
    mark.record(torch.cuda.current_stream(gpu))
    return mark


def let_current_stream_wait(mark: Mark) -> None:
    """Makes the current stream of the mark's GPU wait for it."""
    mark.wait(torch.cuda.current_stream(mark.device))


@contextlib.contextmanager
def on_side_streams(gpus: Iterable[int]) -> Generator[None, None, None]:
    """Within, other streams of these GPUs are current, and wait for those that are current now."""
    with contextlib.ExitStack() as streams:
        for gpu in gpus:
            current = torch.cuda.current_stream(gpu)
            side = torch.cuda.Stream(gpu)  # type: ignore[no-untyped-call, unused-ignore]
            side.wait_stream(current)
            streams.enter_context(torch.cuda.stream(side))
        yield


def future_on(gpus: Iterable[int]) -> torch.futures.Future[Any]:
    """A future of tensors on these GPUs. The current stream of a thread that waits for it waits for all that
    was on the current stream of the thread that sets it."""
    return torch.futures.Future(devices=[torch.device("cuda", gpu) for gpu in gpus])


def finish(gpu: int) -> None:
    """Returns when the GPU has done all that PyTorch has given it."""
    torch.cuda.synchronize(gpu)


class _OnGpu(_job.OnGpu):
    """An operation on a GPU. Waiting for it is up to the current stream, not to the host."""

    __slots__ = ("_gpu", "_stream")

    _lent: tuple[torch.Tensor, ...]

    def __init__(self, handle: _native.Handle, gpu: int, stream: int, *lent: torch.Tensor) -> None:
        super().__init__(handle, *lent)
        self._gpu = gpu
        self._stream = stream

    def wait(self) -> _native.Outcome:
        """Returns when the operation has been given to the GPU; the current stream waits for its end."""
        stream = current_stream(self._gpu)
        outcome = self._given_back_by(lambda: wait_on(self._handle, stream))
        if stream != self._stream:
            for tensor in self._lent:
                note_use(tensor, self._gpu)
        return outcome


def await_sound(tensors: Iterable[torch.Tensor]) -> None:
    """Returns when the GPUs that these are on have done all that they were given. Raises HoraInternalError if
    the job has failed by then: the work may have used gradients whose reduction was aborted."""
    gpus = {gpu for tensor in tensors if (gpu := gpu_of(tensor)) is not None}
    for gpu in gpus:
        finish(gpu)
    if gpus and _job.is_initialized():
        _job.check_goes_on()


def under_way(handle: _native.Handle, place: Place, *lent: torch.Tensor) -> _job.UnderWay:
    """The handle of an operation on elements there, which belong to these tensors."""
    return handle.keep(lent) if place.gpu is None else _OnGpu(handle, place.gpu, place.stream, *lent)


def arguments(place: Place) -> dict[str, Any]:
    """A place as an Entry takes it."""
    return {"device": place.gpu, "stream": place.stream}
