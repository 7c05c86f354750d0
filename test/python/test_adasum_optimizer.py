# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer(op=Adasum), against the same steps made one after the other and combined with
NumPy."""

import pathlib

import pytest
from ready_ranks import run_ready

SUPPORT = str(pathlib.Path(__file__).resolve().parents[1] / "support")

SETUP = """
    import copy, sys, numpy, torch, hora.torch as hvd
    from torch import nn
    sys.path.insert(0, sys.argv[1])
    from adasum import adasum
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    def make(seed=0):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    def data(step, who):
        generator = torch.Generator().manual_seed(100 * step + who)
        return torch.randn(5, 4, dtype=torch.float64, generator=generator), torch.randn(5, 2, dtype=torch.float64, generator=generator)
    def loss_of(net, step, who):
        x, y = data(step, who)
        return ((net(x) - y) ** 2).mean()
    class Reference:
        \"\"\"All ranks' optimizers in one process: each steps for itself, the changes are combined.\"\"\"
        def __init__(self, make_optimizer, ranks):
            self.ranks = ranks
            self.nets = [make() for _ in ranks]
            self.optimizers = [make_optimizer(net) for net in self.nets]
        def step(self, backward):
            old = [p.detach().clone() for p in self.nets[0].parameters()]
            for who, net, optimizer in zip(self.ranks, self.nets, self.optimizers):
                optimizer.zero_grad()
                backward(net, optimizer, who)
            changed = [[(p.detach() - o).numpy() for p, o in zip(net.parameters(), old)] for net in self.nets]
            for number, value in enumerate(old):
                new = value + torch.from_numpy(adasum([deltas[number] for deltas in changed]))
                for net in self.nets:
                    list(net.parameters())[number].data.copy_(new)
    def check(net, reference, what):
        for a, b in zip(net.parameters(), reference.nets[0].parameters()):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-12), what
            everybodys = hvd.allgather(a.detach().unsqueeze(0))
            assert all(torch.equal(everybodys[0], other) for other in everybodys), what
"""


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_each_step_is_the_old_value_plus_the_adasum_of_what_each_rank_changes(ranks: int):
    run_ready(
        ranks,
        SETUP
        + """
    makers = {
        "sgd": lambda net: torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=0.01),
        "groups": lambda net: torch.optim.Adam([{"params": net[0].parameters(), "lr": 0.05}, {"params": net[2].parameters()}], 0.01),
    }
    for kind, maker in makers.items():
        for passes in (1, 2):
            net = make()
            optimizer = hvd.DistributedOptimizer(maker(net), op=hvd.Adasum, backward_passes_per_step=passes)
            assert optimizer.op == hvd.Adasum
            reference = Reference(maker, range(size))
            for step in range(4):
                optimizer.zero_grad()
                for part in range(passes):
                    loss_of(net, 10 * step + part, rank).backward()
                optimizer.step()
                def backward(model, single, who):
                    for part in range(passes):
                        loss_of(model, 10 * step + part, who).backward()
                    single.step()
                reference.step(backward)
                check(net, reference, (kind, passes, step))
    """,
        SUPPORT,
    )


def test_closures_are_called_by_each_rank_for_itself_and_sets_combine_their_members():
    run_ready(
        3,
        SETUP
        + """
    maker = lambda net: torch.optim.LBFGS(net.parameters(), 0.5, max_iter=3 + 2 * rank if net is mine else 3, line_search_fn="strong_wolfe")
    mine = make()
    optimizer = hvd.DistributedOptimizer(maker(mine), op=hvd.Adasum)
    reference = Reference(lambda net: None, range(size))
    reference.optimizers = [torch.optim.LBFGS(net.parameters(), 0.5, max_iter=3 + 2 * who, line_search_fn="strong_wolfe") for who, net in enumerate(reference.nets)]
    def closure_of(net, optimizer, step, who):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(net, step, who)
            loss.backward()
            return loss
        return closure
    for step in range(3):
        own = optimizer.step(closure_of(mine, optimizer, step, rank))
        losses = {}
        def backward(net, single, who):
            losses[who] = single.step(closure_of(net, single, step, who))
        reference.step(backward)
        assert abs(own.item() - losses[rank].item()) < 1e-9
        check(mine, reference, step)

    pair = hvd.add_process_set([0, 2])
    net = make()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters(), op=hvd.Adasum, process_set=pair)
    reference = Reference(lambda net: torch.optim.SGD(net.parameters(), 0.1), [0, 2] if rank != 1 else [1])
    for step in range(3):
        optimizer.zero_grad()
        loss_of(net, step, rank).backward()
        optimizer.step()
        def backward(model, single, who):
            loss_of(model, step, who).backward()
            single.step()
        reference.step(backward)
        for a, b in zip(net.parameters(), reference.nets[0].parameters()):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-12), step
    """,
        SUPPORT,
    )


def test_overflow_on_one_rank_skips_the_step_on_all_and_unused_parameters_stay():
    run_ready(
        2,
        SETUP
        + """
    w, unused, half = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w, unused, half], 1.0), op=hvd.Adasum, compression=hvd.Compression.fp16)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    done = 0
    for step in range(5):
        optimizer.zero_grad()
        bad = step == 1 and rank == 1
        loss = (w * (float("nan") if bad else 1.0)).sum() + (half.sum() if rank == 0 else 0)
        if step == 3 and rank == 1:
            loss = (w * 0).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        done += step != 1
        assert torch.equal(w, torch.full((3,), -float(done))), (step, w)  # alike on both ranks: the mean; zero on one: that of the other
        assert torch.equal(half, torch.full((3,), -float(done))), (step, half)
        assert torch.equal(unused, torch.ones(3))
    assert scaler.get_scale() == 512.0

    try:
        with optimizer.skip_synchronize():
            pass
    except AssertionError as error:
        assert "Adasum" in str(error)
    else:
        raise AssertionError
    optimizer.synchronize()

    def broken():
        w.data += 7
        raise ArithmeticError
    before = w.detach().clone()
    try:
        optimizer.step(broken)
    except ArithmeticError:
        assert torch.equal(w, before)
    else:
        raise AssertionError
    assert hvd.allreduce(torch.ones(1)).item() == 1
    """,
        SUPPORT,
    )
