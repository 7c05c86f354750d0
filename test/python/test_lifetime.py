# SPDX-License-Identifier: Apache-2.0
"""init and shutdown, again and again."""

import pathlib
import sys

import pytest
from ranks import hrun, run_python
from ready_ranks import run_ready


def test_a_process_that_joins_and_leaves_again_and_again_leaves_nothing_behind():
    run_ready(
        2,
        """
        import gc, os, pytest, torch, weakref, hora.torch as hvd
        from hora import _job
        torch.set_num_threads(1)
        before = None
        last = 0
        first = hvd.ProcessSet([0])
        with pytest.raises(ValueError, match="process_sets"):
            hvd.init(comm=[0])
        for round in range(25):
            assert not hvd.is_initialized()
            hvd.init(process_sets=[first] if round % 2 else "DYNAMIC")
            hvd.init(comm=[1, 0])
            rank = hvd.rank()
            other = hvd.add_process_set([1])
            assert other.process_set_id == (2 if round % 2 else 1)
            handle = hvd.allreduce_async(torch.ones(1000), op=hvd.Sum)
            assert handle > last  # no number is used twice
            last = handle
            assert hvd.synchronize(handle)[999] == 2
            assert hvd.grouped_allgather([torch.ones(rank, 2), torch.zeros(2)])[0].shape == (1, 2)
            if other.included():
                assert hvd.allreduce(torch.ones(3), op=hvd.Sum, process_set=other)[0] == 1
            assert hvd.alltoall(torch.arange(2))[0] == rank
            left = torch.ones(5)
            gone = weakref.ref(left)
            unmet = hvd.allreduce_async_(left, name=f"only on rank {rank}")
            assert not hvd.poll(unmet)
            hvd.barrier()
            hvd.shutdown()
            hvd.shutdown()
            for ask in (hvd.synchronize, hvd.poll):
                with pytest.raises(ValueError, match=f"{unmet} is no handle of an operation in this job"):
                    ask(unmet)
            assert other.process_set_id is None and first.process_set_id is None and hvd.global_process_set.ranks is None
            with pytest.raises(hvd.HorovodInternalError, match="not initialised"):
                hvd.allreduce(torch.ones(1))
            with pytest.raises(ValueError, match="not initialised"):
                hvd.allreduce(torch.ones(1), process_set=other)
            del left
            gc.collect()
            assert gone() is None and not _job._pending
            descriptors, threads = sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
            mapped = sum("hora" in line for line in open("/proc/self/maps"))
            if round >= 2:
                assert (len(descriptors), threads, mapped) == before, (round, before, descriptors, threads, mapped)
            before = (len(descriptors), threads, mapped)
    """,
    )


def test_memory_that_the_other_ranks_may_still_reduce_outlives_its_optimizer():
    run_ready(
        2,
        """
        import gc, weakref, torch, hora.torch as hvd
        from hora import _job
        hvd.init()
        rank = hvd.rank()

        first, last = (torch.nn.Parameter(torch.ones(1000)) for _ in range(2))
        def wrapped():
            return hvd.DistributedOptimizer(torch.optim.SGD([first, last], 0.1), [("first", first), ("last", last)])

        def train():
            optimizer = wrapped()
            def stop(gradient):
                raise KeyError("in the middle")
            for step in range(2):
                optimizer.zero_grad()
                loss = (torch.exp(first) * last).sum()
                if step == 1:
                    inner = torch.exp(first)
                    inner.register_hook(stop)
                    if rank == 1:
                        hvd.barrier()  # rank 0 has dropped everything
                    try:
                        (inner * last).sum().backward()
                        raise AssertionError("it was not interrupted")
                    except KeyError:
                        pass
                else:
                    loss.backward()
            places = [slot.place for slot in optimizer._reducer.slots if slot.pending is not None]
            assert len(places) == 1
            return weakref.ref(places[0])

        there = train()
        first.grad = last.grad = None
        optimizer = wrapped()  # takes the parameters
        gc.collect()
        assert (there() is not None) or rank == 1
        if rank == 0:
            hvd.barrier()
        hvd.barrier()
        _job.let_go_of_ended()
        gc.collect()
        assert there() is None
    """,
        environment={"HORA_CPU_OPERATIONS": "tcp"},  # so that gradients are submitted as they come
    )


def test_memory_that_is_lent_is_kept_though_its_tensor_is_given_other_memory():
    run_ready(
        2,
        """
        import gc, weakref, numpy as np, torch, hora.torch as hvd
        hvd.init()
        memory = np.full(1000, 1.0 + hvd.rank(), np.float32)
        there = weakref.ref(memory)
        tensor = torch.from_numpy(memory)
        del memory
        if hvd.rank() == 0:
            handle = hvd.allreduce_async_(tensor, name="x", op=hvd.Sum)
            tensor.data = torch.zeros(3)
            gc.collect()
            assert there() is not None
            hvd.barrier()
        else:
            hvd.barrier()
            handle = hvd.allreduce_async_(tensor, name="x", op=hvd.Sum)
        assert hvd.synchronize(handle) is tensor
        assert tensor.tolist() == [0] * 3 if hvd.rank() == 0 else tensor[0] == 3
        gc.collect()
        assert (there() is None) == (hvd.rank() == 0)
    """,
    )


def test_what_is_under_way_ends_with_an_error_when_another_thread_leaves():
    run_ready(
        2,
        """
        import threading, torch, hora.torch as hvd
        hvd.init()
        said = []
        handle = hvd.allreduce_async(torch.ones(2), name=f"only on rank {hvd.rank()}")
        started = threading.Event()
        def wait():
            started.set()
            try:
                hvd.synchronize(handle)
                said.append("nothing")  # it left before this thread came to wait
            except hvd.HorovodInternalError as error:
                said.append(str(error))
        waiter = threading.Thread(target=wait)
        waiter.start()
        started.wait()
        hvd.shutdown()
        waiter.join()
        assert len(said) == 1
        hvd.init()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
    """,
    )


@pytest.mark.long
def test_handles_that_nobody_synchronises_keep_results_and_no_inputs():
    """Of 1,000 handles at most some hundred keep what was lent. A handle and its result take less than 4 KiB
    beside the result's elements."""
    run_ready(
        1,
        """
        import gc, numpy as np, pytest, torch, tracemalloc, weakref, hora, hora.torch as hvd
        torch.set_num_threads(1)
        hvd.init()
        class Lent(torch.Tensor): pass
        class LentArray(np.ndarray): pass
        made = lambda: torch.ones(2, 2).as_subclass(Lent)
        starts = {
            "allreduce": lambda x: hvd.allreduce_async(x), "allgather": lambda x: hvd.allgather_async(x), "broadcast": lambda x: hvd.broadcast_async(x, 0),
            "alltoall": lambda x: hvd.alltoall_async(x), "reducescatter": lambda x: hvd.reducescatter_async(x), "gather": lambda x: hvd.gather_async(x, 0),
            "scatter": lambda x: hvd.scatter_async(x, 0), "reduce": lambda x: hvd.reduce_async(x, 0), "scan": lambda x: hvd.scan_async(x),
            "group": lambda x: hvd.grouped_allreduce_async([x, x]), "groups": lambda x: hvd.grouped_allgather_async([x]), "send": lambda x: hvd.isend(x, 0),
        }
        for name, start in starts.items():
            alive, results, handles = weakref.WeakSet(), [], []
            for number in range(1000):
                if number == 500:
                    gc.collect()
                    tracemalloc.start()
                lent = made()
                alive.add(lent)
                handles.append(start(lent))
                if name != "send" and number % 50 == 0:
                    hvd.barrier()
                del lent
            gc.collect()
            bytes_of_each = tracemalloc.get_traced_memory()[0] / 500
            tracemalloc.stop()
            assert len(alive) < 300, (name, len(alive))
            assert bytes_of_each < 4096, (name, bytes_of_each)
            if name not in ("send", "group", "groups", "alltoall"):
                assert all(torch.equal(torch.as_tensor(hvd.synchronize(handle)), torch.ones(2, 2)) for handle in handles), name
    """,
    )


def test_init_without_memory_for_a_thread_says_what_that_is_for_and_may_be_tried_again():
    lines = run_python(
        1,
        """
        import hora, resource
        before = resource.getrlimit(resource.RLIMIT_AS)
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (4 << 20), before[1]))
        try:
            hora.init()
        except hora.HoraUnavailableError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_AS, before)
        hora.init()
        print(hora.size())
    """,
    )
    assert lines[0][0].startswith("the thread that ")
    assert (
        "cannot be started: Resource temporarily unavailable; it needs memory for its stack (ulimit -v"
        in lines[0][0]
    )
    assert lines[0][1] == "1"


def test_ranks_may_name_their_program_by_different_paths(tmp_path: pathlib.Path):
    (tmp_path / "program.py").write_text("import hora\nhora.init()\n")
    named = {"0": "program.py", "1": str(tmp_path / "program.py"), "2": "./program.py"}
    choice = "\n".join(f"{rank}) exec {sys.executable} {path};;" for rank, path in named.items())
    command = f"cd {tmp_path}; case $HORA_RANK in\n{choice}\nesac"
    said = hrun("-np", "3", "sh", "-c", command)
    assert said.returncode == 0, said.stderr
    assert "other arguments" not in said.stderr
    said = hrun("-np", "2", "sh", "-c", f"cd {tmp_path}; exec {sys.executable} program.py $HORA_RANK")
    assert "ranks were started with other arguments" in said.stderr
