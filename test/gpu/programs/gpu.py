# SPDX-License-Identifier: Apache-2.0
"""The beginning of every program here: a context in the job, on a GPU.

All ranks share the machine's one GPU. NCCL takes them for ranks on different hosts if each has an NCCL_HOSTID
of its own, and then lets them; they talk through sockets of the loopback device. That shows that results are
right, and what the host does; of NCCL's bandwidth it says nothing.

With TEST_FAKE_GPU there is no GPU, but one that is none for each rank: the fake driver and the fake NCCL take
the place of the real ones, PyTorch's CPU tensors that of its CUDA tensors, and times mean nothing."""

import contextlib
import ctypes
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

FAKE = "TEST_FAKE_GPU" in os.environ
if "HORA_RANK" in os.environ and os.environ.get("HORA_GPU_OPERATIONS") != "staged":
    os.environ["NCCL_HOSTID"] = f"host-of-rank-{os.environ['HORA_RANK']}"
for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
    os.environ.setdefault(variable, "lo")
GPU = int(os.environ.get("HORA_LOCAL_RANK", "0")) if FAKE and "TEST_SHARED_GPU" not in os.environ else 0
if FAKE:
    os.environ["FAKE_CUDA_OWNS"] = str(
        GPU
    )  # the GPU to which all memory belongs that the fake driver has not given
    ctypes.CDLL(
        os.environ["HORA_NCCL_LIBRARY"], mode=ctypes.RTLD_GLOBAL
    )  # before PyTorch, which then takes it for its own

import hora.torch as hvd  # noqa: E402
import torch  # noqa: E402
from hora.torch._ops import devices  # noqa: E402

DEVICE = torch.device("cpu" if FAKE else "cuda:0")
_lies_on_gpu = True


def start() -> None:
    """Joins the job."""
    if FAKE:
        _pretend()
    else:
        torch.cuda.set_device(DEVICE)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    hvd.init()


def _pretend() -> None:
    """CPU tensors are the GPU's, unless they are made `on_cpu`."""

    def tensor_in(memory: Any, dtype: torch.dtype, count: int, offset: int = 0) -> torch.Tensor:
        if count == 0:
            return torch.empty(0, dtype=dtype)
        if memory.device is None:
            return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
        room = (ctypes.c_ubyte * len(memory)).from_address(memory.address)
        room.owner = memory  # type: ignore[attr-defined]
        return torch.frombuffer(room, dtype=dtype, count=count, offset=offset)

    def wait_on(handle: Any, stream: int) -> Any:
        handle.wait_on(stream)
        return handle.wait()  # what PyTorch does to CPU tensors is not put on the stream

    devices.gpu_of = lambda tensor: GPU if _lies_on_gpu else None
    devices.tensor_in, devices.wait_on = tensor_in, wait_on
    devices.current_stream = lambda gpu: 0


@contextlib.contextmanager
def on_cpu() -> Iterator[torch.device]:
    """The CPU's device; work within the context is done there."""
    global _lies_on_gpu
    _lies_on_gpu = False
    try:
        yield torch.device("cpu")
    finally:
        _lies_on_gpu = True


def finish() -> None:
    """Waits for all that the GPU was given."""
    if not FAKE:
        torch.cuda.synchronize()


def say(kind: str, **content: Any) -> None:
    """A line for test/gpu/run."""
    print(kind, json.dumps(content), flush=True)


def figure(name: str, value: float, unit: str, **more: Any) -> None:
    """A measured figure, on rank 0. `more`: see Figure in test/gpu/parts/figures.py."""
    if not hvd.is_initialized() or hvd.rank() == 0:
        say("FIGURE", name=name, value=value, unit=unit, **more)


def check(name: str, good: bool, text: str = "") -> None:
    """Something that has to be so, on this rank."""
    if not good or not hvd.is_initialized() or hvd.rank() == 0:
        say(
            "CHECK",
            name=name,
            ok=bool(good),
            text=text if good else f"{text} (rank {hvd.rank() if hvd.is_initialized() else 0})",
        )


@contextlib.contextmanager
def checking(name: str) -> Iterator[None]:
    """A check of which anything that is thrown makes a failure; the program goes on."""
    try:
        yield
    except Exception as error:
        say("CHECK", name=name, ok=False, text=f"{type(error).__name__}: {error}"[:600])
    else:
        check(name, True)


def attempt(what: str, call: Callable[[], Any]) -> Any:
    """The result of a call; None and a line if it fails: a peer that is not there."""
    try:
        return call()
    except Exception as error:
        say("NOTE", text=f"{what}: {type(error).__name__}: {error}"[:400])
        return None


class Mark:
    """A moment on a stream; the current one if none is given."""

    def __init__(self, stream: Any = None) -> None:
        if FAKE:
            self._at = time.perf_counter()
        else:
            self._event = torch.cuda.Event(enable_timing=True)
            self._event.record(stream or torch.cuda.current_stream())

    def microseconds_to(self, later: "Mark") -> float:
        return 1e6 * (later._at - self._at) if FAKE else 1e3 * self._event.elapsed_time(later._event)


def in_turn(
    contenders: dict[str, Callable[[], Any]], repeat: int = 20, inner: int = 5, warm_up: int = 2
) -> dict[str, tuple[float, float]]:
    """Times contenders on the current stream, one after the other and again, with the GPU's clock: the median
    of the microseconds of a call, and the spread of the middle half as a part of that. Within a sample there
    are `inner` calls, so that the GPU need not wait for the host. One that fails is left out, with a note."""
    if FAKE:
        repeat, inner, warm_up = 2, 1, 0
    living = dict(contenders)
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm_up + repeat):
        for name, call in list(living.items()):
            try:
                if hvd.size() > 1:
                    hvd.barrier()  # who comes late is nobody's fault
                begin = Mark()
                for _ in range(inner):
                    call()
                end = Mark()
                finish()
            except Exception as error:
                say("NOTE", text=f"{name}: {type(error).__name__}: {error}"[:400])
                del living[name]
                continue
            if turn >= warm_up:
                samples[name].append(begin.microseconds_to(end) / inner)
    return {name: summary(taken) for name, taken in samples.items() if taken}


def summary(samples: list[float]) -> tuple[float, float]:
    """The median, and the spread of the middle half as a part of it."""
    ordered = sorted(samples)
    median = statistics.median(ordered)
    half = ordered[len(ordered) * 3 // 4] - ordered[len(ordered) // 4]
    return median, half / median if median else 0.0
