# SPDX-License-Identifier: Apache-2.0
"""Block-scaled floats of 8 bits on the wire: what they are worth to a training, and what they are not for."""

from ready_ranks import run_ready

SETUP = """
    import numpy, torch, hora, hora.torch as hvd
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    E4M3, E5M2 = hvd.Compression.mxfp8_e4m3, hvd.Compression.mxfp8_e5m2
"""


def test_a_model_trains_about_as_well_as_with_float32():
    run_ready(
        2,
        SETUP
        + """
    def trained(compression):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), 1e-2), model.named_parameters(), compression=compression)
        inputs = torch.randn(512, 20, generator=torch.Generator().manual_seed(rank))
        wanted = inputs[:, :5].prod(1, keepdim=True) + inputs[:, 5:].sum(1, keepdim=True)
        losses = []
        for step in range(150):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        hvd.check_replicas(model)  # raises if they differ
        return losses[0], hvd.allreduce(torch.tensor(losses[-1])).item()
    first, exact = trained(hvd.Compression.none)
    assert exact < first / 20
    for compression in (E4M3, E5M2):
        _, last = trained(compression)
        assert abs(last - exact) < 0.05 * first, (compression, exact, last)
    """,
    )


def test_every_float_travels_and_every_rank_gets_the_same_bits():
    run_ready(
        3,
        SETUP
        + """
    for compression, step in ((E4M3, 2.0**-4), (E5M2, 2.0**-3)):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            brought = [torch.randn(1000, generator=torch.Generator().manual_seed(other)).to(dtype) for other in range(size)]
            result = hvd.allreduce(brought[rank], op=hvd.Average, compression=compression)
            assert result.dtype == dtype
            everybodys = hvd.allgather(result.reshape(1, -1))
            assert all(torch.equal(result, other) for other in everybodys)
            exact = torch.stack(brought).double().mean(0)
            allowed = 2.5 * step * torch.stack(brought).double().abs().mean(0) + 1e-2 * step
            assert ((result.double() - exact).abs() <= allowed).all(), (compression, dtype)
        array = numpy.full((7, 9), 1.0 + rank, numpy.float32)
        assert (hora.allreduce(array, op=hora.Sum, compression=compression) == 6).all()
        parts = hvd.grouped_allreduce([torch.ones(3), torch.full((40,), 1e-6)], op=hvd.Sum, compression=compression)
        assert torch.equal(parts[0], torch.full((3,), 3.0)) and torch.allclose(parts[1], torch.tensor(3e-6), rtol=0.2)
        # The gradient travels as the tensor does: 1 + 2^-9 loses its last place.
        x = torch.ones(2, requires_grad=True)
        (hvd.allreduce(x, op=hvd.Sum, compression=compression) * (1 + 2**-9)).sum().backward()
        assert torch.equal(x.grad, torch.full((2,), 3.0))
    overflow = torch.tensor([1.0, float("inf") if rank == 1 else 1.0])
    for compression, seen in ((E4M3, torch.isnan), (E5M2, torch.isinf)):
        result = hvd.allreduce(overflow, op=hvd.Sum, compression=compression)
        assert result[0] == 3 and seen(result[1]), result
    """,
    )


def test_a_rank_gets_its_part_of_a_sum_rounded_once():
    run_ready(
        3,
        SETUP
        + """
    for compression, step in ((E4M3, 2.0**-4), (E5M2, 2.0**-3)):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            brought = torch.stack([torch.randn(50, 41, generator=torch.Generator().manual_seed(other)).to(dtype) for other in range(size)]).double()
            allowed = step * brought.abs().mean(0) + (2.0**-8 if dtype == torch.bfloat16 else 2.0**-9)
            part = hvd.reducescatter(brought[rank].to(dtype), op=hvd.Average, compression=compression)
            rows = slice(17 * rank, min(17 * rank + 17, 50))
            assert part.dtype == dtype and part.shape == (rows.stop - rows.start, 41)
            assert ((part.double() - brought.mean(0)[rows]).abs() <= allowed[rows]).all(), (compression, dtype)
            whole = hvd.reduce(brought[rank].to(dtype), 2, op=hvd.Average, compression=compression)
            if rank == 2:
                assert ((whole.double() - brought.mean(0)).abs() <= allowed).all(), (compression, dtype)
    parts = hvd.grouped_reducescatter([torch.ones(3), torch.full((6,), 1e-6)], op=hvd.Sum, compression=E4M3)
    assert torch.equal(parts[0], torch.full((1,), 3.0)) and torch.allclose(parts[1], torch.tensor(3e-6), rtol=0.1)
    """,
    )


def test_what_they_are_not_for_is_refused_before_it_is_sent():
    run_ready(
        2,
        SETUP
        + """
    x = torch.ones(4)
    refused = [
        ("'{}': elements of int32 cannot travel as float8_e4m3fn", lambda name: hvd.allreduce(x.int(), name=name, compression=E4M3)),
        ("'{}': elements travel as float8_e5m2 for a sum or an average, not for max", lambda name: hvd.allreduce(x, name=name, op=hvd.Max, compression=E5M2)),
        ("'{}': elements travel as float8_e4m3fn for a sum or an average, not for adasum", lambda name: hvd.allreduce(x, name=name, op=hvd.Adasum, compression=E4M3)),
        ("'{}': elements travel as float8_e4m3fn for a sum or an average, not for min", lambda name: hvd.reducescatter(x, name=name, op=hvd.Min, compression=E4M3)),
    ]
    for number, (text, call) in enumerate(refused):
        try:
            call(f"x{number}")
        except ValueError as error:
            assert f"x{number}" in str(error) and text.split("': ")[1] in str(error), error
        else:
            raise AssertionError(text)
    try:
        hvd.allreduce(x, name="differs", compression=E4M3 if rank == 0 else E5M2)
    except RuntimeError as error:
        assert "wire dtype" in str(error) and "float8_e5m2" in str(error), error
    else:
        raise AssertionError("ranks disagree")
    assert torch.equal(hvd.allreduce(x), x)
    """,
    )


def test_rows_of_sparse_gradients_travel_as_bfloat16():
    run_ready(
        2,
        SETUP
        + """
    table = torch.nn.Embedding(6, 2, sparse=True)
    before = table.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), 1.0), op=hvd.Sum, compression=E4M3)
    (table(torch.tensor([1, 2 + rank])) * (1 + 2**-7 + 2**-12)).sum().backward()
    optimizer.step()
    changed = (before - table.weight.detach())[:, 0]
    assert torch.allclose(changed, torch.tensor([0.0, 2, 1, 1, 0, 0]) * (1 + 2**-7), atol=1e-6), changed
    """,
    )
