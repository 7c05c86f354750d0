# SPDX-License-Identifier: Apache-2.0
"""Several optimizers in one process: a GAN, process sets with a model each, ranks that have joined."""

from typing import Any

from ready_ranks import run_ready


def test_a_gan_trains_as_in_one_process(overlap: dict[str, Any]):
    run_ready(
        2,
        """
        import copy, torch, hora.torch as hvd
        from torch import nn
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
        hvd.init()
        torch.manual_seed(0)
        maker = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
        judge = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        maker_reference, judge_reference = copy.deepcopy(maker), copy.deepcopy(judge)
        makers = hvd.DistributedOptimizer(torch.optim.Adam(maker.parameters(), 0.01), maker.named_parameters())
        judges = hvd.DistributedOptimizer(torch.optim.Adam(judge.parameters(), 0.01), judge.named_parameters(), groups=2)
        def train(maker, judge, makers, judges, noise, real):
            ones, zeros = torch.ones(len(real), 1, dtype=torch.float64), torch.zeros(len(real), 1, dtype=torch.float64)
            judges.zero_grad()
            fake = maker(noise)
            (cross_entropy(judge(real), ones) + cross_entropy(judge(fake.detach()), zeros)).backward()
            judges.step()
            makers.zero_grad()
            cross_entropy(judge(fake), ones).backward()  # reaches the judge's parameters, too
            makers.step()
        plain = torch.optim.Adam(maker_reference.parameters(), 0.01), torch.optim.Adam(judge_reference.parameters(), 0.01)
        mine = slice(hvd.rank(), None, 2)
        for step in range(6):
            noise, real = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)
            train(maker, judge, makers, judges, noise[mine], real[mine])
            train(maker_reference, judge_reference, *plain, noise, real)
            for own, reference in ((maker, maker_reference), (judge, judge_reference)):
                for a, b in zip(own.parameters(), reference.parameters()):
                    assert torch.allclose(a, b, rtol=1e-9, atol=1e-12), step
    """,
        **overlap,
    )


def test_ranks_whose_passes_reach_different_optimizers_do_not_wait_for_each_other_in_a_cycle(
    overlap: dict[str, Any],
):
    run_ready(
        3,
        """
        import torch, hora.torch as hvd
        hvd.init()
        rank = hvd.rank()
        first, second, unused = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
        one = hvd.DistributedOptimizer(torch.optim.SGD([first, unused], 1.0), op=hvd.Sum)
        two = hvd.DistributedOptimizer(torch.optim.SGD([second], 1.0), op=hvd.Sum)
        for step in range(3):
            one.zero_grad()
            two.zero_grad()
            loss = [first.sum() + second.sum(), second.sum(), second.sum() + first.sum()][(rank + step) % 3]
            loss.backward()
            one.step()
            two.step()
            assert torch.equal(first.grad, torch.full((2,), 2.0)) and torch.equal(second.grad, torch.full((2,), 3.0))
    """,
        **overlap,
    )


def test_each_process_set_trains_its_own_model_and_ranks_outside_do_not_reduce():
    run_ready(
        4,
        """
        import copy, torch, hora.torch as hvd
        from torch import nn
        left, right, middle = hvd.ProcessSet([0, 1]), hvd.ProcessSet([2, 3]), hvd.ProcessSet([1, 2])
        hvd.init(process_sets=[left, right, middle])
        rank = hvd.rank()
        def make(seed):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        def data(step, who):
            generator = torch.Generator().manual_seed(10 * step + who)
            return torch.randn(4, 3, dtype=torch.float64, generator=generator)
        def train(net, optimizer, batches):
            optimizer.zero_grad()
            (sum(net(batch).square().mean() for batch in batches) / len(batches)).backward()
            optimizer.step()
        def same(net, reference):
            return all(torch.allclose(a, b, rtol=1e-11) for a, b in zip(net.parameters(), reference.parameters()))
        # a model for each half; everybody in the middle has one more, which the others train alone; and one
        # for all
        half = left if rank < 2 else right
        models = {"half": (half, make(half.process_set_id)), "middle": (middle, make(7)), "all": (hvd.global_process_set, make(8))}
        if rank == 3:
            models = dict(reversed(models.items()))  # sets count their optimizers each for itself, and ranks outside do not matter
        trained = {}
        for name, (where, net) in models.items():
            reference = copy.deepcopy(net)
            wrapped = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), net.named_parameters(), process_set=where)
            trained[name] = (where, net, wrapped, reference, torch.optim.SGD(reference.parameters(), 0.1, momentum=0.9))
        for step in range(4):
            for name in ("half", "middle", "all"):
                where, net, wrapped, reference, single = trained[name]
                train(net, wrapped, [data(step, rank)])
                train(reference, single, [data(step, who) for who in (where.ranks if where.included() else [rank])])
                assert same(net, reference), (name, step)
        # both of a rank's models in one pass
        (_, one, first, one_reference, _), (where, two, second, two_reference, _) = trained["half"], trained["middle"]
        first.zero_grad()
        second.zero_grad()
        (one(data(9, rank)).sum() + two(data(9, rank)).sum()).backward()
        first.step()
        second.step()
        members = where.ranks if where.included() else [rank]
        gradients = [torch.autograd.grad(two_reference(data(9, who)).sum(), list(two_reference.parameters())) for who in members]
        for parameter, *everybodys in zip(two.parameters(), *gradients):
            assert torch.allclose(parameter.grad, sum(everybodys) / len(members), rtol=1e-11)
        # sparse gradients
        table = nn.Embedding(4, 2, sparse=True, dtype=torch.bfloat16)
        wrapped = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), 1.0), process_set=middle)
        for step in range(2):
            wrapped.zero_grad()
            table(torch.tensor([rank, 3])).sum().backward()
            wrapped.step()
            want = torch.zeros(4, 2, dtype=torch.bfloat16)
            for who in members:
                want[[who, 3]] += 1 / len(members)
            want[3] = 2 if rank == 3 else 1
            assert table.weight.grad.dtype == torch.bfloat16 and torch.equal(table.weight.grad.to_dense(), want), table.weight.grad
        # members only
        values = {name: torch.full((2,), float(rank)) for name in "ab"}
        if middle.included():
            hvd.broadcast_parameters(values, 2, process_set=middle)
            assert torch.equal(values["a"], torch.full((2,), 2.0))
            momentum = torch.optim.SGD([nn.Parameter(torch.zeros(2))], 0.5 if rank == 2 else 0.1, momentum=0.9)
            hvd.broadcast_optimizer_state(momentum, 2, process_set=middle)
            assert momentum.param_groups[0]["lr"] == 0.5
        else:
            try:
                hvd.broadcast_parameters(values, 2, process_set=middle)
            except ValueError as error:
                assert "not a member" in str(error)
            else:
                raise AssertionError
    """,
    )


def test_ranks_with_unequal_numbers_of_batches_join():
    run_ready(
        3,
        """
        import torch, hora.torch as hvd
        from torch import nn
        hvd.init()
        rank = hvd.rank()
        batches = (2, 1, 4)
        for divide_by_initial, as_dense, groups, compression in ((True, False, None, hvd.Compression.none), (False, False, 1, hvd.Compression.none),
                                                               (True, True, None, hvd.Compression.fp16), (False, True, 2, hvd.Compression.bf16)):
            torch.manual_seed(0)
            table, last, late = nn.Embedding(5, 2, sparse=True), nn.Linear(2, 1), nn.Parameter(torch.zeros(2))
            norm = hvd.SyncBatchNorm(2, affine=False)
            parameters = [*table.parameters(), *last.parameters(), late]
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, 0.0), compression=compression, sparse_as_dense=as_dense, groups=groups)
            for epoch in range(2):
                for batch in range(batches[rank]):
                    present = [who for who in range(3) if batch < batches[who]]
                    share = 3 if divide_by_initial else len(present)
                    optimizer.zero_grad()
                    loss = (table(torch.tensor([rank])) * 2).sum() + last(torch.ones(1, 2)).sum()
                    if batch >= 1:
                        loss = loss + late.sum() * 4  # its kind becomes known while rank 1 has joined
                    loss.backward()
                    optimizer.step()
                    want = torch.zeros(5, 2)
                    want[present] = 2 / share
                    assert torch.allclose(table.weight.grad.to_dense(), want, rtol=4e-3), (table.weight.grad, batch, epoch, share)
                    assert torch.allclose(last.bias.grad, torch.tensor([len(present) / share]), rtol=4e-3)
                    assert torch.allclose(late.grad, torch.full((2,), 4 * len(present) / share), rtol=4e-3) if batch >= 1 else late.grad is None
                    rows = torch.tensor([[1.0, 2.0], [3.0, 5.0]]) + rank
                    everybodys = torch.cat([torch.tensor([[1.0, 2.0], [3.0, 5.0]]) + who for who in present])
                    expected = nn.functional.batch_norm(everybodys, None, None, training=True)
                    begin = 2 * present.index(rank)
                    assert torch.allclose(norm(rows), expected[begin : begin + 2], atol=1e-5)
                assert hvd.join(divide_by_initial_world_size=divide_by_initial) == 2
                hvd.broadcast_parameters(table.state_dict(), root_rank=2)
            for step in range(2):  # and on it goes, together
                optimizer.zero_grad()
                (late.sum() * 3).backward()
                optimizer.step()
                assert torch.allclose(late.grad, torch.full((2,), 3.0), rtol=4e-3)

        w = nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), op=hvd.Adasum)
        for batch in range(batches[rank]):
            optimizer.zero_grad()
            w.sum().backward()
            optimizer.step()
            assert torch.equal(w, torch.full((2,), -1.0 - batch))  # alike: the mean; zeros leave the other as it is
        hvd.join()
    """,
    )
