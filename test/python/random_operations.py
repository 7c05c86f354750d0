# SPDX-License-Identifier: Apache-2.0
"""Random operations, each against a straightforward NumPy computation: python random_operations.py <seed>
<rounds>.

Run it on any number of ranks. All draw the same operations. In each round every rank starts those that it
takes part in, in an order of its own, and waits for them in another one; so they are fused in all manners,
and process sets that overlap are in use at the same time. Numbers are small enough to be exact in every
dtype.
"""

import dataclasses
import random
import sys
from collections.abc import Callable
from typing import Any

import hora.torch as hvd
import numpy as np
import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LAYOUTS = ("contiguous", "transposed", "strided", "shifted", "negative")
Check = Callable[[], None]
Start = Callable[[], Check]


@dataclasses.dataclass
class Operation:
    """One operation, the same on all ranks, and the rank's own start of it."""

    text: str
    process_set: hvd.ProcessSet
    start: Start


class Draw:
    """The random choices of a round; equal on all ranks."""

    def __init__(self, seed: int, number: int, sets: list[hvd.ProcessSet]) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.process_set = sets[0]
        self.sets = sets

    def one_of(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self) -> bool:
        return bool(self.rng.integers(2))

    def shape(self, least: int = 0) -> tuple[int, ...]:
        if self.rng.integers(12) == 0:
            return (int(self.rng.integers(20000, 90000)),)
        return tuple(int(n) for n in self.rng.integers(0, 9, int(self.rng.integers(least, 5))))

    def dtype(self) -> torch.dtype:
        return self.one_of((*FLOATS, *INTEGERS, torch.bool))

    def numbers(self, dtype: torch.dtype, shape: tuple[int, ...], step: int = 1) -> np.ndarray:
        if dtype == torch.bool:
            return self.rng.integers(0, 2, shape)
        return step * self.rng.integers(0 if dtype == torch.uint8 else -2, 3, shape)


def laid_out(numbers: np.ndarray, dtype: torch.dtype, layout: str) -> torch.Tensor:
    """The numbers as a tensor whose memory looks as the layout says."""
    plain = torch.from_numpy(np.ascontiguousarray(numbers)).reshape(numbers.shape).to(dtype)
    if layout == "transposed":
        axes = list(reversed(range(plain.dim())))
        return plain.permute(axes).contiguous().permute(axes)
    if layout == "strided" and plain.dim() > 0:
        gaps = torch.full((*plain.shape[:-1], 2 * plain.shape[-1]), 1).to(dtype)
        gaps[..., ::2] = plain
        return gaps[..., ::2]
    if layout == "shifted":
        room = torch.full((plain.numel() + 3,), 1).to(dtype)
        room[3:] = plain.flatten()
        return room[3:].view(plain.shape)
    if layout == "negative" and dtype in (torch.float32, torch.float64):
        return torch.complex(torch.zeros_like(plain), -plain).conj().imag
    return plain


def expect(result: torch.Tensor, numbers: np.ndarray, dtype: torch.dtype) -> None:
    assert result.dtype == dtype, (result.dtype, dtype)
    assert tuple(result.shape) == numbers.shape, (result.shape, numbers.shape)
    assert np.array_equal(result.resolve_neg().to(torch.float64).numpy(), numbers.astype(np.float64)), (
        result,
        numbers,
    )


@dataclasses.dataclass
class Reduced:
    """A reduction of one tensor: the input of each member, and the result that all of them get."""

    dtype: torch.dtype
    inputs: list[np.ndarray]
    result: np.ndarray


def drawn_reduction(draw: Draw, op: int, prescale: float, postscale: float, least: int = 0) -> Reduced:
    size = draw.process_set.size() or 0
    dtype = draw.dtype()
    if dtype == torch.bool and (op == hvd.Average or (prescale, postscale) != (1, 1)):
        dtype = torch.int32
    step = 1 if dtype in INTEGERS or op != hvd.Average else 12  # divisible by all sizes
    shape = draw.shape(least)
    inputs = [draw.numbers(dtype, shape, step) for _ in range(size)]
    if dtype in (torch.uint8, torch.int8):
        inputs = [each // 2 for each in inputs]  # within the dtype's range, scaled and added up
    scaled = np.stack(inputs) * prescale
    whole = {
        hvd.Sum: scaled.sum,
        hvd.Average: scaled.sum,
        hvd.Min: scaled.min,
        hvd.Max: scaled.max,
        hvd.Product: scaled.prod,
    }[op](0)
    if dtype == torch.bool:
        whole = np.minimum(whole, 1)
    whole = whole * postscale / (size if op == hvd.Average else 1)
    return Reduced(dtype, inputs, np.trunc(whole) if dtype in INTEGERS else whole)


def drawn_factors(draw: Draw, op: int) -> dict[str, float]:
    if op == hvd.Product or draw.chance():
        return {"prescale_factor": 1.0, "postscale_factor": 1.0}
    return {"prescale_factor": float(draw.one_of((1, 2))), "postscale_factor": float(draw.one_of((1, 3)))}


def allreduce(draw: Draw, name: str) -> tuple[str, Start]:
    process_set = draw.process_set
    op = draw.one_of((hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product))
    factors = drawn_factors(draw, op)
    reduced = [drawn_reduction(draw, op, *factors.values()) for _ in range(int(draw.rng.integers(1, 5)))]
    layouts = [draw.one_of(LAYOUTS) for _ in reduced]
    grouped, in_place = len(reduced) > 1, draw.chance()
    compression = draw.one_of((hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16))

    def start() -> Check:
        tensors = [
            laid_out(each.inputs[process_set.rank() or 0], each.dtype, layout)
            for each, layout in zip(reduced, layouts, strict=True)
        ]
        keywords = {"name": name, "op": op, "process_set": process_set, "compression": compression, **factors}
        if grouped:
            handle = (hvd.grouped_allreduce_async_ if in_place else hvd.grouped_allreduce_async)(
                tensors, **keywords
            )
        else:
            handle = (hvd.allreduce_async_ if in_place else hvd.allreduce_async)(tensors[0], **keywords)

        def check() -> None:
            results = hvd.synchronize(handle)
            for number, result in enumerate(results if grouped else [results]):
                assert not in_place or result is tensors[number]
                expect(result, reduced[number].result, reduced[number].dtype)

        return check

    text = f"op {op} {factors} {compression.__name__} in place {in_place} {[(each.dtype, each.result.shape, layout) for each, layout in zip(reduced, layouts, strict=True)]}"
    return text, start


def reducescatter(draw: Draw, name: str) -> tuple[str, Start]:
    process_set = draw.process_set
    op = draw.one_of((hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product))
    factors = drawn_factors(draw, op)
    reduced = [
        drawn_reduction(draw, op, *factors.values(), least=1) for _ in range(int(draw.rng.integers(1, 4)))
    ]
    layout = draw.one_of(LAYOUTS)
    compression = draw.one_of((hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16))

    def start() -> Check:
        rank = process_set.rank() or 0
        tensors = [laid_out(each.inputs[rank], each.dtype, layout) for each in reduced]
        keywords = {"name": name, "op": op, "process_set": process_set, "compression": compression, **factors}
        grouped = len(reduced) > 1
        handle = (
            hvd.grouped_reducescatter_async(tensors, **keywords)
            if grouped
            else hvd.reducescatter_async(tensors[0], **keywords)
        )

        def check() -> None:
            results = hvd.synchronize(handle)
            for each, result in zip(reduced, results if grouped else [results], strict=True):
                expect(result, np.array_split(each.result, process_set.size() or 1)[rank], each.dtype)

        return check

    return (
        f"op {op} "
        f"{factors} {compression.__name__} {[(each.dtype, each.result.shape) for each in reduced]} {layout}",
        start,
    )


def allgather(draw: Draw, name: str) -> tuple[str, Start]:
    process_set = draw.process_set
    groups = []
    for _ in range(int(draw.rng.integers(1, 4))):
        dtype, rest = draw.dtype(), draw.shape(1)[1:]
        groups.append(
            (
                dtype,
                [
                    draw.numbers(dtype, (int(draw.rng.integers(0, 5)), *rest))
                    for _ in range(process_set.size() or 0)
                ],
            )
        )
    layout = draw.one_of(LAYOUTS)

    def start() -> Check:
        tensors = [laid_out(parts[process_set.rank() or 0], dtype, layout) for dtype, parts in groups]
        grouped = len(tensors) > 1
        handle = (
            hvd.grouped_allgather_async(tensors, name, process_set)
            if grouped
            else hvd.allgather_async(tensors[0], name, process_set)
        )

        def check() -> None:
            results = hvd.synchronize(handle)
            for (dtype, parts), result in zip(groups, results if grouped else [results], strict=True):
                expect(result, np.concatenate(parts), dtype)

        return check

    return f"{[(dtype, [part.shape for part in parts]) for dtype, parts in groups]} {layout}", start


def broadcast(draw: Draw, name: str) -> tuple[str, Start]:
    process_set = draw.process_set
    dtype, shape, layout, in_place = draw.dtype(), draw.shape(), draw.one_of(LAYOUTS), draw.chance()
    inputs = {rank: draw.numbers(dtype, shape) for rank in process_set.ranks or ()}
    root = draw.one_of(process_set.ranks)

    def start() -> Check:
        tensor = laid_out(inputs[hvd.rank()], dtype, layout)
        handle = (hvd.broadcast_async_ if in_place else hvd.broadcast_async)(tensor, root, name, process_set)

        def check() -> None:
            result = hvd.synchronize(handle)
            assert (result is tensor) == in_place
            expect(result, inputs[root], dtype)

        return check

    return f"{dtype} {shape} {layout} from {root} in place {in_place}", start


def alltoall(draw: Draw, name: str) -> tuple[str, Start]:
    process_set = draw.process_set
    size = process_set.size() or 0
    dtype, rest, layout, even = draw.dtype(), draw.shape(1)[1:], draw.one_of(LAYOUTS), draw.chance()
    counts = [
        [int(draw.rng.integers(0, 4))] * size if even else [int(n) for n in draw.rng.integers(0, 4, size)]
        for _ in range(size)
    ]
    inputs = [
        draw.numbers(dtype, (sum(row) + (0 if even else int(draw.rng.integers(0, 2))), *rest))
        for row in counts
    ]
    parts = [np.split(whole, np.cumsum(row))[:size] for whole, row in zip(inputs, counts, strict=True)]

    def start() -> Check:
        rank = process_set.rank() or 0
        splits = None if even else draw_kind(counts[rank])
        handle = hvd.alltoall_async(laid_out(inputs[rank], dtype, layout), splits, name, process_set)

        def check() -> None:
            result, received = hvd.synchronize(handle)
            expect(result, np.concatenate([parts[other][rank] for other in range(size)]), dtype)
            assert received.dtype == torch.int32 and received.tolist() == [row[rank] for row in counts]

        return check

    def draw_kind(row: list[int]) -> Any:
        return row if len(rest) % 2 else torch.tensor(row, dtype=torch.int32)

    return f"{dtype} {rest} {layout} splits {counts} even {even}", start


def sparse(draw: Draw, name: str) -> tuple[str, Start]:
    process_set = draw.process_set
    dtype, op = draw.one_of((torch.float32, torch.float64, torch.int64)), draw.one_of((hvd.Sum, hvd.Average))
    shape = (5, 3, *draw.one_of(((), (2,))))
    inputs = []
    for _ in process_set.ranks or ():
        places = draw.rng.integers(0, 3, (2, int(draw.rng.integers(0, 6))))
        inputs.append((places, draw.numbers(dtype, (places.shape[1], *shape[2:]), 12)))
    dense = np.zeros(shape)
    for places, values in inputs:
        np.add.at(dense, tuple(places), values)
    if op == hvd.Average:
        dense = dense / len(inputs)

    def start() -> Check:
        places, values = inputs[process_set.rank() or 0]
        tensor = torch.sparse_coo_tensor(
            torch.from_numpy(places), torch.from_numpy(values).to(dtype), shape, check_invariants=True
        )
        finish = hvd.sparse_allreduce_async(tensor, name, op, process_set)
        handle = hvd.allreduce_async(tensor, name=f"{name}.handle", op=op, process_set=process_set)

        def check() -> None:
            for result in (finish(), hvd.synchronize(handle)):
                assert result.is_sparse
                expect(result.to_dense(), dense, dtype)

        return check

    return f"{dtype} op {op}", start


def operations(draw: Draw) -> list[Operation]:
    made = []
    for number in range(int(draw.rng.integers(1, 12))):
        draw.process_set = draw.one_of(draw.sets)
        kind = draw.one_of((allreduce, allreduce, reducescatter, allgather, broadcast, alltoall, sparse))
        text, start = kind(draw, f"x{number}")
        made.append(
            Operation(f"{kind.__name__} 'x{number}' in {draw.process_set}: {text}", draw.process_set, start)
        )
    return made


def main() -> None:
    seed, rounds = int(sys.argv[1]), int(sys.argv[2])
    hvd.init()
    size = hvd.size()
    subsets = [
        ranks
        for ranks in ([0], [size - 1], [0, size - 1], list(range(1, size)))
        if 0 < len(set(ranks)) < size
    ]
    sets = [
        hvd.global_process_set,
        *(
            hvd.add_process_set(list(ranks))
            for ranks in sorted({tuple(sorted(set(ranks))) for ranks in subsets})
        ),
    ]
    own = random.Random(hvd.rank())
    for number in range(rounds):
        drawn = [each for each in operations(Draw(seed, number, sets)) if each.process_set.included()]
        text = ""
        try:
            own.shuffle(drawn)
            checks = []
            for each in drawn:
                text = f"start of {each.text}"
                checks.append((each.text, each.start()))
            own.shuffle(checks)
            for text, check in checks:  # noqa: B007 - told if the check fails
                check()
        except BaseException:
            print(f"seed {seed}, round {number}, rank {hvd.rank()}: {text}", file=sys.stderr, flush=True)
            raise
    print("good")


if __name__ == "__main__":
    main()
