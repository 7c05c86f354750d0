# SPDX-License-Identifier: Apache-2.0
"""G1 and G2: how fast gradients are packed and unpacked, cast and scaled on the way, against the rate of a
plain copy by the multiprocessors and against other ways to do it, all on one stream, in turn, in one process.

    pack_times.py libgpu_times.so peer_kernels.fatbin"""

import contextlib
import ctypes
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import gpu
import torch
from gpu import DEVICE, check, figure
from models import MODELS, gradients

DTYPES = {torch.float16: 5, torch.bfloat16: 6, torch.float32: 7}  # as hora/dtype.h numbers them
LINE = 64
CACHE = 128 << 20  # bytes: more than any GPU's cache of the second level
COPIED = 512 << 20
AIM = {"ResNet-50": 0.85}
COMPACT = gpu.FAKE


class Library:
    """libgpu_times.so."""

    def __init__(self, path: str, kernels: str) -> None:
        self._library = ctypes.CDLL(path)
        for name, result in {
            "times_error": ctypes.c_char_p,
            "times_open": ctypes.c_void_p,
            "times_stream": ctypes.c_void_p,
            "times_moves": ctypes.c_void_p,
        }.items():
            getattr(self._library, name).restype = result
        self._times = ctypes.c_void_p(self._library.times_open(0, kernels.encode()))
        if not self._times.value:
            raise RuntimeError(self._library.times_error().decode())
        stream = self._library.times_stream(self._times)
        self.stream = None if gpu.FAKE else torch.cuda.ExternalStream(stream)

    def moves(self, to: list[torch.Tensor], sources: list[torch.Tensor]) -> ctypes.c_void_p:
        count = len(to)
        addresses = ctypes.c_void_p * count
        return ctypes.c_void_p(
            self._library.times_moves(
                ctypes.c_size_t(count),
                addresses(*[tensor.data_ptr() for tensor in to]),
                addresses(*[tensor.data_ptr() for tensor in sources]),
                (ctypes.c_size_t * count)(*[tensor.numel() for tensor in to]),
            )
        )

    def _call(self, name: str, *arguments: Any) -> None:
        if not getattr(self._library, name)(self._times, *arguments):
            raise RuntimeError(self._library.times_error().decode())

    def move(self, moves: ctypes.c_void_p, to: torch.dtype, source: torch.dtype, factor: float = 1.0) -> None:
        self._call("times_move", moves, DTYPES[to], DTYPES[source], ctypes.c_double(factor))

    def copy_each(self, moves: ctypes.c_void_p, size: int) -> None:
        self._call("times_copy_each", moves, ctypes.c_size_t(size))

    def fixed_blocks(self, moves: ctypes.c_void_p, size: int) -> None:
        self._call("times_fixed_blocks", moves, ctypes.c_size_t(size))

    def finish(self) -> None:
        self._call("times_finish")

    def copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        self._call(
            "times_copy",
            ctypes.c_void_p(to.data_ptr()),
            ctypes.c_void_p(source.data_ptr()),
            ctypes.c_size_t(source.nbytes),
        )


def random(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(count, device=DEVICE).to(dtype)


def places(flat: torch.Tensor, counts: list[int]) -> list[torch.Tensor]:
    """One behind the other in one piece of memory, each at the begin of a cache line."""
    found, begin, line = [], 0, LINE // flat.element_size()
    for count in counts:
        found.append(flat[begin : begin + count])
        begin += (count + line - 1) // line * line
    return found


def room(counts: list[int], dtype: torch.dtype) -> torch.Tensor:
    line = LINE // dtype.itemsize
    return torch.full(
        (sum((count + line - 1) // line * line for count in counts),),
        float("nan"),
        dtype=dtype,
        device=DEVICE,
    )


class Set:
    """A model's gradients, and where they are packed to; poisoned."""

    def __init__(self, library: Library, counts: list[int]) -> None:
        self.gradients = [random(count) for count in counts]
        self.flat = room(counts, torch.float32)
        self.packed = places(self.flat, counts)
        self.back = [torch.full_like(gradient, float("nan")) for gradient in self.gradients]
        self.into = library.moves(self.packed, self.gradients)
        self.out_of = library.moves(self.back, self.packed)
        self.dense = torch.full((sum(counts),), float("nan"), device=DEVICE)
        self.wires = {}
        for dtype in (torch.float16, torch.bfloat16):
            wire = room(counts, dtype)
            packed = places(wire, counts)
            cast = [torch.empty(count, dtype=dtype, device=DEVICE) for count in counts]
            self.wires[dtype] = Wire(
                wire,
                packed,
                cast,
                library.moves(packed, self.gradients),
                library.moves(self.back, packed),
                library.moves(packed, cast),
                library.moves(cast, packed),
            )


class Wire:
    """A set's way to 16 bits and back, in one pass each way, or in two."""

    def __init__(
        self,
        flat: torch.Tensor,
        packed: list[torch.Tensor],
        cast: list[torch.Tensor],
        *moves: ctypes.c_void_p,
    ) -> None:
        self.flat, self.packed, self.cast = flat, packed, cast
        self.into, self.out_of, self.pack_cast, self.unpack_cast = moves


def rotating(sets: list[Set], call: Callable[[Set], Any]) -> Callable[[], Any]:
    """Another set each time, so that none is still in the cache."""
    turn = iter(range(1 << 30))
    return lambda: call(sets[next(turn) % len(sets)])


def copy_rate(library: Library) -> float:
    """Bytes per microsecond, read and written, of a plain copy."""
    count = COPIED // 4 if not COMPACT else 1 << 16
    sources, targets = (
        [random(count) for _ in range(2)],
        [torch.empty(count, device=DEVICE) for _ in range(2)],
    )
    turn = iter(range(1 << 30))

    def plain() -> None:
        i = next(turn) % 2
        library.copy(targets[i], sources[i])

    taken = gpu.in_turn({"plain copy kernel": plain, "torch copy_": lambda: targets[0].copy_(sources[0])})
    if "plain copy kernel" in taken:
        check(
            "the plain copy copies",
            torch.equal(targets[0], sources[0]) and torch.equal(targets[1], sources[1]),
        )
    rates = {name: 2 * 4 * count / time for name, (time, _) in taken.items()}
    for name, rate in rates.items():
        figure(f"copy rate, {name}", rate / 1e3, "GB/s", spread=taken[name][1])
    return max(rates.values())


def report(
    name: str,
    taken: dict[str, tuple[float, float]],
    moved: float,
    rate: float,
    aim: float,
    of_peer: float = 1.0,
) -> None:
    """`moved`: the bytes that have to be, in microseconds at the copy's rate."""
    peers = {peer: time for peer, (time, _) in taken.items() if peer != "Hora"}
    if "Hora" not in taken:
        return
    time, spread = taken["Hora"]
    best = min(peers, key=lambda peer: peers[peer]) if peers else None
    others = ", ".join(f"{peer} {moved / value / 1e3:.0f}" for peer, value in peers.items())
    more = {"peer": moved / peers[best] / 1e3, "peer_is": best, "of_peer": of_peer} if best else {}
    figure(
        name,
        moved / time / 1e3,
        "GB/s",
        spread=spread,
        limit=rate / 1e3,
        limit_is="SM copy",
        of_limit=aim,
        note=f"{time:.1f} us; {others}",
        **more,
    )


def pack(model: str, sets: list[Set], library: Library, rate: float) -> None:
    """G1."""
    moved = 2 * 4 * sum(gradient.numel() for gradient in sets[0].gradients)
    f32 = torch.float32
    contenders = {
        "Hora": rotating(sets, lambda s: library.move(s.into, f32, f32)),
        "_foreach_copy_": rotating(sets, lambda s: torch._foreach_copy_(s.packed, s.gradients)),
        "cat": rotating(sets, lambda s: torch.cat(s.gradients, out=s.dense)),
        "8 blocks each": rotating(sets, lambda s: library.fixed_blocks(s.into, 4)),
        "memcpy each": rotating(sets, lambda s: library.copy_each(s.into, 4)),
    }
    taken = gpu.in_turn(contenders, repeat=12, inner=4)
    report(f"G1 pack {model}", taken, moved, rate, AIM.get(model, 0.90))
    unpacked = gpu.in_turn(
        {"Hora": rotating(sets, lambda s: library.move(s.out_of, f32, f32))}, repeat=12, inner=4
    )
    report(f"G1 unpack {model}", unpacked, moved, rate, AIM.get(model, 0.90))
    for each in sets:
        for tensor in (each.flat, *each.back):
            tensor.fill_(float("nan"))
        library.move(each.into, f32, f32)
        library.move(each.out_of, f32, f32)
    library.finish()
    check(
        f"packed and unpacked gradients of {model} are the same",
        all(torch.equal(a, b) for s in sets for a, b in zip(s.back, s.gradients, strict=True)),
    )


def cast(model: str, dtype: torch.dtype, sets: list[Set], library: Library, rate: float) -> None:
    """G2: to 16 bits with a factor, and back."""
    f32, factor = torch.float32, 0.5

    def one_pass(s: Set) -> None:
        wire = s.wires[dtype]
        library.move(wire.into, dtype, f32, factor)
        library.move(wire.out_of, f32, dtype)

    def apart(s: Set) -> None:
        wire = s.wires[dtype]
        torch._foreach_copy_(wire.cast, s.gradients)
        library.fixed_blocks(wire.pack_cast, 2)  # which may as well multiply: that costs nothing
        library.fixed_blocks(wire.unpack_cast, 2)
        torch._foreach_copy_(s.back, wire.cast)

    def foreach(s: Set) -> None:
        wire = s.wires[dtype]
        torch._foreach_copy_(wire.packed, s.gradients)
        torch._foreach_copy_(s.back, wire.packed)

    moved = 3 * 4 * sum(gradient.numel() for gradient in sets[0].gradients)
    taken = gpu.in_turn(
        {"Hora": rotating(sets, one_pass), "cast and pack apart": rotating(sets, apart)}, repeat=12, inner=3
    )
    report(
        f"G2 {str(dtype).removeprefix('torch.')} round trip {model}", taken, moved, rate, 0.88, of_peer=1.5
    )
    also = gpu.in_turn({"_foreach_copy_ both ways": rotating(sets, foreach)}, repeat=6, inner=3)
    for name, (time, spread) in also.items():
        figure(
            f"G2 {name}, without a factor, {str(dtype).removeprefix('torch.')} {model}",
            moved / time / 1e3,
            "GB/s",
            spread=spread,
        )
    for each in sets:
        for tensor in each.back:
            tensor.fill_(float("nan"))
        one_pass(each)
    library.finish()
    good = all(
        torch.equal(a, (b * factor).to(dtype).float())
        for s in sets
        for a, b in zip(s.back, s.gradients, strict=True)
    )
    check(f"the {dtype} round trip of {model} is right", good)


def main() -> None:
    gpu.start()
    library = Library(sys.argv[1], str(pathlib.Path(sys.argv[2]).resolve()))
    torch.seed()  # other data each time
    with contextlib.nullcontext() if gpu.FAKE else torch.cuda.stream(library.stream):
        rate = copy_rate(library)
        for model in MODELS:
            counts = (
                gradients(model) if not COMPACT else [max(1, count // 20_000) for count in gradients(model)]
            )
            sets = [Set(library, counts) for _ in range(max(2, min(4, CACHE // (4 * sum(counts)) + 1)))]
            gpu.finish()
            gpu.attempt(f"G1 {model}", lambda model=model, sets=sets: pack(model, sets, library, rate))
            for dtype in (torch.float16, torch.bfloat16):
                gpu.attempt(
                    f"G2 {model}",
                    lambda model=model, sets=sets, dtype=dtype: cast(model, dtype, sets, library, rate),
                )
            del sets
            if not gpu.FAKE:
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
