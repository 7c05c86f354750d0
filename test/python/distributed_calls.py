# SPDX-License-Identifier: Apache-2.0
"""Calls of torch.distributed, right and wrong ones: each rank prints "RANK NAME OUTCOME", one line for each.

python distributed_calls.py BACKEND            all calls, on each rank that a launcher starts

An outcome is the list of all outputs, or the built-in classes of the error. Numbers are small and whole, so that
every order of a sum gives the same.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hora.torch.distributed  # noqa: F401
import torch
import torch.distributed as dist

INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SHAPES = ((), (0,), (1,), (5,), (2, 3), (3, 0, 2))
Op = dist.ReduceOp
Call = Callable[[], Any]


def own(shape: tuple[int, ...] = (4,), dtype: torch.dtype = torch.float32, plus: int = 0) -> torch.Tensor:
    """Numbers from 1 to 6 that tell the rank."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    return ((torch.arange(math.prod(shape)) + rank) % 3 + 1 + plus).reshape(shape).to(dtype)


def empty(count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.full(shape, -1, dtype=torch.int16).to(dtype) for _ in range(count)]


def after(call: Call, *outputs: Any) -> Any:
    """The outputs when the call has ended."""
    work = call()
    if work is not None:
        work.wait()
    return outputs


def in_place(collective: Callable[[torch.Tensor], Any], tensor: torch.Tensor) -> Any:
    return after(lambda: collective(tensor), tensor)


def reductions() -> Iterator[tuple[str, Call]]:
    arithmetic = (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX)
    pairs = itertools.chain(
        itertools.product((*INTEGERS, *FLOATS), arithmetic),
        itertools.product(INTEGERS, (Op.BAND, Op.BOR, Op.BXOR)),
    )
    for dtype, op in pairs:
        yield (
            f"all_reduce-{dtype}-{op}",
            lambda d=dtype, o=op: in_place(lambda t: dist.all_reduce(t, op=o), own(dtype=d)),
        )
    for op in arithmetic:
        yield f"reduce_scatter_tensor-{op}", lambda o=op: scattered(o)
        yield f"reduce-{op}", lambda o=op: to_root(o)


def scattered(op: Any) -> Any:
    (output,) = empty(1, 2, 3)
    return after(
        lambda: dist.reduce_scatter_tensor(output, own((2 * dist.get_world_size(), 3)), op=op), output
    )


def to_root(op: Any) -> Any:
    tensor = own()
    dist.reduce(tensor, 1, op=op)
    return tensor if dist.get_rank() == 1 else None  # others may have anything


def shapes() -> Iterator[tuple[str, Call]]:
    for shape in SHAPES:
        yield f"all_reduce-{shape}", lambda s=shape: in_place(dist.all_reduce, own(s))
        yield f"broadcast-{shape}", lambda s=shape: in_place(lambda t: dist.broadcast(t, 1), own(s))
        yield f"all_gather-{shape}", lambda s=shape: gathered(s)
        yield f"gather-{shape}", lambda s=shape: gathered_by_root(s)
        yield f"scatter-{shape}", lambda s=shape: from_root(s)
        yield f"messages-{shape}", lambda s=shape: passed_on(s)
    for dtype in (*INTEGERS, *FLOATS, torch.bool):
        yield (
            f"broadcast-{dtype}",
            lambda d=dtype: in_place(lambda t: dist.broadcast(t, 0), own(dtype=d, plus=-1)),
        )
        yield f"all_gather-{dtype}", lambda d=dtype: gathered((3,), d)


def gathered(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Any:
    outputs = empty(dist.get_world_size(), *shape, dtype=dtype)
    return after(lambda: dist.all_gather(outputs, own(shape, dtype)), outputs)


def gathered_by_root(shape: tuple[int, ...]) -> Any:
    outputs = empty(dist.get_world_size(), *shape) if dist.get_rank() == 1 else None
    return after(lambda: dist.gather(own(shape), outputs, dst=1), outputs)


def from_root(shape: tuple[int, ...]) -> Any:
    (output,) = empty(1, *shape)
    size = dist.get_world_size()
    parts = [own(shape, plus=part) for part in range(size)] if dist.get_rank() == 1 else None
    return after(lambda: dist.scatter(output, parts, src=1), output)


def passed_on(shape: tuple[int, ...]) -> Any:
    """Each rank's tensor goes to the next rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    (output,) = empty(1, *shape)
    works = [dist.isend(own(shape), (rank + 1) % size), dist.irecv(output, (rank - 1) % size)]
    for work in works:
        work.wait()
    return output


def others() -> Iterator[tuple[str, Call]]:
    yield "all_gather_into_tensor", lambda: whole_of((4,), 4)
    yield "all_gather_into_tensor-stacked", lambda: whole_of((4,), None)
    yield "all_to_all_single", exchanged
    yield "all_to_all_single-uneven", exchanged_unevenly
    yield "all_gather-uneven", gathered_unevenly
    yield "all_gather_object", all_objects
    yield (
        "broadcast_object_list",
        lambda: in_place(
            lambda objects: dist.broadcast_object_list(objects, 1), [dist.get_rank(), {"a": None}]
        ),
    )
    yield "gather_object", root_objects
    yield "scatter_object_list", scattered_objects
    yield "barrier", lambda: after(dist.barrier)
    yield "all_reduce-async", lambda: in_place(lambda t: dist.all_reduce(t, async_op=True), own())
    yield "all_reduce-complex", lambda: in_place(dist.all_reduce, own() * (1 + 2j))
    yield "all_reduce_coalesced", coalesced
    yield "all_gather_coalesced", gathered_coalesced
    yield "new_group", in_groups
    yield "not_in_group", lambda: dist.all_reduce(own(), group=dist.GroupMember.NON_GROUP_MEMBER)
    yield "ranks", lambda: [dist.get_rank(), dist.get_world_size(), dist.get_process_group_ranks(None)]
    yield (
        "functional",
        lambda: torch.ops._c10d_functional.wait_tensor(
            torch.ops._c10d_functional.all_reduce(own(), "sum", dist.group.WORLD.group_name)
        ),
    )


def whole_of(shape: tuple[int, ...], rows: int | None) -> Any:
    size = dist.get_world_size()
    (output,) = empty(1, size, *shape) if rows is None else empty(1, size * rows)
    return after(lambda: dist.all_gather_into_tensor(output, own(shape)), output)


def exchanged() -> Any:
    output = torch.zeros(dist.get_world_size(), 3)
    return after(lambda: dist.all_to_all_single(output, own((dist.get_world_size(), 3))), output)


def exchanged_unevenly() -> Any:
    """Each rank sends one row to rank 0, two to rank 1, ..."""
    size = dist.get_world_size()
    splits = [to + 1 for to in range(size)]
    received = [dist.get_rank() + 1] * size
    output = torch.zeros(sum(received), 2)
    return after(lambda: dist.all_to_all_single(output, own((sum(splits), 2)), received, splits), output)


def gathered_unevenly() -> Any:
    size = dist.get_world_size()
    outputs = [torch.zeros(each + 1) for each in range(size)]
    return after(lambda: dist.all_gather(outputs, own((dist.get_rank() + 1,))), outputs)


def all_objects() -> Any:
    objects = [None] * dist.get_world_size()
    return after(lambda: dist.all_gather_object(objects, {"rank": dist.get_rank()}), objects)


def root_objects() -> Any:
    objects = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    return after(lambda: dist.gather_object("r" * dist.get_rank(), objects, dst=0), objects)


def scattered_objects() -> Any:
    output = [None]
    objects = list(range(dist.get_world_size())) if dist.get_rank() == 0 else None
    return after(lambda: dist.scatter_object_list(output, objects, src=0), output)


def coalesced() -> Any:
    tensors = [own((2,)), own((3, 2), plus=1)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    return tensors


def is_root() -> bool:
    return dist.get_rank() == 1


def gathered_coalesced() -> Any:
    """Three tensors of each rank; the lists are one for each rank."""
    shapes = [(2,), (3, 2), ()]
    outputs = [[torch.zeros(shape) for shape in shapes] for _ in range(dist.get_world_size())]
    given = [own(shape, plus=number) for number, shape in enumerate(shapes)]
    return after(lambda: dist.all_gather_coalesced(outputs, given), outputs)


def in_groups() -> Any:
    groups = [dist.new_group([0, 1]), dist.new_group([dist.get_world_size() - 1])]
    tensor = own()
    for group in groups:
        if dist.get_rank(group) >= 0:
            dist.all_reduce(tensor, group=group)
    return tensor, [dist.get_rank(group) for group in groups]


def wrong() -> Iterator[tuple[str, Call]]:
    """Mistakes that a rank sees by itself: no rank waits for another."""
    size = dist.get_world_size() if dist.is_initialized() else 0
    yield "no_tensor", lambda: dist.all_reduce([1.0])
    yield "no_such_op", lambda: dist.all_reduce(own(), op="sum")
    yield "no_such_root", lambda: dist.broadcast(own(), size + 7)
    yield "max_of_complex_numbers", lambda: dist.all_reduce(own() * 1j, op=Op.MAX)
    yield "bits_of_floats", lambda: dist.all_reduce(own(), op=Op.BAND)
    yield "list_too_short", lambda: dist.all_gather(empty(size - 1, 4), own())
    yield "list_too_long", lambda: dist.all_gather(empty(size + 1, 4), own())
    yield "list_of_another_dtype", lambda: dist.all_gather(empty(size, 4, dtype=torch.float64), own())
    yield "whole_too_small", lambda: dist.all_gather_into_tensor(torch.zeros(4 * size - 1), own())
    yield "whole_of_another_dtype", lambda: dist.all_gather_into_tensor(torch.zeros(4 * size).double(), own())
    yield "part_too_small", lambda: dist.reduce_scatter_tensor(torch.zeros(1), own((4 * size,)))
    yield (
        "part_of_another_dtype",
        lambda: dist.reduce_scatter_tensor(torch.zeros(4).double(), own((4 * size,))),
    )
    yield "part_of_too_few", lambda: dist.reduce_scatter(torch.zeros(4), [own()] * (size - 1))
    yield "too_few_to_exchange", lambda: dist.all_to_all(empty(size, 4), [own()] * (size - 1))
    yield "too_few_to_receive", lambda: dist.all_to_all(empty(size - 1, 4), [own()] * size)
    yield "too_few_to_scatter", lambda: dist.scatter(own(), [own()] * (size - 1), src=dist.get_rank())
    yield "too_few_to_gather", lambda: dist.gather(own(), empty(size - 1, 4), dst=dist.get_rank())
    yield "small_list", lambda: dist.all_gather(empty(size, 3), own())
    yield "small_part", lambda: dist.scatter(torch.zeros(3), [own()] * size if is_root() else None, src=1)
    yield "small_parts_to_receive", lambda: dist.all_to_all(empty(size, 3), [own()] * size)
    yield "large_list", lambda: dist.all_gather(empty(size, 5), own())
    yield "root_below_0", lambda: dist.broadcast(own(), -1)
    yield "splits_too_few", lambda: dist.all_to_all_single(torch.zeros(4), own(), [4], [4] * (size + 1))
    yield "splits_of_no_sum", lambda: dist.all_to_all_single(torch.zeros(size), own((size,)), [3] * size)
    yield "rows_that_do_not_divide", lambda: dist.all_to_all_single(torch.zeros(size + 1), own((size + 1,)))
    yield "message_to_itself", lambda: dist.send(own(), dist.get_rank())
    yield "message_to_nobody", lambda: dist.send(own(), size)
    yield "message_from_nobody", lambda: dist.recv(own(), size)
    yield "parts_of_another", lambda: dist.scatter(own(), [own()] * size, src=(dist.get_rank() + 1) % size)
    yield "no_parts", lambda: dist.scatter(own(), None, src=dist.get_rank())
    yield "list_of_another", lambda: dist.gather(own(), empty(size, 4), dst=(dist.get_rank() + 1) % size)
    yield "no_list", lambda: dist.gather(own(), None, dst=dist.get_rank())
    yield "group_of_strangers", lambda: dist.new_group([0, size + 3])
    yield "sparse", lambda: dist.broadcast(own().to_sparse(), 0)
    yield "empty_list", lambda: dist.all_gather([], own())
    yield "meta", lambda: dist.all_reduce(own().to("meta"))


def plain(value: Any) -> Any:
    """Tensors as lists."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def outcome(call: Call) -> str:
    try:
        return str(plain(call()))
    except Exception as error:
        return "error " + " ".join(
            each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins"
        )


def named(*tables: Callable[[], Iterator[tuple[str, Call]]]) -> list[tuple[str, Call]]:
    """The rows of tables, with names of one word."""
    return [(name.replace(" ", ""), call) for make in tables for name, call in make()]


WRONG = [name for name, _ in named(wrong)]


def main() -> None:
    dist.init_process_group(sys.argv[1])
    # Gloo waits for ever in some of the wrong ones.
    for name, call in named(reductions, shapes, others, *([wrong] if sys.argv[1] == "hora" else [])):
        sys.stdout.write(f"{dist.get_rank()} {name} {outcome(call)}\n")
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
