# SPDX-License-Identifier: Apache-2.0
"""hora on NumPy arrays, against NumPy."""

import re
import sys

import hora
import pytest
from ranks import hrun, run_python


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_operations_agree_with_numpy(ranks: int):
    lines = run_python(
        ranks,
        """
        import numpy as np, hora
        hora.init()
        rank, size = hora.rank(), hora.size()
        reducers = {hora.Sum: np.add, hora.Min: np.minimum, hora.Max: np.maximum, hora.Product: np.multiply}
        shared = np.random.default_rng(7)
        for case in range(60):
            dtype = str(shared.choice(["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]))
            shape = tuple(int(n) for n in shared.integers(0, 40, shared.integers(0, 4)))
            inputs = [shared.integers(0, 3, shape).astype(dtype) for _ in range(size)]
            op = list(reducers)[case % 4]
            expected = inputs[0]
            for other in inputs[1:]:
                expected = reducers[op](expected, other)
            result = hora.allreduce(inputs[rank], op=op)
            assert result.dtype == dtype and result.shape == shape, (case, dtype, shape)
            assert (result == expected).all(), (case, dtype, shape, op)
            root = case % size
            assert (hora.broadcast(inputs[rank], root) == inputs[root]).all()
            rows = [np.full((int(n), 3), k, dtype) for k, n in enumerate(shared.integers(0, 5, size))]
            assert (hora.allgather(rows[rank]) == np.concatenate(rows)).all()
        flag = np.array([rank == 0, True, False])
        assert (hora.allreduce(flag, op=hora.Sum) == [True, True, False]).all()
        print("good")
    """,
    )
    assert lines == [["good"]] * ranks


def test_handles_can_be_polled_and_synchronised_once():
    run_python(
        2,
        """
        import numpy as np, hora
        hora.init()
        handle = hora.allreduce_async(np.ones(3), op=hora.Sum)
        assert (hora.synchronize(handle) == hora.size()).all()
        for ask in (hora.synchronize, hora.poll):
            try:
                ask(handle)
            except ValueError as error:
                assert f"handle {handle} was already synchronized" in str(error)
            else:
                raise AssertionError
    """,
    )


def test_a_mismatch_is_the_same_error_everywhere_and_the_job_goes_on():
    lines = run_python(
        2,
        """
        import numpy as np, hora
        hora.init()
        try:
            hora.allreduce(np.zeros(3 + hora.rank()), name="w")
        except RuntimeError as error:
            print(error)
        try:
            hora.allreduce(np.zeros(3, np.float32 if hora.rank() else np.int32), name="v")
        except hora.HoraInternalError as error:
            print(error)
        print(hora.allreduce(np.ones(1), op=hora.Sum))
    """,
    )
    assert (
        lines[0]
        == lines[1]
        == [
            "'allreduce.w': tensor differs between ranks: float64[3] on rank 0, float64[4] on rank 1",
            "'allreduce.v': tensor differs between ranks: int32[3] on rank 0, float32[3] on rank 1",
            "[2.]",
        ]
    )


def test_objects_are_broadcast():
    lines = run_python(
        3,
        """
        import hora
        hora.init()
        print(hora.broadcast_object({"rank": hora.rank(), "words": ["a", "b"]}, root_rank=1))
    """,
    )
    assert lines == [["{'rank': 1, 'words': ['a', 'b']}"]] * 3


def test_objects_are_gathered_in_rank_order():
    lines = run_python(
        3,
        """
        import hora
        hora.init()
        print(hora.allgather_object({"rank": hora.rank(), "text": "x" * hora.rank()}))
        try:
            hora.allgather_object(lambda: 1 if hora.rank() == 2 else 0, name="functions") if hora.rank() == 2 else hora.allgather_object(0, name="functions")
        except ValueError as error:
            print(error)
        print(hora.allgather_object(hora.rank()))
    """,
    )
    assert lines[0] == lines[1] == lines[2]
    assert lines[0][0] == "[{'rank': 0, 'text': ''}, {'rank': 1, 'text': 'x'}, {'rank': 2, 'text': 'xx'}]"
    assert "'allgather_object.functions': rank 2 cannot pickle its object: " in lines[0][1]
    assert lines[0][2] == "[0, 1, 2]"


def test_without_pickle_objects_are_refused_before_anything_is_sent():
    lines = run_python(
        2,
        """
        import hora
        import numpy as np
        hora.init()
        for call in (lambda: hora.broadcast_object(1), lambda: hora.allgather_object(1), lambda: hora.gather_object(1), lambda: hora.scatter_object([1, 1]),
                     lambda: hora.send_object(1, 1 - hora.rank()), lambda: hora.recv_object()):
            try:
                call()
            except NotImplementedError as error:
                print(error)
        print(hora.allreduce(np.ones(1, np.float32), op=hora.Sum))
    """,
        environment={"HORA_NO_PICKLE": "1"},
    )
    forbidden = "objects travel as pickles, which HORA_NO_PICKLE=1 forbids: use arrays or tensors, or unset it on all ranks"
    names = [
        "broadcast_object",
        "allgather_object",
        "gather_object",
        "scatter_object",
        "send_object",
        "recv_object",
    ]
    assert lines == [[*(f"'{name}': {forbidden}" for name in names), "[2.]"]] * 2


def test_an_object_that_cannot_be_pickled_is_refused_on_every_rank():
    lines = run_python(
        3,
        """
        import hora
        hora.init()
        try:
            hora.broadcast_object(lambda: 1, root_rank=1, name="function")
        except ValueError as error:
            print(error)
        print(hora.broadcast_object([1], root_rank=1))
    """,
    )
    assert lines[0] == lines[1] == lines[2]
    assert "'broadcast_object.function': rank 1 cannot pickle its object: " in lines[0][0]
    assert lines[0][1] == "[1]"


def test_a_name_that_is_under_way_is_refused_and_the_first_goes_on():
    lines = run_python(
        2,
        """
        import numpy as np, hora
        hora.init()
        if hora.rank() == 0:
            handle = hora.allreduce_async(np.ones(2), name="x", op=hora.Sum)
            try:
                hora.allreduce_async(np.ones(2), name="x")
            except ValueError as error:
                print(error)
            hora.barrier()
        else:
            hora.barrier()
            handle = hora.allreduce_async(np.ones(2), name="x", op=hora.Sum)
        print(hora.synchronize(handle))
    """,
    )
    assert "'allreduce.x'" in lines[0][0]
    assert lines[0][1] == lines[1][0] == "[2. 2.]"


def test_ops_and_roots_that_differ_are_named_with_both_values():
    lines = run_python(
        2,
        """
        import numpy as np, hora
        hora.init()
        for wrong in (lambda: hora.allreduce(np.ones(1), name="o", op=hora.Sum if hora.rank() else hora.Max),
                      lambda: hora.broadcast(np.ones(1), hora.rank(), name="r")):
            try:
                wrong()
            except RuntimeError as error:
                print(error)
        print(hora.allreduce(np.ones(1)))
    """,
    )
    assert lines[0] == lines[1]
    assert "max on rank 0, sum on rank 1" in lines[0][0]
    assert "0 on rank 0, 1 on rank 1" in lines[0][1]


def test_ctrl_c_interrupts_the_wait_and_the_memory_stays_lent():
    lines = run_python(
        2,
        """
        import numpy as np, hora, os, signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background are started without it
        hora.init()
        if hora.rank() == 0:
            handle = hora.allreduce_async(np.ones(1 << 18), name="x", op=hora.Sum)
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                hora.synchronize(handle)
            except KeyboardInterrupt:
                print("interrupted")
            hora.barrier()
        else:
            hora.barrier()  # rank 0 has been interrupted
            handle = hora.allreduce_async(np.ones(1 << 18), name="x", op=hora.Sum)
        assert (hora.synchronize(handle) == 2).all()
    """,
    )
    assert lines == [["interrupted"], []]


def test_whatever_is_submitted_in_whatever_order_is_reduced_as_numpy_does():
    """Every rank draws the same examples, and submits the tensors of each in an order of its own."""
    run_python(
        3,
        """
        import numpy as np, hora, random
        from hypothesis import given, settings, strategies as st
        from hypothesis.extra import numpy as hnp
        hora.init()
        order = random.Random(hora.rank())
        reducers = {hora.Sum: np.add, hora.Min: np.minimum, hora.Max: np.maximum, hora.Product: np.multiply}
        dtypes = st.sampled_from(["uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
        tensors = st.lists(st.tuples(hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=20),
                                                elements=st.integers(0, 3)), st.sampled_from(sorted(reducers))), max_size=8)
        @settings(max_examples=60, derandomize=True, database=None, deadline=None)
        @given(tensors)
        def check(drawn):
            numbers = list(range(len(drawn)))
            order.shuffle(numbers)
            handles = {n: hora.allreduce_async((drawn[n][0] + hora.rank()).astype(drawn[n][0].dtype), f"t{n}", drawn[n][1]) for n in numbers}
            for n, (array, op) in enumerate(drawn):
                each = [(array + rank).astype(array.dtype) for rank in range(3)]
                expected = reducers[op](reducers[op](each[0], each[1]), each[2])
                result = hora.synchronize(handles[n])
                assert result.dtype == array.dtype and result.shape == array.shape
                assert np.array_equal(result, expected), (array, op, result)
        check()
    """,
    )


def test_a_process_may_leave_and_join_again():
    run_python(
        2,
        """
        import numpy as np, hora
        for round in range(10):
            hora.init()
            assert hora.is_initialized()
            assert (hora.allreduce(np.ones(1000), op=hora.Sum) == 2).all()
            hora.shutdown()
            assert not hora.is_initialized()
    """,
    )


def test_before_init_it_says_so():
    with pytest.raises(hora.HoraInternalError, match="not initialised"):
        hora.rank()


def test_arguments_are_refused_in_the_callers_thread():
    lines = run_python(
        1,
        """
        import numpy as np, hora
        hora.init()
        for make in (lambda: hora.allreduce(np.zeros(3, np.longdouble), name="c"), lambda: hora.broadcast(np.zeros(1), 5, name="b"),
                     lambda: hora.allgather(np.float32(1), name="g"),
                     lambda: hora.allreduce(np.zeros(1), op=17), lambda: hora.allreduce(np.zeros(1, ">f4"), name="e"),
                     lambda: hora.allreduce(np.ma.array([1.0], mask=[True]), name="m")):
            try:
                make()
            except ValueError as error:
                print(error)
        assert hora.allreduce(np.ones(1))[0] == 1
    """,
    )
    expected = (
        "float128 cannot be sent",
        "no root rank 5",
        "scalar",
        "op=17",
        "byte order",
        "masks cannot be sent",
    )
    for line, text in zip(lines[0], expected, strict=True):
        assert text in line


def test_a_forked_child_still_knows_its_rank_but_cannot_join():
    lines = run_python(
        2,
        """
        import os, hora
        hora.init()
        if os.fork() == 0:
            try:
                print(hora.rank(), hora.is_initialized(), flush=True)
                hora.init()
            except hora.HoraInternalError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
        hora.barrier()
    """,
    )
    for rank, said in enumerate(lines):
        assert said[0] == f"{rank} False"
        assert "only the rank itself can join the job" in said[1]


def test_a_rank_whose_forked_child_has_joined_in_its_place_is_told_so():
    lines = run_python(
        2,
        """
        import os, hora
        child = os.fork()
        if child == 0:
            hora.init()
            hora.shutdown()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        try:
            hora.init()
        except hora.HoraUnavailableError as error:
            print(error)
    """,
    )
    for (said,) in lines:
        assert "another process of this rank, such as a child that it forked" in said
        assert "call init() in the process that trains" in said


def test_an_uncaught_exception_reaches_the_other_ranks_and_nobody_hangs():
    program = """import numpy as np, hora, sys
hora.init()
if hora.rank() == 1:
    raise ValueError("no data here")
try:
    hora.allreduce(np.ones(1), name="x")
except RuntimeError as error:
    print(error)
"""
    result = hrun("-np", "2", sys.executable, "-c", program, seconds=30)
    assert result.returncode == 1
    assert re.search(
        r"'allreduce.x': rank 1 \(pid \d+ on \S+\) failed: ValueError: no data here \(<string>:4\); it exited with code 1\n",
        result.stdout,
    ), result.stdout
    assert "rank 1 (pid" in result.stderr


@pytest.mark.parametrize("origin", [0, 1, 2])
def test_the_rank_that_raised_first_ends_first_and_its_last_words_come_last(origin: int):
    program = f"""import numpy as np, hora
hora.init()
if hora.rank() == {origin}:
    raise ValueError("no data here")
hora.allreduce(np.ones(1), name="x")
"""
    result = hrun("-np", "3", sys.executable, "-c", program, seconds=30)
    assert result.returncode == 1
    summary = result.stderr[result.stderr.index("\nhrun: rank") :]
    assert summary.startswith(f"\nhrun: rank {origin} (pid ")
    assert "ValueError: no data here" in summary


def test_a_killed_rank_is_named():
    program = """import numpy as np, hora, os, signal, time
hora.init()
hora.barrier()
if hora.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
start = time.monotonic()
try:
    hora.allreduce(np.ones(1), name="x")
except RuntimeError as error:
    print(error, time.monotonic() - start < 1.0)
"""
    result = hrun("-np", "3", sys.executable, "-c", program, seconds=30)
    assert result.returncode == 137
    survivors = [line for line in result.stdout.splitlines() if "rank 1 (pid" in line and "is gone" in line]
    assert len(survivors) == 2
    assert all(line.endswith("True") for line in survivors)


def test_forked_children_cannot_use_it_and_do_no_harm():
    run_python(
        2,
        """
        import numpy as np, hora, os
        hora.init()
        under_way = hora.irecv(source=1 - hora.rank()), hora.allreduce_async(np.ones(1), name=str(hora.rank()))
        calls = [lambda: hora.allreduce(np.ones(1)), hora.barrier, lambda: hora.send(np.ones(1), 0), lambda: hora.broadcast_object(1)]
        calls += [lambda ask=ask, handle=handle: ask(handle) for ask in (hora.poll, hora.synchronize) for handle in under_way]
        child = os.fork()
        if child == 0:
            for call in calls:
                try:
                    call()
                    os._exit(1)
                except RuntimeError as error:
                    if "was forked from the rank" not in str(error):
                        os._exit(2)
            os._exit(0 if not hora.is_initialized() else 3)
        assert os.waitpid(child, 0)[1] == 0
        assert hora.allreduce(np.ones(1), op=hora.Sum)[0] == 2
    """,
    )


def test_groups_of_arrays_are_done_together_or_not_at_all():
    lines = run_python(
        2,
        """
        import numpy as np, hora
        hora.init()
        rank = hora.rank()
        arrays = [np.full(3, rank + 1.0), np.full((2, 2), rank, np.int32)]
        sums = hora.grouped_allreduce(arrays, op=hora.Sum)
        print([array.tolist() for array in sums])
        print([array.shape for array in hora.grouped_allgather([np.ones((rank + 1, 2)), np.ones(1)])])
        print([array.tolist() for array in hora.grouped_reducescatter([np.arange(4.0), np.arange(2.0)], op=hora.Sum)])
        print([array.tolist() for array in hora.synchronize(hora.grouped_allreduce_async(arrays, op=hora.Max))])
        for arguments in ([np.ones(2), np.ones(2 + rank)], [], np.ones(2)):
            try:
                hora.grouped_allreduce(arguments, name="g")
            except Exception as error:
                print(type(error).__name__, error)
        print(hora.allreduce(np.ones(1), op=hora.Sum))
        """,
    )
    differs = "tensor differs between ranks: float64[2] on rank 0, float64[3] on rank 1"
    for rank, said in enumerate(lines):
        assert said[0] == "[[3.0, 3.0, 3.0], [[1, 1], [1, 1]]]"
        assert said[1] == "[(3, 2), (2,)]"
        assert said[2] == ("[[0.0, 2.0], [0.0]]", "[[4.0, 6.0], [2.0]]")[rank]
        assert said[3] == "[[2.0, 2.0, 2.0], [[1, 1], [1, 1]]]"
        assert said[4].startswith("HoraInternalError 'grouped_allreduce.g_")
        assert differs in said[4]
        assert said[5] == "HoraShapeError 'grouped_allreduce.g': a group needs one array or tensor at least"
        assert said[6] == (
            "HoraArgumentError 'grouped_allreduce.g': expected a list of arrays or tensors, not ndarray"
        )
        assert said[7] == "[2.]"
