# SPDX-License-Identifier: Apache-2.0
"""The calls that hora.torch refuses, the exceptions that it raises, and that the job then goes on."""

from ready_ranks import run_ready


def test_wrong_arguments_are_refused_in_the_callers_thread_and_the_job_goes_on():
    """Only rank 1 makes the mistakes: its later operations, without names, still match those of the other
    ranks."""
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        for question in (hvd.rank, hvd.size, hvd.local_rank, hvd.cross_size, hvd.is_homogeneous,
                         hvd.mpi_threads_supported, hvd.stop_timeline, hvd.global_process_set.size):
            try:
                question()
                raise AssertionError(question)
            except ValueError as error:
                assert isinstance(error, hvd.HorovodInternalError) and "not initialised" in str(error)
        for operation in (lambda: hvd.allreduce(torch.ones(1)), lambda: hvd.join(), lambda: hvd.barrier()):
            try:
                operation()
                raise AssertionError(operation)
            except hvd.HorovodInternalError as error:
                assert "not initialised" in str(error)
        hvd.init()
        x, scalar = torch.ones(4, 2), torch.tensor(1.0)
        class Nothing: pass
        refused = [
            (ValueError, "complex32", lambda: hvd.allreduce(x.to(torch.complex32), name="t")),
            (ValueError, "torch.Tensor", lambda: hvd.allreduce([1.0], name="t")),
            (ValueError, "no elements", lambda: hvd.allreduce(x.to("meta"), name="t")),
            (ValueError, ".to_sparse_coo()", lambda: hvd.allreduce(x.to_sparse_csr(), name="t")),
            (ValueError, "op=Sum", lambda: hvd.allreduce(x.to_sparse(), op=hvd.Max, name="t")),
            (ValueError, ".to_dense()", lambda: hvd.broadcast(x.to_sparse(), 0, name="t")),
            (ValueError, "not both", lambda: hvd.allreduce(x, average=True, op=hvd.Sum)),
            (ValueError, "op=17", lambda: hvd.allreduce(x, op=17)),
            (ValueError, "op='sum'", lambda: hvd.grouped_allreduce([x], op="sum")),
            (ValueError, "compression", lambda: hvd.allreduce(x, compression=Nothing)),
            (ValueError, "bool", lambda: hvd.allreduce(x > 0, name="t")),
            (ValueError, "", lambda: hvd.allreduce(torch.ones(2, dtype=torch.int32), op=hvd.Adasum, name="t")),
            (ValueError, ".clone()", lambda: hvd.allreduce_(scalar.expand(3), name="t")),
            (ValueError, ".clone()", lambda: hvd.broadcast_(scalar.expand(3), 0, name="t")),
            (ValueError, ".clone()", lambda: hvd.allreduce_(torch.ones(5).as_strided((3, 2), (1, 2)), name="t")),
            (IndexError, "one array or tensor at least", lambda: hvd.grouped_allreduce([], name="t")),
            (IndexError, "one array or tensor at least", lambda: hvd.grouped_allreduce_async_([], name="t")),
            (IndexError, "one array or tensor at least", lambda: hvd.grouped_allgather([], name="t")),
            (IndexError, "one array or tensor at least", lambda: hvd.grouped_reducescatter([], name="t")),
            (ValueError, "list of arrays or tensors", lambda: hvd.grouped_allreduce(x, name="t")),
            (ValueError, "complex32", lambda: hvd.grouped_allreduce([x, x.to(torch.complex32)], name="t")),
            (IndexError, "rank-zero tensor", lambda: hvd.allgather(scalar, name="t")),
            (hvd.HorovodInternalError, "rank-zero tensor", lambda: hvd.allgather_async(scalar, name="t")),
            (IndexError, "rank-zero tensor", lambda: hvd.allgather(scalar.clone().requires_grad_(), name="t")),
            (IndexError, "rank-zero tensor", lambda: hvd.grouped_allgather([x, scalar], name="t")),
            (hvd.HorovodInternalError, "rank-zero tensor", lambda: hvd.alltoall(scalar, name="t")),
            (ValueError, "rank-zero tensor", lambda: hvd.reducescatter(scalar, name="t")),
            (hvd.HorovodInternalError, "does not take op=Adasum", lambda: hvd.reducescatter(x, op=hvd.Adasum, name="t")),
            (ValueError, "does not take op=Adasum", lambda: hvd.grouped_reducescatter([x], op=hvd.Adasum, name="t")),
            (ValueError, "2", lambda: hvd.broadcast(x, 2, name="t")),
            (ValueError, "-1", lambda: hvd.broadcast(x, -1, name="t")),
            (ValueError, "root_rank must be", lambda: hvd.broadcast_(x, "0", name="t")),
            (ValueError, "evenly", lambda: hvd.alltoall(torch.ones(3), name="t")),
            (ValueError, "1 dimension", lambda: hvd.alltoall(x, torch.ones(2, 1, dtype=torch.int32), name="t")),
            (ValueError, "32-bit integer elements", lambda: hvd.alltoall(x, torch.tensor([2, 2]), name="t")),
            (ValueError, "has 3 numbers", lambda: hvd.alltoall(x, [1, 1, 1], name="t")),
            (ValueError, "are 5 rows", lambda: hvd.alltoall(x, [2, 3], name="t")),
            (ValueError, "negative", lambda: hvd.alltoall(x, [-1, 3], name="t")),
            (ValueError, "sequence", lambda: hvd.alltoall(x, [[1], [1]], name="t")),
            *((ValueError, text, lambda ask=ask, handle=handle: ask(handle)) for ask in (hvd.poll, hvd.synchronize) for text, handle in (
                ("999 is no handle", 999), ("0 is no handle", 0), ("None is no handle", None), ("[1] is no handle", [1]),
                ("a function is no handle", lambda: x), ("tensor(1.) is no handle", scalar))),
            (ValueError, "sparse COO", lambda: hvd.sparse_allreduce_async(x, "t", hvd.Sum)),
            (ValueError, "op=Sum", lambda: hvd.sparse_allreduce_async(x.to_sparse(), "t", hvd.Adasum)),
            (ValueError, "mpi_enabled()", hvd.mpi_threads_supported),
            (ValueError, "comm must be", lambda: hvd.init(comm="all")),
        ]
        hvd.init(comm=[1, 0])
        for kind, text, wrong in refused:
            if hvd.rank() == 1:
                try:
                    wrong()
                except kind as error:
                    assert isinstance(error, hvd.HoraError) and text in str(error), (text, error)
                else:
                    raise AssertionError(text)
            assert hvd.allreduce(x, op=hvd.Sum)[0, 0] == 2
            assert hvd.allgather(x).shape == (8, 2) and len(hvd.grouped_allreduce([x, x])) == 2
            assert hvd.alltoall(x).shape == (4, 2) and hvd.reducescatter(x).shape == (2, 2)
        for handle in (hvd.allreduce_async(x), hvd.grouped_allreduce_async([x, x]), hvd.isend(x, hvd.rank())):
            hvd.synchronize(handle)
            for ask in (hvd.synchronize, hvd.poll):
                try:
                    ask(handle)
                except ValueError as error:
                    print(str(error).partition(";")[0].replace(str(handle), "N"))
    """,
    )
    assert lines == [["handle N was already synchronized"] * 6] * 2


def test_ranks_that_disagree_get_the_same_error_and_the_job_goes_on():
    lines = run_ready(
        2,
        """
        import torch, hora.torch as hvd
        hvd.init()
        rank = hvd.rank()
        x = torch.ones(4, 2)
        disagreements = [
            lambda: hvd.allreduce(torch.ones(3 + rank), name="shape"),
            lambda: hvd.allreduce(x.to(torch.float64 if rank else torch.int32), name="dtype"),
            lambda: hvd.allreduce(x, op=hvd.Max if rank else hvd.Min, name="op"),
            lambda: hvd.allreduce(x, prescale_factor=1.0 + rank, name="prescale"),
            lambda: hvd.allreduce(x, postscale_factor=1.0 + rank, name="postscale"),
            lambda: hvd.grouped_allreduce([x, torch.ones(3 + rank), x], name="group"),
            lambda: hvd.broadcast(x, rank, name="root"),
            lambda: hvd.broadcast(torch.ones(2 + rank), 0, name="shape"),
            lambda: hvd.allgather(torch.ones(2, 2 + rank), name="rest"),
            lambda: hvd.allgather(torch.ones(2, *[1] * rank), name="dimensions"),
            lambda: hvd.grouped_allgather([x, torch.ones(2, 2 + rank)], name="group"),
            lambda: hvd.alltoall(torch.ones(2, 2 + rank), name="rest"),
            lambda: hvd.alltoall(torch.ones(2, dtype=torch.int8 if rank else torch.uint8), name="dtype"),
            lambda: hvd.reducescatter(torch.ones(3 + rank), name="shape"),
            lambda: hvd.reducescatter(x, op=hvd.Sum if rank else hvd.Average, name="op"),
            lambda: hvd.grouped_reducescatter([torch.ones(3 + rank), x], name="group"),
            lambda: hvd.allreduce(torch.eye(3 + rank).to_sparse(), name="sparse"),
            lambda: hvd.sparse_allreduce_async(torch.eye(3, dtype=torch.float64 if rank else torch.float32).to_sparse(), "sparse", hvd.Sum)(),
        ]
        for number, disagree in enumerate(disagreements):
            try:
                disagree()
            except hvd.HorovodInternalError as error:
                assert not isinstance(error, ValueError)
                print(number, error)
            else:
                raise AssertionError(number)
            assert hvd.allreduce(x, op=hvd.Sum)[0, 0] == 2
            assert hvd.alltoall(x).shape == (4, 2)
    """,
    )
    names = (
        *(
            "allreduce.shape",
            "allreduce.dtype",
            "allreduce.op",
            "allreduce.prescale",
            "allreduce.postscale",
            "grouped_allreduce.group_2of3",
        ),
        *(
            "broadcast.root",
            "broadcast.shape",
            "allgather.rest",
            "allgather.dimensions",
            "grouped_allgather.group_2of2",
        ),
        *(
            "alltoall.rest",
            "alltoall.dtype",
            "reducescatter.shape",
            "reducescatter.op",
            "grouped_reducescatter.group_1of2",
        ),
        *("allreduce.sparse.shape", "sparse_allreduce.sparse.shape"),
    )
    assert lines[0] == lines[1]
    for name, line in zip(names, lines[0], strict=True):
        assert f"'{name}'" in line
        assert "rank 0" in line
        assert "rank 1" in line


def test_wrong_common_arguments_are_named_by_every_operation_and_ranks_stay_in_step():
    """Only rank 1 makes the mistakes: its next operation, without a name, still matches that of rank 0."""
    run_ready(
        2,
        """
        import inspect, numpy as np, pytest, torch, hora, hora.torch as hvd
        hora.init()
        wrong = {
            "op": ["sum", 17, None],
            "prescale_factor": ["2", None, 1j, torch.ones(2)],
            "postscale_factor": ["2", 10**400],
            "compression": [3],
            "root_rank": ["0", 0.5, 10**30],
            "process_set": [0],
        }
        operations = ("allreduce", "reducescatter", "reduce", "scan", "broadcast", "gather", "scatter", "allgather", "alltoall")
        for module, whole in ((hora, np.ones((2, 2))), (hvd, torch.ones(2, 2))):
            for operation in map(module.__dict__.get, operations):
                taken = inspect.signature(operation).parameters
                right = {"root_rank": 0} if "root_rank" in taken else {}
                for argument in taken.keys() & wrong.keys():
                    for value in wrong[argument] if hora.rank() == 1 else []:
                        if value is taken[argument].default:
                            continue
                        with pytest.raises(hora.HoraArgumentError, match=f"{argument}(=| must be )"):
                            operation(whole, **right | {argument: value})
                operation(whole, **right)
            for number in (np.float32(2), torch.tensor(2.0), 2):
                assert (module.allreduce(whole, prescale_factor=number) == 2).all()
        """,
    )
