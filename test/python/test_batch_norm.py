# SPDX-License-Identifier: Apache-2.0
"""hora.torch.SyncBatchNorm, against one process with the whole batch."""

from ready_ranks import run_ready


def test_values_gradients_and_statistics_are_those_of_the_whole_batch():
    run_ready(
        3,
        """
        import itertools, torch, hora.torch as hvd
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        splits = {"even": [2, 2, 2], "uneven": [3, 1, 2], "none on one": [4, 0, 2]}
        options = [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}]
        for (label, rows), shape, kwargs in itertools.product(splits.items(), [(5,), (5, 4), (5, 3, 2)], options):
            torch.manual_seed(2)
            synced, whole = hvd.SyncBatchNorm(5, **kwargs).double(), torch.nn.BatchNorm2d(5, **kwargs).double()
            whole._check_input_dim = lambda input: None
            with torch.no_grad():
                for parameter, other in zip(synced.parameters(), whole.parameters()):
                    other.copy_(parameter.copy_(torch.randn(5, dtype=torch.float64)))
            for step in range(3):
                data = torch.randn(6, *shape, dtype=torch.float64) * 3 + 1
                weights = torch.randn(6, *shape, dtype=torch.float64)
                mine = slice(sum(rows[:rank]), sum(rows[: rank + 1]))
                x, reference = data[mine].clone().requires_grad_(), data.clone().requires_grad_()
                y, expected = synced(x), whole(reference)
                (y * weights[mine]).sum().backward()
                (expected * weights).sum().backward()
                assert torch.allclose(y, expected[mine], rtol=1e-10, atol=1e-12), (label, shape, kwargs)
                assert torch.allclose(x.grad, reference.grad[mine], rtol=1e-9, atol=1e-12), (label, shape, kwargs)
            for parameter, other in zip(synced.parameters(), whole.parameters()):
                total = hvd.allreduce(parameter.grad, op=hvd.Sum)
                assert torch.allclose(total, other.grad, rtol=1e-9, atol=1e-12), (label, shape, kwargs)
            for (name, buffer), other in zip(synced.named_buffers(), whole.buffers()):
                assert torch.allclose(buffer, other, rtol=1e-10), (label, shape, kwargs, name)
            synced.eval()
            whole.eval()
            if kwargs.get("track_running_stats", True):
                assert torch.allclose(synced(data), whole(data), rtol=1e-10)
    """,
    )


def test_models_are_converted_and_sixteen_bit_inputs_are_normalised_in_float32():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4), torch.nn.Sequential(torch.nn.BatchNorm2d(4)))
        before = {name: id(tensor) for name, tensor in [*net.named_parameters(), *net.named_buffers()]}
        net = hvd.SyncBatchNorm.convert(net)
        assert {name: id(tensor) for name, tensor in [*net.named_parameters(), *net.named_buffers()]} == before
        assert isinstance(net[1], hvd.SyncBatchNorm) and isinstance(net[2][0], hvd.SyncBatchNorm)
        net(torch.randn(2, 3, 4, 4)).sum().backward()
        layer = hvd.SyncBatchNorm(4)
        x = torch.full((8, 4), 60000.0, dtype=torch.float16) - torch.arange(8, dtype=torch.float16)[:, None] * 1000 * (hvd.rank() + 1)
        y = layer(x)
        assert y.dtype == torch.float16 and y.isfinite().all()
        assert abs(hvd.allreduce(y.float().mean()).item()) < 1e-2
    """,
    )


def test_wrong_inputs_are_named():
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        for wrong in (torch.zeros(3), torch.zeros(2, 4, dtype=torch.int64), torch.zeros(1 - hvd.rank(), 4)):
            try:
                hvd.SyncBatchNorm(4)(wrong)
            except ValueError as error:
                print(error)
    """,
    )
    for rank in lines:
        assert "expected floating-point [N, C, ...], not torch.float32 [3]" in rank[0]
        assert "not torch.int64 [2, 4]" in rank[1]
        assert "expected more than 1 value per channel when training, on 2 ranks together" in rank[2]


def test_sets_normalise_their_own_batches_and_one_rank_alone_is_plain_batch_norm():
    run_ready(
        3,
        """
        import copy, io, torch, hora.torch as hvd
        hvd.init(process_sets=[pair := hvd.ProcessSet([0, 2]), alone := hvd.ProcessSet([1])])
        rank = hvd.rank()
        for step, momentum in enumerate((0.1, 0.5, None)):
            torch.manual_seed(step)
            everyone, mine = hvd.SyncBatchNorm(3, momentum=momentum), hvd.SyncBatchNorm(3, momentum=momentum, process_set=alone if rank == 1 else pair)
            nested = hvd.SyncBatchNorm.convert(torch.nn.Sequential(torch.nn.BatchNorm1d(3, momentum=momentum)), alone if rank == 1 else pair)
            assert nested[0].process_set is mine.process_set
            file = io.BytesIO()
            torch.save([mine, everyone], file)
            file.seek(0)
            loaded = torch.load(file, weights_only=False)
            assert copy.deepcopy(mine).process_set is loaded[0].process_set is mine.process_set
            assert loaded[1].process_set is hvd.global_process_set
            data = torch.randn(3, 4, 3) * 2 + 1
            for layer, members in ((everyone, [0, 1, 2]), (mine, [1] if rank == 1 else [0, 2]), (nested, [1] if rank == 1 else [0, 2])):
                plain = torch.nn.BatchNorm1d(3, momentum=momentum)
                for batch in (data, data.flip(1) * 3):
                    x, whole = batch[rank].clone().requires_grad_(), batch[members].flatten(0, 1).requires_grad_()
                    y, expected = layer(x), plain(whole)
                    y.square().sum().backward()
                    expected.square().sum().backward()
                    begin = 4 * members.index(rank)
                    assert torch.allclose(y, expected[begin : begin + 4], atol=1e-5)
                    assert torch.allclose(x.grad, whole.grad[begin : begin + 4], atol=1e-4)
                (layer[0] if layer is nested else layer).load_state_dict(copy.deepcopy((layer[0] if layer is nested else layer).state_dict()))
                buffers = dict(layer.named_buffers())
                for name, value in plain.named_buffers():
                    assert torch.allclose(buffers["0." + name if layer is nested else name], value, rtol=1e-5), (name, momentum)
                layer.eval()
                plain.eval()
                if rank != 2:  # nothing is sent
                    assert torch.allclose(layer(data[rank]), plain(data[rank]), atol=1e-5)
    """,
    )
