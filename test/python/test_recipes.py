# SPDX-License-Identifier: Apache-2.0
"""The documentation's recipes for mixed precision and clipping, against one process with the whole batch."""

from ready_ranks import run_ready


def test_scaled_and_clipped_steps_are_those_of_one_process_and_skipped_on_all_ranks_alike():
    """On two ranks the batch is added up in another order, which float32 shows in its last bits."""
    run_ready(
        2,
        """
        import contextlib, copy, torch, hora.torch as hvd
        from torch import nn
        hvd.init()

        def make(net):
            return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)

        def train(net, optimizer, scaler, x, recipe):
            optimizer.zero_grad()
            scaler.scale((net(x) - x.sum(1, keepdim=True)).square().mean()).backward()
            if recipe == "of Horovod":
                optimizer.synchronize()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            with optimizer.skip_synchronize() if recipe == "of Horovod" else contextlib.nullcontext():
                scaler.step(optimizer)
            scaler.update()
            return norm

        for recipe in ("of PyTorch", "of Horovod"):
            torch.manual_seed(3)
            net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
            reference = copy.deepcopy(net)
            plain, plain_scaler = make(reference)
            optimizer, scaler = make(net)
            optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
            skipped = []
            for step in range(12):
                whole = torch.randn(8, 8)
                if step in (2, 7):
                    whole[5] *= 1e37  # the gradient of rank 1 overflows, that of rank 0 does not
                before = [parameter.detach().clone() for parameter in net.parameters()]
                norm = train(net, optimizer, scaler, whole[4 * hvd.rank() : 4 * hvd.rank() + 4], recipe)
                torch.testing.assert_close(norm, train(reference, plain, plain_scaler, whole, "of PyTorch"), rtol=1e-4, atol=0, equal_nan=True)
                assert scaler.get_scale() == plain_scaler.get_scale()
                if all(torch.equal(old, new) for old, new in zip(before, net.parameters())):
                    skipped.append(step)
                for ours, theirs in zip(net.parameters(), reference.parameters()):
                    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
            assert skipped == [2, 7], skipped
            everybodys = hvd.allgather(torch.cat([parameter.detach().flatten() for parameter in net.parameters()]).unsqueeze(0))
            assert torch.equal(everybodys[0], everybodys[1])
    """,
    )
