# SPDX-License-Identifier: Apache-2.0
"""The operations of hora.torch: values against NumPy, gradients against autograd in one process."""

import os
import pathlib

import pytest
from ready_ranks import run_ready

RANDOM_OPERATIONS = str(pathlib.Path(__file__).with_name("random_operations.py"))
RUN = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"


@pytest.mark.long
@pytest.mark.parametrize(
    ("ranks", "rounds", "environment"),
    [
        (1, 100, {}),
        (2, 200, {}),
        (2, 100, {"HORA_CPU_OPERATIONS": "tcp"}),
        (3, 200, {}),
        (3, 100, {"HORA_FUSION_THRESHOLD": "1"}),  # nothing travels together
        (4, 150, {}),
    ],
)
def test_random_operations_in_random_sets_and_orders_agree_with_numpy(
    ranks: int, rounds: int, environment: dict[str, str]
):
    seed = os.environ.get("HORA_TEST_SEED", str(ranks))  # a failure prints its seed
    assert (
        run_ready(ranks, RUN, RANDOM_OPERATIONS, seed, str(rounds), environment=environment)
        == [["good"]] * ranks
    )


def test_gradients_are_those_of_one_process_times_what_horovod_makes_of_them():
    """Every rank builds the whole job as one graph: the sum of all ranks' losses, whose gradients are the
    reference."""
    run_ready(
        3,
        """
        import torch, hora.torch as hvd
        hvd.init(process_sets=[hvd.ProcessSet([0, 2])])
        both = hvd.add_process_set([1, 2])
        torch.manual_seed(0)

        def check(text, process_set, shapes, operation, reference, factor=1.0):
            ranks = process_set.ranks
            inputs = [torch.randn(shape, dtype=torch.float64).mul(4).round().requires_grad_() for shape in shapes]
            outputs = reference(inputs)
            weights = [torch.randn_like(output) for output in outputs]
            torch.autograd.backward(outputs, weights)
            if not process_set.included():
                return
            own = process_set.rank()
            x = inputs[own].detach().clone().requires_grad_()
            y = operation(x)
            assert torch.allclose(y, outputs[own]), (text, y, outputs[own])
            weight = weights[own].clone()
            y.backward(weight)
            assert torch.equal(weight, weights[own]), (text, "changed the gradient that it was given")
            scale = factor(own) if callable(factor) else factor
            assert torch.allclose(x.grad, inputs[own].grad * scale), (text, x.grad, inputs[own].grad * scale)

        for s in (hvd.global_process_set, both):
            n = s.size()
            same = [(4, 3)] * n
            every = lambda f: lambda xs: [f(torch.stack(xs)) for _ in xs]
            scales = dict(prescale_factor=0.5, postscale_factor=3.0)
            for op, whole in ((hvd.Sum, lambda x: x.sum(0)), (hvd.Average, lambda x: x.mean(0)), (hvd.Min, lambda x: x.amin(0)),
                              (hvd.Max, lambda x: x.amax(0)), (hvd.Product, lambda x: x.prod(0))):
                check(f"allreduce {op}", s, same, lambda x: hvd.allreduce(x, op=op, process_set=s, **scales), every(lambda x: whole(x * 0.5) * 3.0))
                check(f"grouped_allreduce {op}", s, same, lambda x: hvd.grouped_allreduce([torch.arange(3), x], op=op, process_set=s)[1], every(whole))
            uneven = [(rank, 2) for rank in range(n)]
            check("allgather", s, uneven, lambda x: hvd.allgather(x, process_set=s), lambda xs: [torch.cat(xs) for _ in xs], 1 / n)
            check("grouped_allgather", s, uneven, lambda x: hvd.grouped_allgather([torch.arange(3), x, x.detach()], process_set=s)[1],
                  lambda xs: [torch.cat(xs) for _ in xs], 1 / n)
            check("broadcast", s, same, lambda x: hvd.broadcast(x, s.ranks[1], process_set=s), lambda xs: [xs[1] + 0 * x for x in xs], 1 / n)
            check("alltoall", s, [(2 * n, 2)] * n, lambda x: hvd.alltoall(x, process_set=s), lambda xs: [torch.cat([x[2 * r : 2 * r + 2] for x in xs]) for r in range(n)])
            counts = [[(a + b) % 3 for b in range(n)] for a in range(n)]
            def exchanged(xs):
                parts = [torch.split(x[: sum(row)], row) for x, row in zip(xs, counts)]
                return [torch.cat([part[r] for part in parts]) for r in range(n)]
            check("alltoall with splits and rows left over", s, [(sum(row) + 2, 2) for row in counts],
                  lambda x: hvd.alltoall(x, counts[s.rank()], process_set=s)[0], exchanged)
            for op, whole in ((hvd.Sum, lambda x: x.sum(0)), (hvd.Average, lambda x: x.mean(0))):
                split = lambda xs: list(torch.tensor_split(whole(torch.stack(xs) * 0.5) * 3.0, n))
                check(f"reducescatter {op}", s, [(n + 1, 2)] * n, lambda x: hvd.reducescatter(x, op=op, process_set=s, **scales), split, n)
                check(f"grouped_reducescatter {op}", s, [(n + 1, 2)] * n,
                      lambda x: hvd.grouped_reducescatter([x, torch.arange(4)], op=op, process_set=s, **scales)[0], split, n)

        # A second derivative: d/dx of |d(sum of squares of the mean)/dx|^2
        x = torch.full((2,), float(hvd.rank()), dtype=torch.float64, requires_grad=True)
        first, = torch.autograd.grad((hvd.allreduce(x) ** 2).sum(), x, create_graph=True)
        assert torch.equal(first, torch.full((2,), 2.0, dtype=torch.float64))
        (first ** 2).sum().backward()
        assert torch.allclose(x.grad, torch.full((2,), 8.0, dtype=torch.float64)), x.grad

        # Results of a group that are not used count as zeros, and compression is part of the way back.
        a, b = (torch.full((2,), float(hvd.rank() + 1), requires_grad=True) for _ in range(2))
        hvd.grouped_allreduce([a, b], op=hvd.Sum)[1].sum().backward()
        assert torch.equal(a.grad, torch.zeros(2)) and torch.equal(b.grad, torch.full((2,), 3.0))
        a.grad = None
        (hvd.allreduce(a, op=hvd.Sum, compression=hvd.Compression.fp16) * (1 + 2**-12)).sum().backward()
        assert torch.equal(a.grad, torch.full((2,), 3.0)), a.grad
    """,
    )


def test_compressors_of_ones_own_are_called_and_the_built_in_ones_may_be():
    run_ready(
        2,
        """
        import torch, hora, hora.torch as hvd
        hvd.init()
        calls = []
        class Rounded(hora.compression.Compressor):
            @staticmethod
            def compress(tensor):
                calls.append(tensor.dtype)
                return tensor.round().to(torch.int32), tensor.dtype
            @staticmethod
            def decompress(tensor, ctx):
                return tensor.to(ctx)
        x = torch.tensor([0.9, -2.2, 3.0]) * (hvd.rank() + 1)
        total = torch.tensor([3.0, -6.0, 9.0])
        strided = torch.zeros(3, 2)[:, 0]
        for reduce in (lambda: hvd.allreduce(x, op=hvd.Sum, compression=Rounded),
                       lambda: hvd.grouped_allreduce([x, x], op=hvd.Sum, compression=Rounded)[1],
                       lambda: hvd.synchronize(hvd.allreduce_async(x, op=hvd.Sum, compression=Rounded)),
                       lambda: hvd.synchronize(hvd.allreduce_async_(strided.copy_(x), op=hvd.Sum, compression=Rounded)),
                       lambda: hvd.allgather(hvd.reducescatter(x, op=hvd.Sum, compression=Rounded)),
                       lambda: hvd.allgather(hvd.grouped_reducescatter([x, x], op=hvd.Sum, compression=Rounded)[0])):
            calls.clear()
            result = reduce()
            assert torch.equal(result, total) and set(calls) == {torch.float32}, (result, calls)
        assert torch.equal(strided, total)
        for compressor, dtype in ((hvd.Compression.fp16, torch.float16), (hvd.Compression.bf16, torch.bfloat16), (hvd.Compression.none, torch.float64)):
            sent, context = compressor.compress(torch.ones(2, dtype=torch.float64))
            assert sent.dtype == dtype and compressor.decompress(sent, context).dtype == torch.float64
            number, context = compressor.compress(torch.arange(2))
            assert compressor.decompress(number, context).dtype == torch.int64
        fine = torch.tensor([1 + 2**-12])
        assert hvd.allreduce(fine) == fine and hvd.allreduce(fine, compression=hvd.Compression.fp16) == 1
    """,
    )


def test_adasum_is_the_tree_of_pairs_over_the_ranks_of_the_set():
    run_ready(
        4,
        """
        import torch, hora.torch as hvd
        hvd.init()
        sets = [hvd.global_process_set, hvd.add_process_set([0, 2, 3]), hvd.add_process_set([1, 3]), hvd.add_process_set([2])]

        def combined(a, b):
            weight = lambda x: 1 - (a * b).sum() / (2 * x.square().sum()) if x.any() else 1.0
            return weight(a) * a + weight(b) * b

        def tree(vectors):
            while len(vectors) > 1:
                pairs = [combined(*vectors[i : i + 2]) for i in range(0, len(vectors) - 1, 2)]
                vectors = pairs + vectors[2 * len(pairs) :]
            return vectors[0]

        generator = torch.Generator().manual_seed(1)
        for shape in ((), (7,), (300, 40), (0,), (3,)):
            inputs = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(4)]
            if shape == (3,):
                inputs[1].zero_()  # the other of its pair stays as it is
            for s in sets:
                if not s.included():
                    continue
                for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
                    brought = [x.to(dtype) for x in inputs]
                    expected = tree([brought[r].double() for r in s.ranks])
                    mine = brought[hvd.rank()]
                    precision = 16 * torch.finfo(dtype).eps
                    results = [hvd.allreduce(mine, op=hvd.Adasum, process_set=s), hvd.allreduce_(mine.clone(), op=hvd.Adasum, process_set=s),
                               *hvd.grouped_allreduce([mine, mine], op=hvd.Adasum, process_set=s)]
                    for result in results:
                        assert result.dtype == dtype
                        assert torch.allclose(result.double(), expected, rtol=precision, atol=precision), (shape, s, dtype, result, expected)
                    everybody = hvd.allgather(results[0].reshape(1, -1), process_set=s)
                    assert torch.equal(everybody, everybody[:1].expand_as(everybody)), "not the same bits on every rank"
        same = torch.tensor([3.0, 4.0])
        assert torch.equal(hvd.allreduce(same, op=hvd.Adasum), same)
        orthogonal = torch.nn.functional.one_hot(torch.tensor(hvd.rank()), 4).float()
        assert torch.equal(hvd.allreduce(orthogonal, op=hvd.Adasum), torch.ones(4))
    """,
    )


def test_bits_and_truths_are_reduced_and_reducescatter_takes_all_but_adasum():
    run_ready(
        3,
        """
        import functools, operator, numpy as np, pytest, torch, hora, hora.torch as hvd
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        values = [torch.randint(-4, 5, (5, 7), generator=torch.Generator().manual_seed(r)) for r in range(size)]
        def expected(op, all):
            return functools.reduce(op, all)
        bitwise = {hvd.BitAnd: operator.and_, hvd.BitOr: operator.or_, hvd.BitXor: operator.xor}
        logical = {hvd.LogicalAnd: torch.logical_and, hvd.LogicalOr: torch.logical_or}
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool):
            brought = [each.to(dtype) for each in values]
            for op, whole in bitwise.items():
                assert torch.equal(hvd.allreduce(brought[rank], op=op), expected(whole, brought)), (dtype, op)
        for dtype in (torch.uint8, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64):
            brought = [each.to(dtype) for each in values]
            for op, whole in logical.items():
                want = expected(whole, brought).to(dtype)
                assert torch.equal(hvd.allreduce(brought[rank], op=op, compression=hvd.Compression.fp16), want), (dtype, op)
                assert torch.equal(hvd.reducescatter(brought[rank], op=op), torch.tensor_split(want, size)[rank])
        tiny = torch.full((3,), 1e-30, requires_grad=True)
        result = hvd.allreduce(tiny, op=hvd.LogicalAnd, compression=hvd.Compression.fp16)
        assert result.tolist() == [1, 1, 1] and not result.requires_grad
        floats = [each.to(torch.float32) for each in values]
        for op, whole in ((hvd.Min, torch.minimum), (hvd.Max, torch.maximum), (hvd.Product, torch.mul)):
            want = torch.tensor_split(expected(whole, floats), size)[rank]
            assert torch.equal(hvd.reducescatter(floats[rank].clone().requires_grad_(), op=op), want)
            assert torch.equal(hvd.grouped_reducescatter([floats[rank]], op=op)[0], want)
            assert np.array_equal(hora.reducescatter(floats[rank].detach().numpy(), op=op), want)
        assert hora.allreduce(np.array([rank, 4]), op=hora.BitOr).tolist() == [3, 4]
        assert hora.scan(np.array([1 << rank]), op=hora.BitOr).tolist() == [2 ** (rank + 1) - 1]
        with pytest.raises(ValueError, match="bit_or takes integers and bool, not float32"):
            hvd.allreduce(torch.ones(1), op=hvd.BitOr)
        with pytest.raises(ValueError, match="logical_or has no factors"):
            hvd.allreduce(torch.ones(1), op=hvd.LogicalOr, prescale_factor=2.0)
    """,
    )
