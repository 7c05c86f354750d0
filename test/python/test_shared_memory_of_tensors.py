# SPDX-License-Identifier: Apache-2.0
"""Tensors that lie in the same memory as others under way."""

from ready_ranks import run_ready


def test_memory_that_an_operation_uses_is_lent_to_no_other_that_writes():
    run_ready(
        2,
        """
        import torch, hora, numpy as np, hora.torch as hvd
        hvd.init()
        x = torch.ones(10)
        array = x.numpy()
        start = lambda: hvd.allreduce_async_(x[:6], name="first", op=hvd.Sum)
        if hvd.rank() == 0:  # rank 1 keeps it under way
            handle = start()
            for second in (
                lambda: hvd.allreduce_async_(x, name="second"),
                lambda: hvd.allreduce_async(x[5:], name="second"),
                lambda: hvd.grouped_allreduce_async_([torch.ones(3), x], name="second"),
                lambda: hvd.broadcast_async_(x, 0, name="second"),
                lambda: hora.allreduce_async(array, name="second"),
                lambda: hora.isend(array, 1),
                lambda: hvd.isend(x, 1),
            ):
                try:
                    second()
                except ValueError as error:
                    assert "'allreduce.first' is under way to write" in str(error), error
                else:
                    raise AssertionError(second)
            beside = hvd.allreduce_async_(x[6:], name="beside", op=hvd.Sum)
            hvd.barrier()
        else:
            hvd.barrier()
            handle, beside = start(), hvd.allreduce_async_(x[6:], name="beside", op=hvd.Sum)
        hvd.synchronize(handle), hvd.synchronize(beside)
        assert (x == 2).all()
        readers = [hvd.allreduce_async(x, name=f"reader {i}", op=hvd.Sum) for i in range(3)]
        assert all((hvd.synchronize(reader) == 4).all() for reader in readers)
        assert (hvd.allreduce_(x.as_strided((2, 2, 2), (5, 3, 1)), op=hvd.Sum) == 4).all()  # its elements do not overlap
        """,
    )


def test_tied_parameters_are_broadcast():
    run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        torch.manual_seed(hvd.rank())
        first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        if hvd.rank() == 0:
            second.weight = first.weight  # on this rank alone
        model = torch.nn.Sequential(first, second)
        hvd.broadcast_parameters(model.state_dict(), 0)
        assert torch.equal(first.weight, second.weight)
        assert len(set(hvd.allgather_object(tuple(first.weight.flatten().tolist())))) == 1
        """,
    )
