# SPDX-License-Identifier: Apache-2.0
"""Handles that tell when their operation has ended: `then` and `await`, and the memory of callers for results
(`out=`)."""

import asyncio
import os
import threading
from typing import Any

import hora
import hora.torch as hvd
import numpy as np
import pytest
import torch
from hora import HoraArgumentError, HoraInternalError
from ranks import run_python

WITHIN = 20.0  # seconds


@pytest.fixture
def alone():
    """A job of this process alone."""
    hora.init()
    yield
    hora.shutdown()


@pytest.mark.long
def test_a_callback_gets_the_handle_when_all_operations_of_a_group_have_ended():
    lines = run_python(
        2,
        """
        import threading, torch, hora.torch as hvd
        hvd.init()
        ended = threading.Event()
        def call(handle):
            print(threading.current_thread().name, [t.tolist() for t in hvd.synchronize(handle)])
            ended.set()
        tensors = [torch.ones(2), torch.ones(1)]
        handle = hvd.grouped_allreduce_async(tensors, name="g", op=hvd.Sum)
        handle.then(call)
        assert ended.wait(20)
        """,
    )
    assert lines == [["hora callbacks [[2.0, 2.0], [2.0]]"]] * 2


def test_an_event_loop_goes_on_while_coroutines_wait_for_operations():
    lines = run_python(
        2,
        """
        import asyncio, numpy as np, hora
        hora.init()
        async def main():
            # Rank 0 waits for what rank 1 submits only after it has heard of rank 0.
            waits = asyncio.ensure_future(collect("late")) if hora.rank() == 0 else None
            await asyncio.sleep(0)
            if hora.rank() == 0:
                hora.send(np.ones(1), dest=1)
                print(await waits)
            else:
                await hora.irecv(source=0)
                print(await collect("late"))
        async def collect(name):
            return (await hora.allreduce_async(np.array([hora.rank() + 1]), name=name, op=hora.Sum)).tolist()
        asyncio.run(main())
        """,
    )
    assert lines == [["[3]"]] * 2


@pytest.mark.usefixtures("alone")
def test_an_awaited_error_is_that_of_the_operation():
    async def fail():
        await hora.allgather_async(np.ones(3), name="g", out=np.zeros(2))

    with pytest.raises(HoraInternalError, match="'allgather.g': its output has 2 rows, but the result has 3"):
        asyncio.run(fail())


@pytest.mark.usefixtures("alone")
def test_a_cancelled_coroutine_leaves_its_operation_under_way():
    async def cancel():
        handle = hora.irecv(source=0, tag=3)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(handle, 0.01)
        hora.send(np.array([5]), dest=0, tag=3)
        assert (await handle)[0].tolist() == [5]

    asyncio.run(cancel())


@pytest.mark.usefixtures("alone")
def test_an_exception_of_a_callback_is_that_of_a_thread_and_the_next_one_is_called(
    monkeypatch: pytest.MonkeyPatch,
):
    printed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)

    def fail_with(error: BaseException) -> None:
        failed = threading.Event()

        def fail(handle: hora.Handle) -> None:
            failed.set()
            raise error

        hora.allreduce_async(np.ones(1)).then(fail)
        assert failed.wait(WITHIN)

    fail_with(ValueError("no such metric"))
    fail_with(SystemExit(3))
    ended = threading.Event()
    hora.allreduce_async(np.ones(1)).then(lambda handle: ended.set())
    assert ended.wait(WITHIN)
    assert [repr(each.exc_value) for each in printed] == ["ValueError('no such metric')", "SystemExit(3)"]


def test_a_handle_of_a_former_job_takes_nothing_of_the_next_one():
    hora.init()
    former = hora.irecv(source=0)
    hora.shutdown()
    hora.init()
    present = hora.allreduce_async(np.ones(1))
    assert former != present
    with pytest.raises(HoraArgumentError, match="is no handle of an operation in this job"):
        hora.synchronize(former)
    assert hora.synchronize(present).tolist() == [1.0]
    hora.shutdown()


def test_a_coroutine_hears_of_a_job_that_is_left():
    hora.init()

    async def leave():
        waits = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        await asyncio.to_thread(hora.shutdown)
        with pytest.raises(HoraInternalError):
            await waits

    async def wait():
        await hora.irecv(source=0, tag=4)

    asyncio.run(leave())


def test_a_forked_child_has_callbacks_of_its_own():
    hora.init()
    ended = threading.Event()
    hora.allreduce_async(np.ones(1)).then(lambda handle: ended.set())
    assert ended.wait(WITHIN)
    hora.shutdown()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            hora.init()
            own = threading.Event()
            hora.allreduce_async(np.ones(1)).then(lambda handle: own.set())
            code = 0 if own.wait(WITHIN) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.usefixtures("alone")
def test_results_go_into_memory_of_the_caller():
    rows, result = torch.arange(6.0).reshape(3, 2), torch.zeros(3, 2)
    for operate in (hvd.allgather, hvd.reducescatter):
        result.zero_()
        assert operate(rows, out=result) is result
        assert torch.equal(result, rows)
    result.zero_()
    assert hvd.alltoall(rows, [2], out=result[:2])[0].data_ptr() == result.data_ptr()
    assert torch.equal(result, torch.tensor([[0.0, 1.0], [2.0, 3.0], [0.0, 0.0]]))
    array, output = np.arange(3), np.zeros(3, np.int64)
    for collect in (hora.allgather, hora.reducescatter, hora.alltoall):
        output[:] = 0
        assert collect(array, out=output) is output
        assert (output == array).all()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("out", "why"),
    [
        (np.zeros((3, 2)), r"out has the shape \(3, 2\), and the result has \(any,\)"),
        (np.zeros(3, np.float32), "out has elements of type float32, and the result has float64"),
        (np.zeros(6)[::2], "out is read-only, or its elements do not lie side by side"),
        (np.broadcast_to(np.zeros(1), 3), "out is read-only, or its elements do not lie side by side"),
        ([0.0, 0.0, 0.0], "out is list, and not a NumPy array"),
    ],
)
def test_an_array_that_cannot_take_the_result_is_refused(out: Any, why: str):
    with pytest.raises(HoraArgumentError, match=rf"'allgather.g': {why}; give a contiguous one that fits"):
        hora.allgather(np.zeros(3), name="g", out=out)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("out", "why"),
    [
        (torch.zeros(2, 2), r"out has the shape \(2, 2\), and the result has \(3, 2\)"),
        (torch.zeros(3, 2, dtype=torch.float64), "out has elements of type torch.float64"),
        (torch.zeros(2, 3).t(), "out has elements that do not lie side by side"),
        (torch.zeros(3, 2, requires_grad=True), "out is to have a gradient"),
        (torch.zeros(3, 2, device="meta"), "out is on meta, and the tensor on cpu"),
    ],
)
def test_a_tensor_that_cannot_take_the_result_is_refused(out: torch.Tensor, why: str):
    with pytest.raises(HoraArgumentError, match=f"'reducescatter.r': {why}"):
        hvd.reducescatter(torch.zeros(3, 2), name="r", out=out)


@pytest.mark.usefixtures("alone")
def test_memory_of_the_caller_is_no_part_of_the_input():
    array = np.zeros(4)
    with pytest.raises(HoraArgumentError, match="'allgather.g': its input and its output overlap"):
        hora.allgather(array, name="g", out=array)
