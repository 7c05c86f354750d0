# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer(groups=...): gradients that are reduced together."""

from typing import Any

from ready_ranks import run_ready


def test_any_division_into_groups_trains_as_one_process(overlap: dict[str, Any]):
    run_ready(
        2,
        """
        import copy, torch, hora.torch as hvd
        from torch import nn
        hvd.init()
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)).double()
        data, target = torch.randn(12, 8, dtype=torch.float64), torch.randint(0, 3, (12,))
        mine = slice(hvd.rank(), None, hvd.size())
        kinds = [lambda m: 1, lambda m: 2, lambda m: 4, lambda m: 100, lambda m: [[m[4].weight, m[0].bias], [m[2].weight]],
                 lambda m: [list(m.parameters())], lambda m: []]
        for number, kind in enumerate(kinds):
            for predivide, passes in ((1.0, 1), (2.0, 2)):
                own, reference = copy.deepcopy(net), copy.deepcopy(net)
                optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), 0.1, momentum=0.9), own.named_parameters(), groups=kind(own),
                                                     gradient_predivide_factor=predivide, backward_passes_per_step=passes)
                single = torch.optim.SGD(reference.parameters(), 0.1, momentum=0.9)
                for step in range(4):
                    optimizer.zero_grad()
                    single.zero_grad()
                    for _ in range(passes):
                        nn.functional.cross_entropy(own(data[mine]), target[mine]).backward()
                        nn.functional.cross_entropy(reference(data), target).backward()
                    optimizer.step()
                    single.step()
                    for a, b in zip(own.parameters(), reference.parameters()):
                        assert torch.allclose(a, b, rtol=1e-11, atol=1e-14), (number, predivide, step)
    """,
        **overlap,
    )


def test_members_that_a_rank_does_not_use_count_as_zeros_and_do_not_hold_up_their_group(
    overlap: dict[str, Any],
):
    run_ready(
        3,
        """
        import torch, hora.torch as hvd
        hvd.init()
        rank = hvd.rank()
        a, b, c, d = (torch.nn.Parameter(torch.zeros(2)) for _ in range(4))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b, c, d], 1.0), [("a", a), ("b", b), ("c", c), ("d", d)], op=hvd.Sum, groups=[[a, b, d], [c]])
        for step in range(5):
            optimizer.zero_grad()
            late = step >= 2  # nobody uses b before
            loss = a.sum() + (c * 2).sum() if rank != 1 else (c * 3).sum()
            if late and rank == step % 3:
                loss = loss + 5 * b.sum()
            loss.backward()
            optimizer.step()
            assert torch.equal(a.grad, torch.full((2,), 2.0)), (step, a.grad)
            assert torch.equal(c.grad, torch.full((2,), 7.0)), (step, c.grad)
            assert b.grad is None if not late else torch.equal(b.grad, torch.full((2,), 5.0)), (step, b.grad)
            assert d.grad is None
    """,
        **overlap,
    )


def test_a_member_that_differs_fails_its_whole_group_and_names_itself():
    lines = run_ready(
        2,
        """
        import torch, hora, hora.torch as hvd
        hvd.init()
        a, b, c = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(3 + hvd.rank())), torch.nn.Parameter(torch.zeros(4))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b, c], 1.0), [("a", a), ("odd", b), ("c", c)], op=hvd.Sum, groups=[[a, b]])
        try:
            (a.sum() + b.sum() + c.sum()).backward()
        except hora.HoraInternalError as error:
            print(error)
        assert torch.equal(c.grad, torch.full((4,), 2.0))
        assert torch.equal(a.grad, torch.ones(2))
        assert hvd.allreduce(torch.ones(1)).item() == 1
    """,
    )
    assert lines[0] == lines[1]
    assert lines[0][0].startswith("'gradient.0.a': ")
    assert (
        "'gradient.0.odd': tensor differs between ranks: float32[3] on rank 0, float32[4] on rank 1"
        in lines[0][0]
    )


def test_sparse_members_leave_their_group():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        table, last = torch.nn.Embedding(4, 2, sparse=True), torch.nn.Linear(2, 1)
        parameters = [*table.parameters(), *last.parameters()]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, 0.1), op=hvd.Sum, groups=[parameters])
        for step in range(3):
            optimizer.zero_grad()
            last(table(torch.tensor([hvd.rank(), 3]))).sum().backward()
            optimizer.step()
            assert table.weight.grad.layout == torch.sparse_coo
            assert table.weight.grad.coalesce().indices().tolist() == [[0, 1, 3]]
            assert last.bias.grad.item() == 4
    """,
    )
