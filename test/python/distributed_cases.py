# SPDX-License-Identifier: Apache-2.0
"""Operations of torch.distributed on Hora, case by case: each rank prints "NAME ok", or the error.

python distributed_cases.py            all cases, on each rank that a launcher starts
"""

import datetime
import sys
import traceback
from collections.abc import Callable

import hora.torch.distributed
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

OTHER_DTYPES = (
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.complex128),
    *(torch.uint16, torch.uint32, torch.uint64, torch.bfloat16, torch.bool),
)


def rank() -> int:
    return dist.get_rank()


def size() -> int:
    return dist.get_world_size()


def ranks() -> range:
    return range(size())


def own(count: int = 2) -> torch.Tensor:
    """This rank's number, `count` times."""
    return torch.full((count,), float(rank()))


def zeros(*counts: int) -> list[torch.Tensor]:
    return [torch.zeros(count) for count in counts]


def is_all(tensor: torch.Tensor, value: float) -> bool:
    return bool((tensor == value).all())


def reduces() -> None:
    tensor = own() + 1
    dist.all_reduce(tensor)
    assert is_all(tensor, sum(ranks()) + size())


def reduces_asynchronously() -> None:
    tensor = own()
    work = dist.all_reduce(tensor, op=dist.ReduceOp.AVG, async_op=True)
    assert work.get_future().wait()[0].data_ptr() == tensor.data_ptr()
    assert work.wait() and work.is_completed() and work.is_success()
    assert is_all(tensor, (size() - 1) / 2)


def gives_a_future_of_what_has_ended() -> None:
    tensor = own()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.get_future().wait()[0].data_ptr() == tensor.data_ptr()
    assert work.get_future().then(lambda done: done.value()[0][0].item()).wait() == sum(ranks())


def has_every_reduction() -> None:
    for op, expected in (
        (dist.ReduceOp.MIN, 1),
        (dist.ReduceOp.MAX, size()),
        (dist.ReduceOp.PRODUCT, torch.arange(1, size() + 1).prod().item()),
    ):
        tensor = own() + 1
        dist.all_reduce(tensor, op=op)
        assert is_all(tensor, expected), op
    for op, bits in ((dist.ReduceOp.BOR, 2 ** size() - 1), (dist.ReduceOp.BAND, 0)):
        number = torch.tensor([1 << rank()])
        dist.all_reduce(number, op=op)
        assert number.item() == bits, op
    halves = torch.ones(2)
    dist.all_reduce(halves, op=dist._make_nccl_premul_sum(0.5))
    assert is_all(halves, size() / 2)


def reduces_complex_numbers() -> None:
    tensor = torch.full((2,), 1 + 2j)
    dist.all_reduce(tensor)
    assert tensor[0].item() == size() * (1 + 2j)


def refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except (RuntimeError, ValueError):
        return True
    return False


def reduces_complex_numbers_to_ranks_and_refuses_what_has_no_sum() -> None:
    numbers = torch.full((size(), 2), 1 + 2j)
    part = torch.zeros(2, dtype=torch.complex64)
    dist.reduce_scatter_tensor(part, numbers)
    assert part.tolist() == [size() * (1 + 2j)] * 2
    dist.reduce_scatter(part, list(numbers), op=dist.ReduceOp.AVG)
    assert part.tolist() == [1 + 2j] * 2
    dist.reduce(numbers, 0)
    assert rank() != 0 or numbers[0, 0].item() == size() * (1 + 2j)
    unsigned = torch.full((size(),), 300).to(torch.uint16)
    dist.reduce_scatter_tensor(unsigned[:1], unsigned.clone())
    assert unsigned[0].item() == 300 * size()
    halves = numbers.to(torch.complex32)
    assert refuses(lambda: dist.reduce(halves, 0))
    assert refuses(lambda: dist.reduce_scatter_tensor(halves[0].clone(), halves))
    assert refuses(lambda: dist.reduce(numbers, 0, op=dist.ReduceOp.MAX))


def gathers() -> None:
    outputs = zeros(*[2] * size())
    dist.all_gather(outputs, own())
    assert all(is_all(output, number) for number, output in enumerate(outputs))
    whole = torch.zeros(2 * size())
    dist.all_gather_into_tensor(whole, own())
    assert torch.equal(whole, torch.cat(outputs))


def gathers_parts_that_lie_in_the_whole() -> None:
    whole = torch.zeros(2 * size())
    part = whole[2 * rank() : 2 * rank() + 2]
    part.fill_(rank() + 1)
    dist.all_gather_into_tensor(whole, part)
    assert whole.tolist() == [number + 1 for number in ranks() for _ in range(2)]


def gathers_into_strided_outputs() -> None:
    outputs = [torch.zeros(2, 4).t()[:, :1] for _ in ranks()]
    dist.all_gather(outputs, torch.full((4, 1), float(rank())))
    assert all(is_all(output, number) for number, output in enumerate(outputs))


def reduces_and_scatters() -> None:
    output = torch.zeros(2)
    dist.reduce_scatter_tensor(output, torch.arange(2.0 * size()))
    assert output.tolist() == [size() * (2.0 * rank() + place) for place in range(2)]
    uneven = torch.zeros(rank() + 1)
    dist.reduce_scatter(uneven, [torch.ones(number + 1) for number in ranks()])
    assert is_all(uneven, size())


def exchanges() -> None:
    output = torch.zeros(size())
    dist.all_to_all_single(output, torch.arange(float(size())) + 10 * rank())
    assert output.tolist() == [10.0 * number + rank() for number in ranks()]
    outputs = zeros(*(number + 1 for number in ranks()))
    dist.all_to_all(outputs, [own(rank() + 1) for _ in ranks()])
    assert all(is_all(each, number) for number, each in enumerate(outputs))
    rows = torch.full((sum(ranks()), 3), float(rank()))
    uneven = torch.zeros(rank() * size(), 3)
    dist.all_to_all_single(uneven, rows, [rank()] * size(), list(ranks()))
    assert uneven[:, 0].tolist() == [float(number) for number in ranks() for _ in range(rank())]


def refuses_splits_that_lose_rows() -> None:
    rows = torch.arange(size() + 1.0)
    assert refuses(lambda: dist.all_to_all_single(torch.zeros(size() + 1), rows))
    assert refuses(lambda: dist.all_to_all_single(torch.zeros(size()), rows[:-1], None, [0] * size()))


def has_roots() -> None:
    root = size() - 1
    tensor, there = own() + 1, torch.full((2,), float(rank() == root))
    dist.broadcast(there, root)
    assert is_all(there, 1)
    dist.reduce(tensor, root)
    assert rank() != root or is_all(tensor, size() * (size() + 1) / 2)
    gathered = zeros(*[2] * size()) if rank() == root else None
    dist.gather(own(), gathered, root)
    assert gathered is None or all(is_all(each, number) for number, each in enumerate(gathered))
    if hasattr(dist, "gather_single"):  # PyTorch 2.15
        whole = torch.zeros(2 * size())
        dist.gather_single(own(), whole, root)
        assert rank() != root or whole.tolist() == [float(number) for number in ranks() for _ in range(2)]
    part = torch.zeros(2)
    dist.scatter(part, [torch.full((2,), float(n)) for n in ranks()] if rank() == root else None, root)
    assert is_all(part, rank())


def moves_every_dtype() -> None:
    for dtype in OTHER_DTYPES:
        tensor = (torch.ones(4) * (rank() == 0)).to(dtype)
        dist.broadcast(tensor, 0)
        outputs = [torch.zeros(4).to(dtype) for _ in ranks()]
        dist.all_gather(outputs, tensor)
        ones = torch.ones(4).to(dtype).view(torch.uint8)
        assert all(torch.equal(each.view(torch.uint8), ones) for each in (tensor, *outputs)), dtype


def moves_scalars() -> None:
    scalar = torch.tensor(float(rank()))
    dist.broadcast(scalar, size() - 1)
    assert scalar.item() == size() - 1
    outputs = [torch.tensor(0.0) for _ in ranks()]
    dist.all_gather(outputs, torch.tensor(float(rank())))
    assert [each.item() for each in outputs] == list(ranks())


def moves_objects() -> None:
    everyone: list[object] = [None] * size()
    dist.all_gather_object(everyone, {"rank": rank()})
    assert everyone == [{"rank": number} for number in ranks()]
    listed = [{"from": 0}] if rank() == 0 else [None]
    dist.broadcast_object_list(listed, 0)
    assert listed == [{"from": 0}]
    gathered: list[object] | None = [None] * size() if rank() == 0 else None
    dist.gather_object(rank(), gathered, 0)
    assert gathered in (None, list(ranks()))
    one: list[object] = [None]
    dist.scatter_object_list(one, list(ranks()) if rank() == 0 else None, 0)
    assert one == [rank()]


def sends_messages() -> None:
    sent, received = own(3), torch.zeros(3)
    after, before = (rank() + 1) % size(), (rank() - 1) % size()
    operations = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert is_all(received, before)
    number = torch.zeros(1)
    if rank() == 0:
        assert dist.recv(number, tag=3) == 1
        assert number.item() == 7
    elif rank() == 1:
        dist.send(torch.tensor([7.0]), 0, tag=3)


def coalesces() -> None:
    tensors = [torch.ones(2) * number for number in range(3)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert [tensor[0].item() for tensor in tensors] == [0, size(), 2 * size()]
    sent, received = own(), torch.zeros(2)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.isend(sent, (rank() + 1) % size())
        dist.irecv(received, (rank() - 1) % size())
    manager.wait()
    assert is_all(received, (rank() - 1) % size())


def has_groups_of_their_members_alone() -> None:
    alone = [dist.new_group([number]) for number in ranks()][rank()]
    again = dist.new_group(list(ranks()))
    ends = dist.new_group([0, size() - 1])
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=alone)
    assert tensor.item() == 1
    if rank() in (0, size() - 1):
        dist.all_reduce(tensor, group=ends)
        dist.broadcast(tensor, size() - 1, group=ends)
        assert tensor.item() == 2
    else:
        tensor.fill_(2)
    dist.all_reduce(tensor, group=again)
    assert tensor.item() == 2 * size()
    dist.barrier(group=again)


def has_groups_that_overlap_made_by_their_members_alone() -> None:
    first, last = [0, 1], [size() - 2, size() - 1]
    made = [
        (members, dist.new_group(members, use_local_synchronization=True))
        for members in (first, last, first)
        if rank() in members
    ]
    for members, group in made:
        tensor = own()
        dist.all_reduce(tensor, group=group)
        assert is_all(tensor, sum(members))


def destroys_groups_and_makes_them_again() -> None:
    for _ in range(3):
        group = dist.new_group(list(ranks()))
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == size()
        dist.destroy_process_group(group)


def has_a_monitored_barrier() -> None:
    for _ in range(3):
        dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=60))


def runs_functional_collectives() -> None:
    group = dist.group.WORLD
    assert is_all(functional.all_reduce(torch.ones(2), "sum", group), size())
    assert functional.all_gather_tensor(own(), 0, group).sum() == 2 * sum(ranks())
    assert is_all(functional.reduce_scatter_tensor(torch.ones(2 * size()), "sum", 0, group), size())
    assert functional.all_to_all_single(own(size()), None, None, group).tolist() == list(ranks())


def model() -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def steps(trained: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for number in range(4):
        batch = torch.randn(4, 10, generator=torch.Generator().manual_seed(number * size() + rank()))
        optimizer.zero_grad()
        trained(batch).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()


def alone() -> torch.Tensor:
    """The parameters after the same steps in one process."""
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    for number in range(4):
        seeds = (number * size() + each for each in ranks())
        batch = torch.cat(
            [torch.randn(4, 10, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        )
        optimizer.zero_grad()
        trained(batch).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(trained.parameters())


def expect_trained(parameters: torch.Tensor) -> None:
    torch.testing.assert_close(parameters, alone(), rtol=1e-5, atol=1e-6)


def trains_with_ddp() -> None:
    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
        trained = DistributedDataParallel(model(), **options)
        steps(trained, torch.optim.SGD(trained.parameters(), lr=0.1))
        expect_trained(torch.nn.utils.parameters_to_vector(trained.parameters()))


def trains_with_the_hook() -> None:
    for options in ({}, {"gradient_as_bucket_view": True}):
        trained = DistributedDataParallel(model(), **options)
        trained.register_comm_hook(trained, hora.torch.distributed.ddp_hook)
        steps(trained, torch.optim.SGD(trained.parameters(), lr=0.1))
        expect_trained(torch.nn.utils.parameters_to_vector(trained.parameters()))


def reduces_sparse_gradients() -> None:
    torch.manual_seed(1)
    trained = DistributedDataParallel(torch.nn.Embedding(8, 4, sparse=True))
    trained(torch.tensor([rank(), size()])).sum().backward()
    gradient = trained.module.weight.grad
    assert gradient is not None and gradient.is_sparse
    rows = gradient.to_dense()[:, 0]
    assert rows.tolist() == [1 / size()] * size() + [1.0] + [0.0] * (7 - size())


def trains_with_zero_1() -> None:
    trained = DistributedDataParallel(model())
    steps(trained, ZeroRedundancyOptimizer(trained.parameters(), torch.optim.SGD, lr=0.1))
    expect_trained(torch.nn.utils.parameters_to_vector(trained.parameters()))


def trains_with_fsdp2() -> None:
    for allocates in (False, True):
        trained = model()
        mesh = init_device_mesh("cpu", (size(),))
        for layer in trained:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(trained, mesh=mesh)
        trained.set_allocate_memory_from_process_group_for_comm(allocates)
        steps(trained, torch.optim.SGD(trained.parameters(), lr=0.1))
        expect_trained(torch.cat([each.full_tensor().flatten() for each in trained.parameters()]))


def multiplies_distributed_tensors() -> None:
    mesh = init_device_mesh("cpu", (size(),))
    left = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
    right = distribute_tensor(torch.ones(8, 8), mesh, [Replicate()])
    assert is_all((left @ right).full_tensor(), 8)
    assert is_all(left.redistribute(mesh, [Shard(1)]).full_tensor(), 1)


CASES: list[Callable[[], None]] = [
    reduces,
    reduces_asynchronously,
    gives_a_future_of_what_has_ended,
    has_every_reduction,
    reduces_complex_numbers,
    reduces_complex_numbers_to_ranks_and_refuses_what_has_no_sum,
    gathers,
    gathers_parts_that_lie_in_the_whole,
    gathers_into_strided_outputs,
    reduces_and_scatters,
    exchanges,
    refuses_splits_that_lose_rows,
    has_roots,
    moves_every_dtype,
    moves_scalars,
    moves_objects,
    sends_messages,
    coalesces,
    has_groups_of_their_members_alone,
    has_groups_that_overlap_made_by_their_members_alone,
    destroys_groups_and_makes_them_again,
    has_a_monitored_barrier,
    runs_functional_collectives,
    trains_with_ddp,
    trains_with_the_hook,
    reduces_sparse_gradients,
    trains_with_zero_1,
    trains_with_fsdp2,
    multiplies_distributed_tensors,
]


def main() -> None:
    dist.init_process_group("hora")
    for case in CASES:
        try:
            case()
            said = "ok"
        except Exception:
            said = traceback.format_exc().replace("\n", " | ")
        sys.stdout.write(f"{case.__name__} {said}\n")  # at once: torchrun's ranks share the pipe
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
