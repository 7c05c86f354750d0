# SPDX-License-Identifier: Apache-2.0
"""check_replicas: every difference between ranks' models is found, and named."""

from ready_ranks import run_ready

TRAINING = """
    import torch, hora.torch as hvd
    hvd.init()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
    optimizer = hvd.DistributedOptimizer(torch.optim.AdamW(net.parameters(), 0.1), net.named_parameters())
    def step():
        optimizer.zero_grad()
        net(torch.randn(5, 4) + hvd.rank()).sum().backward()
        optimizer.step()
    def flip(tensor, place, bit):
        words = tensor.detach().view(-1).view(torch.int32)
        words[place] ^= 1 << bit
    def differences(act):
        try:
            act()
        except hvd.HoraReplicaError as error:
            print(error)
            return error.differences
    step()
"""


def test_a_flipped_bit_is_found_and_its_tensor_and_rank_are_named():
    lines = run_ready(
        3,
        TRAINING
        + """
    check = hvd.check_replicas(net, optimizer)
    state = optimizer.state[net[0].bias]["exp_avg_sq"]
    for tensor, name in ((net[2].weight, "parameter '2.weight'"), (net[1].bias, "parameter '1.bias'"), (state, "state exp_avg_sq of '0.bias'")):
        for bit in range(0, 32, 7):
            if hvd.rank() == 2:
                flip(tensor, 1, bit)
            assert differences(check) == [(name, [2])]
            if hvd.rank() == 2:
                flip(tensor, 1, bit)
            check()
    """,
    )
    names = ["parameter '2.weight'", "parameter '1.bias'", "state exp_avg_sq of '0.bias'"]
    assert (
        lines
        == [
            [
                f"the ranks' models are not the same any more: {name} is another one on rank 2"
                for name in names
                for _ in range(5)
            ]
        ]
        * 3
    )


def test_it_looks_after_every_so_many_steps_and_of_two_halves_both_are_named():
    lines = run_ready(
        2,
        TRAINING
        + """
    check = hvd.check_replicas(net, optimizer, every=3)
    net.register_buffer("mask", torch.ones(3, dtype=torch.bool) if hvd.rank() else torch.zeros(3, dtype=torch.bool))
    step()
    step()
    assert differences(step) == [("buffer 'mask'", [0, 1])], "the third step"
    check.remove()
    for _ in range(3):
        step()
    """,
    )
    assert (
        lines
        == [["the ranks' models are not the same any more: buffer 'mask' differs between ranks 0 and 1"]] * 2
    )


def test_tensors_of_any_kind_and_layout_are_compared():
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        def make():
            torch.manual_seed(1)
            module = torch.nn.Module()
            kinds = [torch.float64, torch.bfloat16, torch.float16, torch.uint8, torch.bool, torch.int16, torch.complex64]
            for number, kind in enumerate(kinds):
                for count in (0, 1, 7, 3_000_001 if kind is torch.bfloat16 else 64):
                    module.register_buffer(f"b{number}_{count}", (torch.rand(count) * 10).to(kind))
            flat = torch.rand(100)
            module.register_buffer("odd", flat[3:20])
            module.register_buffer("image", torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last if hvd.rank() else torch.contiguous_format))
            module.register_buffer("sparse", torch.eye(4).to_sparse())
            return module
        module = make()
        hvd.check_replicas(module)
        for name, buffer in module.named_buffers():
            if buffer.numel() and buffer.layout == torch.strided:
                if hvd.rank():
                    before = buffer.clone()
                    buffer.view(-1)[-1:].copy_(1 - buffer.reshape(-1)[-1:].to(torch.float32)) if name != "image" else buffer.add_(1)
                try:
                    hvd.check_replicas(module)
                    print("nothing found in", name)
                except hvd.HoraReplicaError as error:
                    assert [each for each, _ in error.differences] == [f"buffer '{name}'"], error
                if hvd.rank():
                    buffer.copy_(before)
        print("done")
    """,
    )
    assert lines == [["done"], ["done"]]


def test_another_set_of_tensors_and_mistakes_are_named():
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        net = torch.nn.Linear(2, 1, bias=hvd.rank() == 0)
        try:
            hvd.check_replicas(net)
        except hvd.HoraReplicaError as error:
            print(error)
        for arguments in ({}, {"model": net, "every": 3}, {"optimizer": torch.optim.SGD(net.parameters(), 0.1), "every": 0}):
            try:
                hvd.check_replicas(**arguments)
            except ValueError as error:
                print(error)
    """,
    )
    assert (
        lines
        == [
            [
                "the ranks do not have the same tensors: parameter 'bias' is on rank 0 only",
                "check_replicas needs a model, an optimizer, or both",
                "every=3 is a number of steps of an optimizer, from 1 up, and needs one",
                "every=0 is a number of steps of an optimizer, from 1 up, and needs one",
            ]
        ]
        * 2
    )
