# SPDX-License-Identifier: Apache-2.0
"""The arguments, attributes and misuse of hora.torch.DistributedOptimizer."""

from ready_ranks import run_ready


def test_wrong_arguments_are_refused_in_order_and_the_job_goes_on():
    lines = run_ready(
        2,
        """
        import warnings, torch, hora.torch as hvd
        hvd.init()
        net = torch.nn.Linear(2, 1)
        w, b = net.weight, net.bias
        def wrap(*named, **arguments):
            return hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 1.0), *named, **arguments)
        late = hvd.ProcessSet([0, 1])
        for wrong in (
            dict(gradient_predivide_factor=2.0, op=hvd.Sum, backward_passes_per_step=0), dict(gradient_predivide_factor=0.0),
            dict(backward_passes_per_step=0, named_parameters=[w]), dict(backward_passes_per_step=-3), dict(op=hvd.Min),
            dict(named_parameters=[w, b], groups=0), dict(named_parameters=[("x", w), ("x", b)]), dict(named_parameters=[("x", w)]),
            dict(groups=0), dict(groups=-1), dict(groups="ab"), dict(groups=[w, b]), dict(groups=[[w, "b"]]), dict(groups=[[w], [b, w]]), dict(groups=True),
            dict(compression=3), dict(process_set=[0, 1]), dict(process_set=late),
        ):
            try:
                wrap(**wrong)
            except ValueError as error:
                print(error)
            else:
                raise AssertionError(wrong)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert wrap(num_groups=2)._groups == 2
        assert [each.category for each in caught] == [DeprecationWarning]
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            assert wrap(num_groups=2, groups=[[w]])._groups == [[w]]
            try:
                wrap(num_groups=-1)
            except ValueError:
                pass
        optimizer = wrap(net.named_parameters())
        for passes in (0, "2"):
            try:
                optimizer.set_backward_passes_per_step(passes)
            except ValueError as error:
                assert "backward_passes_per_step must be a number from 1 up" in str(error)
        optimizer.zero_grad()
        try:
            (net(torch.ones(1, 2)) ** 2).sum().backward(create_graph=True)
        except AssertionError as error:
            print(error)
        optimizer.zero_grad()
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert torch.equal(b.grad, torch.ones(1))
    """,
    )
    expected = [
        "gradient_predivide_factor needs op=Average",
        "gradient_predivide_factor must be positive",
        "backward_passes_per_step must be a number from 1 up, not 0",
        "not -3",
        "gradients are reduced by op=Average, op=Sum or op=Adasum",
        "named_parameters should be a sequence of tuples",
        "must be unique; these are not: x",
        "1 parameters of the optimizer have no name",
        "groups must be a number from 1 up",
        "not -1",
        "not str",
        "not list",
        "groups must consist of torch.Tensor",
        "a parameter can only appear once in groups",
        "not True",
        "compression=3 is none of",
        "process_set must be a ProcessSet",
        "has not been registered",
        "backward(create_graph=True) cannot be reduced",
    ]
    for rank in lines:
        assert len(rank) == len(expected), rank
        for line, part in zip(rank, expected, strict=True):
            assert part in line


def test_attributes_that_scripts_reach_for_say_what_is_so():
    for ranks in (1, 2):
        run_ready(
            ranks,
            """
        import io, warnings, torch, hora.torch as hvd
        hvd.init()
        net = torch.nn.Linear(2, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(net.parameters(), 0.5, betas=(0.5, 0.6)), net.named_parameters(), hvd.Compression.fp16,
                                             3, hvd.Average, 2.0, groups=1, sparse_as_dense=True)
        assert optimizer._compression is hvd.Compression.fp16 and optimizer.backward_passes_per_step == 3 and optimizer.op == hvd.Average
        assert optimizer.gradient_predivide_factor == 2.0 and optimizer._groups == 1 and optimizer.sparse_as_dense is True
        assert optimizer.process_set is hvd.global_process_set
        assert optimizer._parameter_names == {net.weight: "weight", net.bias: "bias"}
        assert optimizer._requires_update == {net.weight, net.bias} and optimizer._handles == {} and optimizer._should_synchronize
        assert isinstance(optimizer, torch.optim.Adam) and type(optimizer).__name__ == "Adam"
        assert optimizer.param_groups[0]["betas"] == (0.5, 0.6)
        optimizer.set_backward_passes_per_step(1)
        assert optimizer.backward_passes_per_step == 1
        optimizer.backward_passes_per_step = 2
        warnings.simplefilter("error")
        for step in range(2):
            optimizer.zero_grad()
            net(torch.ones(1, 2)).sum().backward()
            assert not optimizer._synchronized
            net(torch.ones(1, 2)).sum().backward()
            optimizer.synchronize()
            assert optimizer._synchronized
            assert torch.equal(net.bias.grad, torch.full((1,), 2.0))
            with optimizer.skip_synchronize():
                optimizer.step()
            assert torch.equal(net.bias.grad, torch.full((1,), 2.0))
    """,
        )


def test_hooks_of_a_step_run_once_also_after_a_state_was_loaded_and_loading_does_not_reduce_again():
    run_ready(
        2,
        """
        import copy, torch, hora.torch as hvd
        hvd.init()
        w = torch.nn.Parameter(torch.zeros(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0, momentum=0.5), [("w", w)], op=hvd.Sum)
        counts = [0, 0]
        def count(which):
            def hook(*arguments):
                counts[which] += 1
            return hook
        optimizer.register_step_pre_hook(count(0))
        optimizer.register_step_post_hook(count(1))
        w.sum().backward()
        optimizer.step()
        assert counts == [1, 1]
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        optimizer.step()
        assert counts == [2, 2], counts
        assert torch.equal(w.grad, torch.full((3,), 2.0))
        assert torch.equal(w.data, torch.full((3,), -2.0 - 3.0))
    """,
    )


def test_compressors_that_users_write_are_called_and_builtin_ones_narrow_the_wire():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        class Eighths(hvd.Compression.none):
            \"\"\"Sixteen bits of eighths, with a context.\"\"\"
            calls = 0
            @staticmethod
            def compress(tensor):
                Eighths.calls += 1
                return (tensor * 8).round().to(torch.int32), tensor.dtype
            @staticmethod
            def decompress(tensor, context):
                return tensor.to(context) / 8
        for groups in (None, 1):
            a, b = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2, 3, 4, 4).contiguous(memory_format=torch.channels_last))
            unused = torch.nn.Parameter(torch.zeros(2))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b, unused], 1.0), compression=Eighths, op=hvd.Sum, groups=groups)
            pattern = torch.arange(96.0).reshape(2, 3, 4, 4)
            for step in range(3):
                optimizer.zero_grad()
                loss = (b * pattern).sum() * (hvd.rank() + 1)
                if hvd.rank() == 0 or step == 2:
                    loss = loss + (a * 1.3).sum()
                loss.backward()
                optimizer.step()
                assert torch.equal(a.grad, torch.full((3,), 1.25 * (2 if step == 2 else 1))), a.grad
                assert torch.equal(b.grad, pattern * 3)
                assert unused.grad is None
        assert Eighths.calls > 0
        for compression, expected in ((hvd.Compression.none, 1 + 2**-12), (hvd.Compression.fp16, 1.0), (hvd.Compression.bf16, 1.0)):
            w = torch.nn.Parameter(torch.zeros(3))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), compression=compression)
            (w * (1 + 2**-12)).sum().backward()
            assert torch.equal(w.grad, torch.full((3,), expected)), compression
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            w = torch.nn.Parameter(torch.zeros(3, dtype=dtype))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), gradient_predivide_factor=2.0)
            (w * (hvd.rank() + 1)).sum().backward()
            optimizer.step()
            assert w.dtype == dtype and torch.equal(w.grad, torch.full((3,), 1.5, dtype=dtype))
    """,
    )


def test_one_rank_alone_is_the_plain_optimizer():
    run_ready(
        1,
        """
        import copy, torch, hora.torch as hvd
        hvd.init()
        net = torch.nn.Linear(4, 2)
        plain = copy.deepcopy(net)
        for op in (hvd.Average, hvd.Sum, hvd.Adasum):
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), net.named_parameters(), hvd.Compression.fp16, op=op)
            single = torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9)
            for step in range(3):
                x = torch.randn(3, 4)
                for model, each in ((net, optimizer), (plain, single)):
                    each.zero_grad()
                    model(x).square().sum().backward()
                    each.step()
                with optimizer.no_sync(), optimizer.skip_synchronize():
                    optimizer.synchronize()
            assert all(torch.equal(a, b) for a, b in zip(net.parameters(), plain.parameters()))
            assert not net.weight._backward_hooks and not net.weight._post_accumulate_grad_hooks
    """,
    )


def test_windows_that_end_early_and_passes_that_are_recounted_reduce_what_there_is():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        w, v = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w, v], 1.0), [("w", w), ("v", v)], backward_passes_per_step=3)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        mean = 1.5
        for passes in (3, 1, 2, 3, 4, 6):
            optimizer.zero_grad()
            for number in range(passes):
                (w.sum() * (hvd.rank() + 1) + (v.sum() if number == hvd.rank() else 0)).backward()
                if passes == 3:
                    reduced = number == 2
                    assert torch.equal(w.grad, torch.full((2,), 3 * mean if reduced else (number + 1) * (hvd.rank() + 1.0)))
            optimizer.step()
            assert torch.equal(w.grad, torch.full((2,), passes * mean)), (passes, w.grad)
            assert torch.equal(v.grad, torch.full((2,), 1.0 if passes > 1 else 0.5)), (passes, v.grad)
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.set_backward_passes_per_step(1)  # what has been accumulated is not lost
        w.sum().backward()
        assert torch.equal(w.grad, torch.full((2,), 2.0))
        optimizer.step()
        # overflow in a window that ends early: synchronize() makes it everybody's
        optimizer.set_backward_passes_per_step(2)
        before = w.detach().clone()
        optimizer.zero_grad()
        scaler.scale(w.sum() * (float("inf") if hvd.rank() == 0 else 1)).backward()
        optimizer.synchronize()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(w, before) and scaler.get_scale() == 2.0
    """,
    )


def test_training_goes_on_after_shutdown_and_init():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        for _ in range(2):
            hvd.init()
            w, table = torch.nn.Parameter(torch.zeros(3)), torch.nn.Embedding(4, 2, sparse=True)
            norm = hvd.SyncBatchNorm(2)
            kept = hvd.DistributedOptimizer(torch.optim.SGD([w, *table.parameters()], 1.0), op=hvd.Sum)
            for again in range(2):
                for step in range(2):
                    kept.zero_grad()
                    (w.sum() + table(torch.tensor([hvd.rank()])).sum() + norm(torch.ones(2, 2) * hvd.rank()).sum()).backward()
                    kept.step()
                    assert torch.equal(w.grad, torch.full((3,), 2.0))
                    assert table.weight.grad.to_dense()[:2].eq(1).all()
                hvd.shutdown()
                hvd.init()
            hvd.shutdown()
    """,
    )
