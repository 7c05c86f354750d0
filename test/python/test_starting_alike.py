# SPDX-License-Identifier: Apache-2.0
"""broadcast_parameters and broadcast_optimizer_state."""

from ready_ranks import run_ready


def test_the_state_of_every_optimizer_of_torch_reaches_ranks_that_have_none():
    lines = run_ready(
        2,
        """
        import inspect, torch, hora.torch as hvd
        hvd.init()
        rank = hvd.rank()
        makers = [kind for _, kind in inspect.getmembers(torch.optim, inspect.isclass) if issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer]
        def same(value, kind):
            assert all(other == value for other in hvd.allgather_object(value)), kind
        def listed(value):
            if isinstance(value, torch.Tensor):
                return value.tolist()
            if isinstance(value, dict):
                return {key: listed(item) for key, item in value.items()}
            return [listed(item) for item in value] if isinstance(value, (list, tuple)) else value
        for maker in makers:
            for wrapped in (False, True):
                torch.manual_seed(3)
                options = {"momentum": 0.9} if maker is torch.optim.SGD else {}
                if "amsgrad" in inspect.signature(maker).parameters:
                    options["amsgrad"] = True
                lr = 0.01 if rank == 0 else 0.5
                sparse = maker is torch.optim.SparseAdam
                layer = torch.nn.Embedding(4, 3, sparse=sparse)
                other = torch.nn.Parameter(torch.randn(3, 2))
                parameters = list(layer.parameters()) if sparse else [*layer.parameters(), other]
                # LBFGS has one group; the others two, with options of their own
                groups = parameters if sparse or maker is torch.optim.LBFGS else [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 2 * lr}]
                optimizer = maker(groups, lr=lr, **options)
                if wrapped:
                    optimizer = hvd.DistributedOptimizer(optimizer)
                def closure():
                    optimizer.zero_grad()
                    loss = (layer(torch.tensor([0, 2])) ** 2).sum() + ((other**2).sum() if not sparse else 0)
                    loss.backward()
                    return loss
                if rank == 0 and not wrapped:
                    for _ in range(3):
                        optimizer.step(closure)
                before = [p.detach().clone() for p in parameters]
                hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=layer)
                assert all(torch.equal(a, b) for a, b in zip(before, parameters)), maker  # no step was made
                hvd.broadcast_parameters(enumerate(parameters), 0)
                assert optimizer.param_groups[0]["lr"] == 0.01 and optimizer.param_groups[-1]["lr"] in (0.01, 0.02), maker
                same(listed(optimizer.state_dict()), maker)
                if not wrapped:
                    assert optimizer.state or maker.__name__ in ("SGD",), maker
                for _ in range(2):
                    optimizer.step(closure)
                same([p.tolist() for p in parameters], maker)
                same(listed(optimizer.state_dict()), maker)
        print(len(makers))
    """,
    )
    assert int(lines[0][0]) >= 15


def test_parameters_of_any_layout_and_form_are_given_and_mistakes_are_named():
    lines = run_ready(
        2,
        """
        import torch, hora, hora.torch as hvd
        from torch import nn
        hvd.init()
        rank = hvd.rank()
        def net():
            torch.manual_seed(rank)
            return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last if rank == 0 else torch.contiguous_format)
        def check(model):
            expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            everybodys = hvd.allgather_object({name: tensor.tolist() for name, tensor in expected.items()})
            assert everybodys[0] == everybodys[1]
        for form in (lambda m: m.state_dict(), lambda m: m.named_parameters(), lambda m: list(m.named_parameters()), lambda m: list(m.parameters()),
                     lambda m: {**m.state_dict(), "epoch": rank, "nothing": None}):
            model = net()
            hvd.broadcast_parameters(form(model), root_rank=1)
            check(model)
        hvd.broadcast_parameters({}, 0)
        hvd.broadcast_parameters([], 0)
        odd = torch.optim.SGD([nn.Parameter(torch.zeros(2))], 0.1)
        odd.state[odd.param_groups[0]["params"][0]]["phase"] = torch.zeros(2, dtype=torch.complex32)
        for wrong in (lambda: hvd.broadcast_parameters({"a": 1}, 0), lambda: hvd.broadcast_parameters(3, 0), lambda: hvd.broadcast_parameters(["a"], 0),
                      lambda: hvd.broadcast_parameters({"a": torch.zeros(2)}, 2),
                      lambda: hvd.broadcast_parameters({"a": torch.zeros(1), "b": torch.zeros(2, dtype=torch.complex32)}, 0),
                      lambda: hvd.broadcast_optimizer_state(net(), 0), lambda: hvd.broadcast_optimizer_state(odd, 1)):
            try:
                wrong()
            except ValueError as error:
                print(error)
            else:
                raise AssertionError
        try:
            hvd.broadcast_parameters({"w": torch.zeros(2 + rank), "v": torch.zeros(3)}, 0)
        except hora.HoraInternalError as error:
            print(error)
        assert hvd.allreduce(torch.ones(1)).item() == 1
    """,
    )
    expected = [
        "no value is a torch.Tensor, but int",
        "invalid params",
        "invalid params",
        "no root rank 2",
        "'parameters.b': elements of type torch.complex32",
        "for a model use broadcast_parameters",
        "'optimizer_state.0': elements of type torch.complex32",
        "the parameters differ between ranks:",
        "  rank 1: 'w' is float32[3], and float32[2] on rank 0",
    ]
    for rank in lines:
        assert len(rank) == len(expected), rank
        for line, part in zip(rank, expected, strict=True):
            assert part in line
