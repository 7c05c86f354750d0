# SPDX-License-Identifier: Apache-2.0
"""hora.torch, against PyTorch alone."""

import pytest
from ranks import run_python


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_operations_agree_with_torch(ranks: int):
    run_python(ranks, """
        import torch, hora.torch as hvd
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
            x = torch.arange(20).reshape(4, 5).to(dtype) % 4 + rank
            total = sum(torch.arange(20).reshape(4, 5) % 4 + r for r in range(size)).to(dtype)
            assert torch.equal(hvd.allreduce(x, op=hvd.Sum), total), dtype
            assert torch.equal(hvd.broadcast(x, size - 1), torch.arange(20).reshape(4, 5).to(dtype) % 4 + size - 1)
            rows = torch.full((rank, 2), rank).to(dtype)
            assert torch.equal(hvd.allgather(rows), torch.cat([torch.full((r, 2), r).to(dtype) for r in range(size)]))
            y = x.clone()
            assert hvd.allreduce_(y, op=hvd.Max) is y and torch.equal(y, torch.arange(20).reshape(4, 5).to(dtype) % 4 + size - 1)
        assert torch.equal(hvd.allreduce(torch.tensor([rank == 0, False]), op=hvd.Sum), torch.tensor([True, False]))
        assert hvd.allreduce(torch.tensor(float(rank))).item() == (size - 1) / 2
    """)


def test_gradients_flow_through_operations():
    run_python(2, """
        import torch, hora.torch as hvd
        hvd.init()
        x = torch.full((3,), float(hvd.rank()), requires_grad=True)
        (hvd.allreduce(x, op=hvd.Sum) * (hvd.rank() + 1)).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 3.0))
        x.grad = None
        (hvd.broadcast(x, 1) * (hvd.rank() + 1)).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 1.5 * hvd.rank()))
        y = torch.ones(hvd.rank() + 1, 2, requires_grad=True)
        (hvd.allgather(y) * torch.arange(3.0)[:, None]).sum().backward()
        assert torch.equal(y.grad, torch.arange(3.0)[:, None].expand(3, 2)[hvd.rank() : 2 * hvd.rank() + 1])
    """)


def test_refusals_name_the_tensor_and_the_remedy():
    lines = run_python(2, """
        import torch, hora.torch as hvd
        hvd.init()
        for tensor in (torch.zeros(2, dtype=torch.complex64), torch.zeros(4, 4).t(), torch.eye(2).to_sparse(), torch.zeros(2, device="meta")):
            try:
                hvd.allreduce(tensor, name="x")
            except ValueError as error:
                print(error)
        assert hvd.allreduce(torch.ones(1)).item() == 1
    """)
    for rank in lines:
        assert [".to()" in rank[0], ".contiguous()" in rank[1], ".to_dense()" in rank[2], ".cpu()" in rank[3]] == [True] * 4
        assert all(line.startswith("'allreduce.x': ") for line in rank)


TRAIN = """
    import sys, torch, hora.torch as hvd
    from torch import nn
    hvd.init()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    whole = torch.randn(12, 8, dtype=torch.float64)
    target = torch.randint(0, 3, (12,))
    mine = slice(hvd.rank(), None, hvd.size())
"""


def test_accumulation_clipping_and_set_to_none_equal_one_process():
    run_python(2, TRAIN + """
    import copy
    for mode in ("plain", "no_sync", "passes", "twice", "clip", "zeros"):
        own, reference = copy.deepcopy(net), copy.deepcopy(net)
        passes = 2 if mode == "passes" else 1
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.parameters(), 0.1, momentum=0.9), own.named_parameters(),
                                             backward_passes_per_step=passes)
        single = torch.optim.SGD(reference.parameters(), 0.1, momentum=0.9)
        loss = lambda model, part: nn.functional.cross_entropy(model(whole[part]), target[part])
        for step in range(5):
            optimizer.zero_grad(set_to_none=mode != "zeros")
            single.zero_grad()
            if mode == "no_sync":
                with optimizer.no_sync():
                    loss(own, mine).backward()
                loss(reference, slice(None)).backward()
            if mode in ("passes", "twice"):
                loss(own, mine).backward()
                loss(reference, slice(None)).backward()
            loss(own, mine).backward()
            loss(reference, slice(None)).backward()
            if mode == "clip":
                optimizer.synchronize()
                optimizer.synchronize()
                nn.utils.clip_grad_norm_(own.parameters(), 0.1)
                nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
            optimizer.step()
            single.step()
            for a, b in zip(own.parameters(), reference.parameters()):
                assert torch.allclose(a, b, rtol=1e-12, atol=1e-14), (mode, step)
        assert isinstance(optimizer, torch.optim.SGD)
    """)


def test_unused_parameters_count_as_zeros_and_stay_without_gradient_if_nobody_used_them():
    run_python(2, """
        import torch, hora.torch as hvd
        hvd.init()
        a, b, c = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b, c], 1.0), [("a", a), ("b", b), ("c", c)])
        for step in range(3):
            optimizer.zero_grad()
            (a.sum() + (b.sum() * 4 if hvd.rank() == 0 else 0)).backward()
            optimizer.step()
            assert torch.equal(a.grad, torch.ones(2))
            assert torch.equal(b.grad, torch.full((2,), 2.0))
            assert c.grad is None
    """)


def test_sum_and_several_optimizers_at_once():
    run_python(2, """
        import torch, hora.torch as hvd
        hvd.init()
        a, b = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
        first = hvd.DistributedOptimizer(torch.optim.SGD([a], 1.0), [("w", a)], op=hvd.Sum)
        second = hvd.DistributedOptimizer(torch.optim.Adam([b], 0.1), [("w", b)])
        (a.sum() + b.sum()).backward()
        a.sum().backward()
        first.step()
        second.step()
        assert torch.equal(a.grad, torch.full((3,), 4.0)), a.grad
        assert torch.equal(b.grad, torch.ones(3))
    """)


def test_the_state_of_every_optimizer_reaches_ranks_that_have_none():
    run_python(2, """
        import torch, hora.torch as hvd
        hvd.init()
        makers = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adadelta,
                  torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.ASGD, torch.optim.Rprop]
        for maker in makers:
            torch.manual_seed(3)
            parameter = torch.nn.Parameter(torch.randn(4))
            options = {"momentum": 0.9} if maker is torch.optim.SGD else {}
            optimizer = maker([parameter], lr=0.01 if hvd.rank() == 0 else 0.5, **options)
            if hvd.rank() == 0:
                for _ in range(3):
                    optimizer.zero_grad()
                    (parameter**2).sum().backward()
                    optimizer.step()
            hvd.broadcast_parameters([("p", parameter)], 0)
            hvd.broadcast_optimizer_state(optimizer, 0)
            assert optimizer.param_groups[0]["lr"] == 0.01
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()
            everybodys = hvd.allgather(parameter.detach().unsqueeze(0))
            assert torch.equal(everybodys[0], everybodys[1]), maker
    """)


def test_a_shape_that_differs_names_the_parameter():
    lines = run_python(2, """
        import torch, hora.torch as hvd
        hvd.init()
        w = torch.nn.Parameter(torch.zeros(3 + hvd.rank()))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), [("layer.weight", w)])
        w.sum().backward()
        try:
            optimizer.step()
        except RuntimeError as error:
            print(error)
        assert hvd.allreduce(torch.ones(1)).item() == 1
    """)
    assert lines[0] == lines[1]
    assert "layer.weight': tensor differs between ranks: float32[3] on rank 0, float32[4] on rank 1" in lines[0][0]


def test_names_are_checked():
    run_python(1, """
        import torch, hora.torch as hvd
        hvd.init()
        w, v = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
        for named, kwargs in (([("a", w)], {}), ([("a", w), ("a", v)], {}), ([w, v], {}), (None, {"backward_passes_per_step": 0}), (None, {"op": hvd.Max})):
            try:
                hvd.DistributedOptimizer(torch.optim.SGD([w, v], 1.0), named, **kwargs)
            except ValueError:
                continue
            raise AssertionError(named)
    """)


def test_data_loader_workers_just_work():
    run_python(2, """
        import torch, hora.torch as hvd
        from torch.utils.data import DataLoader, TensorDataset
        hvd.init()
        loader = DataLoader(TensorDataset(torch.arange(32.0)), batch_size=4, num_workers=2, multiprocessing_context="fork")
        for epoch in range(2):
            for (batch,) in loader:
                assert hvd.allreduce(batch, op=hvd.Sum)[0] == 2 * batch[0]
    """)
