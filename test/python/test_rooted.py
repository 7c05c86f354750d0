# SPDX-License-Identifier: Apache-2.0
"""gather, scatter, reduce and scan, of arrays, tensors and objects."""

import pytest
from ready_ranks import run_ready


@pytest.mark.parametrize("ranks", [1, 3])
def test_rooted_operations_agree_with_numpy(ranks: int):
    run_ready(
        ranks,
        """
        import numpy as np, torch, hora, hora.torch as hvd
        hora.init()
        rank, size = hora.rank(), hora.size()
        root = size - 1
        rng = np.random.default_rng(7)
        whole = rng.integers(-4, 5, (2 * size + 1, 3))
        cuts = np.cumsum(np.full(size, 2))[:-1]
        dtypes = {torch.float32: np.float32, torch.float16: np.float16, torch.int64: np.int64}
        for kind, dtype in dtypes.items():
            parts = np.split(whole.astype(dtype), cuts)
            for module, make, plain in ((hora, lambda a: a, np.asarray), (hvd, torch.from_numpy, lambda t: t.numpy())):
                gathered = module.gather(make(parts[rank]), root)
                assert (gathered is None) == (rank != root)
                if rank == root:
                    np.testing.assert_array_equal(plain(gathered), whole.astype(dtype))
                    assert plain(gathered).dtype == dtype
                source = make(whole.astype(dtype) if rank == root else np.empty((0, 3), dtype))
                splits = np.arange(size, dtype=np.int32)
                np.testing.assert_array_equal(plain(module.scatter(source, root)), np.array_split(whole.astype(dtype), size)[rank])
                rows = plain(module.scatter(source, root, splits=[int(n) for n in splits]))
                start = int(splits[:rank].sum())
                np.testing.assert_array_equal(rows, whole.astype(dtype)[start : start + rank])
                mine = whole.astype(dtype) + rank
                all_of = np.stack([whole + r for r in range(size)])
                total = module.reduce(make(mine), root, op=hora.Sum)
                assert (total is None) == (rank != root)
                if rank == root:
                    np.testing.assert_array_equal(plain(total), all_of.sum(0).astype(dtype))
                np.testing.assert_array_equal(plain(module.scan(make(mine))), all_of[: rank + 1].sum(0).astype(dtype))
                np.testing.assert_array_equal(plain(module.scan(make(mine), op=hora.Max)), mine)
        mean = hvd.reduce(torch.full((4,), float(rank)), 0, compression=hvd.Compression.fp16)
        assert mean is None if rank else torch.equal(mean, torch.full((4,), (size - 1) / 2))
        """,
    )


def test_rooted_operations_in_a_process_set_use_the_root_of_the_job():
    run_ready(
        3,
        """
        import numpy as np, hora
        pair = hora.ProcessSet([0, 2])
        hora.init(process_sets=[pair])
        if pair.included():
            whole = hora.gather(np.array([hora.rank()]), 2, process_set=pair)
            assert whole is None if hora.rank() == 0 else whole.tolist() == [0, 2]
            assert hora.scatter(np.array([5, 6]), 2, process_set=pair).tolist() == [5 if hora.rank() == 0 else 6]
            total = hora.reduce(np.array([1]), 2, op=hora.Sum, process_set=pair)
            assert total is None if hora.rank() == 0 else total.tolist() == [2]
            assert hora.scan(np.array([1]), process_set=pair).tolist() == [1 if hora.rank() == 0 else 2]
        """,
    )


def test_objects_are_gathered_and_scattered():
    run_ready(
        3,
        """
        import pytest, hora
        hora.init()
        rank = hora.rank()
        everything = hora.gather_object({"rank": rank, "text": "x" * 1000 * rank}, root_rank=1)
        assert everything is None if rank != 1 else [thing["rank"] for thing in everything] == [0, 1, 2]
        assert hora.scatter_object(["a", ["b"], {"c": 3}] if rank == 2 else None, root_rank=2) == ["a", ["b"], {"c": 3}][rank]
        with pytest.raises(ValueError, match="rank 2 cannot scatter its objects: expected 3 objects, one for each rank, not 1"):
            hora.scatter_object(["a"] if rank == 2 else None, root_rank=2, name="few")
        with pytest.raises(ValueError, match="rank 2 cannot scatter its objects"):
            hora.scatter_object([1, 2, lambda: 0] if rank == 2 else None, root_rank=2, name="many")
        if rank == 1:
            with pytest.raises(ValueError, match="'hora.one': rank 0 cannot pickle|rank 0 cannot pickle its object"):
                hora.gather_object(rank, root_rank=1, name="one")
        elif rank == 0:
            with pytest.raises(ValueError, match="rank 0 cannot pickle its object"):
                hora.gather_object(lambda: 0, root_rank=1, name="one")
        else:
            assert hora.gather_object(rank, root_rank=1, name="one") is None
        """,
    )


def test_what_is_wrong_with_rooted_operations_is_said_and_the_job_goes_on():
    run_ready(
        2,
        """
        import numpy as np, pytest, torch, hora, hora.torch as hvd
        hora.init()
        rank = hora.rank()
        for module, whole, nothing in ((hora, np.ones((2, 5)), "np.empty"), (hvd, torch.ones(2, 5), "torch.empty")):
            if rank == 1:
                with pytest.raises(ValueError, match=f"without rows, such as {nothing}.*scatter_object takes None"):
                    module.scatter(None, root_rank=0)
            assert module.scatter(whole, root_rank=0).shape == (1, 5)
        with pytest.raises(ValueError, match="scalar"):
            hora.gather(np.float32(1), 0)
        with pytest.raises(ValueError, match="2"):
            hora.reduce(np.ones(3), 2)
        with pytest.raises(ValueError, match="scan does not know average; use another reduction"):
            hora.scan(np.ones(3), op=hora.Average)
        if rank == 0:
            with pytest.raises(ValueError, match="rows in sum"):
                hora.scatter(np.ones(3), 0, splits=[2, 2], name="s")
        np.testing.assert_array_equal(hora.scatter(np.arange(4), 0, splits=[1, 3], name="s"), [0] if rank == 0 else [1, 2, 3])
        with pytest.raises(RuntimeError, match="root rank differs between ranks: 0 on rank 0, 1 on rank 1"):
            hora.gather(np.ones(2), rank, name="roots")
        with pytest.raises(RuntimeError, match="tensor differs between ranks"):
            hora.scatter(np.ones((2, 2 + rank)), 0, name="widths")
        assert hora.reduce(np.ones(1), 0, op=hora.Sum) is None or rank == 0
        """,
    )
