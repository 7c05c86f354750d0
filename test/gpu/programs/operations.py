# SPDX-License-Identifier: Apache-2.0
"""Every operation on tensors of the GPU, against what the same operation gives on the CPU. Elements are small
whole numbers, so that results are exact whatever the order of additions; what NCCL is known to round
differently has checks of its own."""

from collections.abc import Callable
from typing import Any

import gpu
import hora
import torch
from gpu import DEVICE, checking, hvd, on_cpu

DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
]


def whole_numbers(shape: tuple[int, ...], dtype: torch.dtype, rank: int) -> torch.Tensor:
    """On the CPU."""
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randint(0, 2 if dtype == torch.bool else 4, shape, generator=generator).to(dtype)


def same(there: Any, here: Any) -> None:
    """That results on GPU and CPU are equal."""
    there, here = (
        [result] if isinstance(result, torch.Tensor) or result is None else list(result)
        for result in (there, here)
    )
    assert len(there) == len(here), f"{len(there)} results, not {len(here)}"
    for a, b in zip(there, here, strict=True):
        assert (a is None) == (b is None), f"{a} and {b}"
        if a is not None:
            assert a.dtype == b.dtype and a.shape == b.shape, (
                f"{a.dtype}{tuple(a.shape)} and {b.dtype}{tuple(b.shape)}"
            )
            assert gpu.FAKE or a.device == DEVICE or not a.is_floating_point(), f"the result is on {a.device}"
            assert torch.equal(a.cpu(), b), (
                f"{a.cpu().flatten()[:6].tolist()}, not {b.flatten()[:6].tolist()}"
            )


def compare(operation: Callable[..., Any], tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> None:
    there = operation(tensor.to(DEVICE), *arguments, **keywords)
    with on_cpu():
        here = operation(tensor, *arguments, **keywords)
    same(there, here)


def operations(dtype: torch.dtype, rank: int, size: int) -> None:
    x = whole_numbers((12, 5), dtype, rank)
    ops = [hvd.Sum, hvd.Min, hvd.Max, hvd.Product] + (
        [hvd.Average] if dtype.is_floating_point and size in (2, 4) else []
    )
    for op in ops:
        compare(hvd.allreduce, x, op=op)
        compare(hvd.allreduce, x.t(), op=op)
        compare(hvd.allreduce, x.reshape(-1)[:0], op=op)
    compare(hvd.broadcast, x, size - 1)
    compare(hvd.allgather, x[: 2 + rank])
    compare(hvd.allgather, x[:0])
    compare(hvd.alltoall, x)
    compare(hvd.alltoall, x, [1 + rank] + [1] * (size - 1))
    compare(hvd.reducescatter, x[: size + 3], op=hvd.Sum)
    compare(hvd.gather, x[: 1 + rank], size - 1)
    compare(hvd.scatter, x, 0)
    compare(hvd.reduce, x, 0, hvd.Sum)
    compare(hvd.scan, x)


def large(rank: int) -> None:
    """Several batches, of which each fills the fusion buffer, and what does not fit."""
    shapes = [(3,), (1000, 7), (1 << 20,), (5, 5), (9 << 20,) if not gpu.FAKE else (9 << 14,), (17,)]
    tensors = [whole_numbers(shape, torch.float32, rank) for shape in shapes]
    handles = [
        hvd.allreduce_async(tensor.to(DEVICE), op=hvd.Sum, name=f"large{i}")
        for i, tensor in enumerate(tensors)
    ]
    there = [hvd.synchronize(handle) for handle in handles]
    with on_cpu():
        same(there, hvd.grouped_allreduce(tensors, op=hvd.Sum, name="grouped"))
    same(
        hvd.grouped_allreduce([tensor.to(DEVICE) for tensor in tensors], op=hvd.Sum, name="grouped"),
        [result.cpu() for result in there],
    )


def compressed(rank: int, size: int) -> None:
    x = whole_numbers((5000,), torch.float32, rank)
    kinds = hvd.Compression
    for compression in (kinds.fp16, kinds.bf16, kinds.mxfp8_e4m3, kinds.mxfp8_e5m2):
        for operation in (hvd.allreduce, hvd.reducescatter):
            compare(operation, x, op=hvd.Sum, compression=compression)
    compare(hvd.allreduce, x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)


def side_by_side(rank: int, size: int) -> None:
    """Tensors on CPU and GPU in one run, under way together."""
    handles = []
    for i in range(30):
        value = torch.full((100 + i,), float(i + rank))
        if i % 2:
            with on_cpu():
                handles.append(hvd.allreduce_async(value, op=hvd.Sum, name=f"mixed{i}"))
        else:
            handles.append(hvd.allreduce_async(value.to(DEVICE), op=hvd.Sum, name=f"mixed{i}"))
    for i, handle in enumerate(handles):
        result = hvd.synchronize(handle)
        assert torch.equal(result.cpu(), torch.full((100 + i,), float(size * i + sum(range(size))))), (
            f"tensor {i}"
        )


def process_sets(rank: int, size: int) -> None:
    first = hvd.add_process_set(list(range(size // 2)))
    last = hvd.add_process_set([size - 1])
    for members in (first, last):
        if members.included():
            x = whole_numbers((1000,), torch.float32, rank)
            compare(hvd.allreduce, x, op=hvd.Sum, process_set=members)
            compare(hvd.allgather, x, process_set=members)
    same(hvd.allreduce(torch.ones(3, device=DEVICE), op=hvd.Sum, name="all"), torch.full((3,), float(size)))
    hvd.remove_process_set(first)
    hvd.remove_process_set(last)


def symmetric_tensors(rank: int, size: int) -> None:
    """Tensors that lie in memory of Hora's, as gradients do: reduced where they lie."""
    from hora import _job
    from hora.torch._ops import devices

    memory = _job.runtime().allocate(1 << 20, gpu.GPU)
    tensors = [devices.tensor_in(memory, torch.float32, 1000, begin) for begin in (0, 4032, 8064)]
    for step in range(3):
        for i, tensor in enumerate(tensors):
            tensor.fill_(float(i + rank + step))
        handles = [
            hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"symmetric{i}") for i, tensor in enumerate(tensors)
        ]
        for i, handle in enumerate(handles):
            result = hvd.synchronize(handle)
            expected = float(size * (i + step) + sum(range(size)))
            assert result.data_ptr() == tensors[i].data_ptr() and torch.equal(
                result.cpu(), torch.full((1000,), expected)
            ), f"{i}: {result[:3]}"


def streams(rank: int, size: int) -> None:
    """That Hora waits for the stream on which its input is made, and the stream that waits for its output."""
    if gpu.FAKE:
        return
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    for step in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)  # about a millisecond, before the input is there
            x = torch.full((300_000,), float(step + rank), device=DEVICE)
            handle = hvd.allreduce_async(x, op=hvd.Sum, name=f"stream{step % 2}")
        with torch.cuda.stream(other):
            result = hvd.synchronize(handle) * 2
        other.synchronize()
        assert torch.equal(result.cpu(), torch.full((300_000,), 2.0 * (size * step + sum(range(size))))), (
            f"step {step}"
        )


def wrong_devices() -> None:
    """A device that is out of range is refused with a sentence."""
    import hora._native as native
    from hora import _job

    x = torch.ones(4, device=DEVICE)
    entry = native.Entry(
        native.Operation.allreduce,
        "nowhere",
        native.DType.float32,
        [4],
        input=x.data_ptr(),
        output=x.data_ptr(),
        device=99,
        stream=0,
    )
    try:
        _job.runtime().submit(entry).wait()
    except hora.HoraError as error:
        assert "99" in str(error), str(error)
    else:
        raise AssertionError("cuda:99 was accepted")


def joined(rank: int, size: int) -> None:
    """Ranks that have no more batches. The last check: it ends with a join."""
    for step in range(2 + rank):
        there = [other for other in range(size) if step < 2 + other]
        result = hvd.allreduce(torch.full((1000,), 1.0, device=DEVICE), op=hvd.Sum, name=f"uneven{step}")
        assert torch.equal(result.cpu(), torch.full((1000,), float(len(there)))), (
            f"step {step}: {result[:3].tolist()}"
        )
    assert 0 <= hvd.join() < size


def main() -> None:
    gpu.start()
    rank, size = hvd.rank(), hvd.size()
    for dtype in DTYPES:
        with checking(f"all operations on {str(dtype).removeprefix('torch.')}, {size} ranks"):
            operations(dtype, rank, size)
    for name, call in {
        "batches larger than the fusion buffer": lambda: large(rank),
        "16-bit wire and factors": lambda: compressed(rank, size),
        "CPU and GPU side by side": lambda: side_by_side(rank, size),
        "process sets": lambda: process_sets(rank, size),
        "tensors in Hora's memory": lambda: symmetric_tensors(rank, size),
        "order between streams": lambda: streams(rank, size),
        "a GPU that is not there is refused": wrong_devices,
        "ranks that have joined": lambda: joined(rank, size),
    }.items():
        with checking(f"{name}, {size} ranks"):
            call()
    print(hvd.memory_report())
    hvd.shutdown()


if __name__ == "__main__":
    main()
