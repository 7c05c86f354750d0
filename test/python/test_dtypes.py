# SPDX-License-Identifier: Apache-2.0
"""Every dtype that Hora has, of NumPy's arrays and PyTorch's tensors: moved as it is, and reduced where it has
sums."""

from ready_ranks import run_ready


def test_elements_of_every_dtype_arrive_as_they_are():
    run_ready(
        2,
        """
        import ml_dtypes, numpy as np, torch, hora, hora.torch as hvd
        from hora import _native
        hora.init()
        rank, size = hora.rank(), hora.size()

        def check(module, make, bits):
            own, others = make(rank), make(1 - rank)
            assert bits(module.broadcast(own, 1)) == bits(make(1))
            assert bits(module.allgather(own)) == bits(make(0)) + bits(make(1))
            whole = module.alltoall(own)
            assert bits(whole[0] if isinstance(whole, tuple) else whole) == bits(make(0)[rank:rank + 1]) + bits(make(1)[rank:rank + 1])
            sent = module.isend(own, 1 - rank)
            assert bits(module.recv().value) == bits(others)
            module.synchronize(sent)

        kinds = _native.DType.__members__
        random = np.random.default_rng(1).integers(0, 2, (2, 2, 3, 16)).astype(np.uint8)
        for kind, native in kinds.items():
            raw = random[..., :native.itemsize].copy()  # zeros and ones: of every dtype, bool too

            def array(of, kind=kind, raw=raw):
                return raw[of].view(np.dtype(kind)).reshape(2, 3)

            def tensor(of, kind=kind, raw=raw):
                return torch.from_numpy(raw[of]).view(getattr(torch, kind)).reshape(2, 3)

            check(hora, array, lambda a: np.ascontiguousarray(a).tobytes())
            check(hvd, tensor, lambda t: t.contiguous().view(torch.uint8).numpy().tobytes())
        """,
    )


def test_complex_and_unsigned_numbers_are_reduced():
    run_ready(
        3,
        """
        import numpy as np, torch, hora, hora.torch as hvd
        hora.init()
        rank, size = hora.rank(), hora.size()
        for kind in (np.complex64, np.complex128, np.uint16, np.uint32, np.uint64):
            values = np.arange(18).reshape(6, 3) * (1 - 2j if np.iscomplexobj(kind(0)) else 1)
            each = [((r + 1) * values).astype(kind) for r in range(size)]
            total, mean = sum(each), sum(each) / kind(size) if np.iscomplexobj(kind(0)) else sum(each) // kind(size)
            for module, make, plain in ((hora, lambda a: a, np.asarray), (hvd, lambda a: torch.from_numpy(a.copy()), lambda t: t.numpy())):
                own = make(each[rank])
                same = lambda got, expected: np.testing.assert_array_equal(plain(got), expected, strict=True)
                same(module.allreduce(own, op=hora.Sum), total)
                np.testing.assert_allclose(plain(module.allreduce(own)), mean, rtol=1e-6)
                np.testing.assert_allclose(plain(module.allreduce(own, op=hora.Sum, prescale_factor=0.5)), total // 2 if kind(0).dtype.kind == "u" else total / 2, rtol=1e-6, atol=2 if kind(0).dtype.kind == "u" else 0)
                same(module.reducescatter(own, op=hora.Sum), total[2 * rank : 2 * rank + 2])
                same(module.scan(own), sum(each[: rank + 1]))
                reduced = module.reduce(own, 1, op=hora.Sum)
                if rank == 1:
                    same(reduced, total)
            if kind(0).dtype.kind == "u":  # numbers with the highest bit
                large = np.array([rank, np.iinfo(kind).max - rank], kind)
                most = np.iinfo(kind).max
                for module, make, plain in ((hora, lambda a: a, np.asarray), (hvd, torch.from_numpy, lambda t: t.numpy())):
                    assert plain(module.allreduce(make(large), op=hora.Max)).tolist() == [2, most]
                    assert plain(module.allreduce(make(large), op=hora.Min)).tolist() == [0, most - 2]
                    assert plain(module.allreduce(make(large))).tolist() == [1, most - 1]
        mirrored = torch.full((3,), rank + 1j).conj()
        assert hvd.allreduce(mirrored, op=hvd.Sum).tolist() == [3 - 3j] * 3
        assert hvd.broadcast(mirrored, 1).tolist() == [1 - 1j] * 3
        sparse = (torch.eye(2) * (1 + 2j)).to_sparse()
        assert hvd.allreduce(sparse).to_dense()[0].tolist() == [1 + 2j, 0]
        assert hvd.allreduce(sparse, op=hvd.Sum, prescale_factor=0.5).to_dense()[1].tolist() == [0, 1.5 + 3j]
        single, first, second = (torch.ones(2, dtype=torch.complex64, requires_grad=True) for _ in range(3))
        hvd.allreduce(single, op=hvd.Sum).abs().sum().backward()
        for each in hvd.grouped_allreduce([first, second, torch.ones(1)], op=hvd.Sum)[:2]:
            each.abs().sum().backward()
        assert torch.equal(first.grad, single.grad) and torch.equal(second.grad, single.grad)
        """,
    )


def test_a_rank_that_has_left_gives_nothing_to_a_sum_of_complex_numbers():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        if hvd.rank() == 0:
            assert hvd.allreduce(torch.full((2,), 2 + 3j), op=hvd.Sum, name="z").tolist() == [2 + 3j] * 2
        hvd.join()
        """,
    )


def test_what_has_no_such_sum_is_refused_and_the_job_goes_on():
    run_ready(
        2,
        """
        import torch, hora, hora.torch as hvd
        hvd.init()
        for expected, call in (
            ("float8_e4m3fn is moved between ranks, and not reduced; convert the tensor to bfloat16",
             lambda: hvd.allreduce(torch.ones(2).to(torch.float8_e4m3fn), name="w")),
            ("complex64 has sums and averages, and no max", lambda: hvd.allreduce(torch.ones(2) * 1j, op=hvd.Max, name="w")),
            ("complex64 has sums and averages, and no logical_or", lambda: hvd.allreduce(torch.ones(2) * 1j, op=hvd.LogicalOr, name="w")),
            ("adasum takes float16, bfloat16, float32 and float64, not complex64", lambda: hvd.allreduce(torch.ones(2) * 1j, op=hvd.Adasum, name="w")),
        ):
            try:
                call()
            except hora.HoraArgumentError as error:
                assert str(error) == f"'allreduce.w': {expected}", error
            else:
                raise AssertionError(expected)
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
        """,
    )


def test_complex_parameters_are_trained_alike():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        torch.manual_seed(hvd.rank())
        weight = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))
        bias = torch.nn.Parameter(torch.randn(4))
        hvd.broadcast_parameters([("weight", weight), ("bias", bias)], 0)
        start = weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight, bias], 0.1), [("weight", weight), ("bias", bias)])
        inputs = torch.randn(2, 4, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(5))

        def loss(of, w):
            return (inputs[of] @ w.conj()).abs().square().sum() + (w.real @ bias).sum()

        mean = torch.autograd.grad(sum(loss(of, start.requires_grad_()) for of in range(2)) / 2, start)[0]
        loss(hvd.rank(), weight).backward()
        optimizer.step()
        torch.testing.assert_close(weight.detach(), start.detach() - 0.1 * mean)
        assert torch.equal(*hvd.allgather(torch.view_as_real(weight.detach())[None]))
        """,
    )
