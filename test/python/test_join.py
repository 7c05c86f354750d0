# SPDX-License-Identifier: Apache-2.0
"""Ranks with unequal numbers of batches."""

from ready_ranks import run_ready


def test_ranks_with_5_3_and_7_batches_join_and_the_means_divide_as_asked():
    run_ready(
        3,
        """
        import math, torch, hora.torch as hvd
        hvd.init()
        rank = hvd.rank()
        dtypes = (torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)

        def epoch(batches, by_initial_size):
            for batch in range(batches[rank]):
                here = [r for r in range(3) if batch < batches[r]]
                divisor = 3 if by_initial_size else len(here)
                value = lambda r: 6 * (r + 1)
                expected = {hvd.Sum: sum(map(value, here)), hvd.Average: sum(map(value, here)) / divisor, hvd.Min: min(map(value, here)),
                            hvd.Max: max(map(value, here)), hvd.Product: math.prod(map(value, here))}
                handles = []
                for dtype in dtypes:
                    for op in expected:
                        if op == hvd.Product and dtype in (torch.int8, torch.bfloat16):
                            continue
                        x = torch.full((5,), value(rank)).to(dtype)
                        handles.append((op, dtype, 1, hvd.allreduce_async(x, name=f"{dtype}.{op}", op=op)))
                        handles.append((op, dtype, 2, hvd.grouped_allreduce_async([x, x[:3]], name=f"group.{dtype}.{op}", op=op)))
                    for wire in (hvd.Compression.fp16, hvd.Compression.bf16):
                        if dtype in (torch.float32, torch.float64):
                            handles.append((hvd.Average, dtype, 1, hvd.allreduce_async(torch.full((40000,), float(value(rank)), dtype=dtype),
                                                                                       name=f"{wire.__name__}.{dtype}", compression=wire)))
                for op, dtype, count, handle in handles:
                    results = hvd.synchronize(handle)
                    for result in results if count > 1 else [results]:
                        assert result.dtype == dtype
                        wanted = torch.tensor(expected[op], dtype=torch.float64)  # whole numbers
                        assert torch.equal(result, wanted.to(dtype).expand_as(result)), (batch, op, dtype, result, wanted)
                gathered = hvd.allgather(torch.full((rank + 1, 2), rank), name="rows")
                assert gathered[:, 0].tolist() == [r for r in here for _ in range(r + 1)], gathered
                assert hvd.allreduce(torch.ones(2), op=hvd.Sum)[0] == len(here)  # without a name
                assert hvd.allgather_object(rank) == here
                vectors = torch.sparse_coo_tensor([[rank, 2]], [1.0, 1.0], (3,), check_invariants=True)
                assert hvd.allreduce(vectors, op=hvd.Sum, name="sparse").to_dense().tolist() == [float(r in here) + (len(here) if r == 2 else 0) for r in range(3)]
            if batches[rank] == max(batches):
                refused = 0
                for operation in (lambda: hvd.broadcast(torch.ones(2), rank, name="b"), lambda: hvd.alltoall(torch.ones(3), name="a"),
                                  lambda: hvd.reducescatter(torch.ones(3), name="r"), hvd.barrier):
                    try:
                        operation()
                    except hvd.HorovodInternalError as error:
                        assert "join" in str(error), error
                        refused += 1
                assert refused == 4, refused
            return hvd.join(divide_by_initial_world_size=by_initial_size)

        assert epoch([5, 3, 7], True) == 2
        assert hvd.allreduce(torch.tensor(float(rank))) == 1.0
        assert epoch([7, 5, 3], False) == 0
        assert epoch([2, 2, 3], True) == 2
        hvd.barrier()
        assert hvd.join() in range(3)
        assert torch.equal(hvd.alltoall(torch.arange(3)), torch.full((3,), rank))
    """,
    )
