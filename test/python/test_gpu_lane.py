# SPDX-License-Identifier: Apache-2.0
"""Tensors on GPUs, without one: the fake driver and the fake NCCL take the place of the real ones, and
PyTorch's CPU tensors that of its CUDA tensors, by way of the one module of hora.torch that knows of CUDA.
Float32 tensors lie on the GPU, all others on the CPU. Processes, hrun, libhora and libhora_nccl.so are the
real ones."""

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap

import hora
import pytest
from ranks import ROOT, hrun, run_python
from ready_ranks import ready_python

FAKES = pathlib.Path(os.environ.get("FAKE_GPU_FOLDER", ROOT / "build/default/test/fake_gpu"))


def _missing() -> str | None:
    for library in ("libcuda.so.1", "libnccl.so.2"):
        if not (FAKES / library).exists():
            return f"there is no {FAKES / library}: build it with CUDA's and NCCL's headers"
    return (
        None
        if hora.cuda_built()
        else "there is no libhora_nccl.so beside libhora: build it with CUDA's and NCCL's headers"
    )


pytestmark = pytest.mark.skipif(_missing() is not None, reason=str(_missing()))

PRETEND = """
import contextlib, ctypes, os
import torch
import hora, hora.torch as hvd
from hora.torch._ops import devices
if "RANKS_OF_A_HOST" in os.environ:
    os.environ["NCCL_HOSTID"] = str(int(os.environ["HORA_RANK"]) // int(os.environ["RANKS_OF_A_HOST"]))
hvd.init()
rank, size, gpu = hvd.rank(), hvd.size(), hvd.local_rank()
waits = []

def gpu_of(tensor):
    return gpu if tensor.dtype == torch.float32 and tensor.device.type == "cpu" else None

def tensor_in(memory, dtype, count, offset=0):
    if count == 0:
        return torch.empty(0, dtype=dtype)
    if memory.device is None:
        return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
    room = (ctypes.c_ubyte * len(memory)).from_address(memory.address)
    room.owner = memory
    return torch.frombuffer(room, dtype=dtype, count=count, offset=offset)

def wait_on(handle, stream):
    waits.append(stream)
    handle.wait_on(stream)  # the fake stream waits, but what PyTorch does to CPU tensors is not put on it
    return handle.wait()

devices.gpu_of, devices.tensor_in, devices.wait_on = gpu_of, tensor_in, wait_on
devices.current_stream = lambda gpu: 0
devices.is_captured = lambda gpus: False
devices.on_side_streams = lambda gpus: contextlib.nullcontext()
devices.future_on = lambda gpus: torch.futures.Future()
devices.mark_current_stream = lambda gpu: gpu
devices.let_current_stream_wait = lambda mark: None
"""


def version_of_nccl() -> str:
    """That of the NCCL that this PyTorch brings, as ncclGetVersion has it: "23007"."""
    major, minor, patch = map(int, importlib.metadata.version("nvidia-nccl-cu13").split("."))
    return str(10_000 * major + 100 * minor + patch)


def run_on_gpus(ranks: int, program: str, **environment: str) -> list[list[str]]:
    """The program on as many ranks and GPUs. All memory that the fake driver has not given is the rank's
    GPU's. The fake NCCL has the version of PyTorch's."""
    fakes = {
        "LD_LIBRARY_PATH": f"{FAKES}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        "FAKE_GPUS": str(ranks),
        "FAKE_NCCL_VERSION": version_of_nccl(),
    }
    preload = str(FAKES / "libnccl.so.2")  # else PyTorch brings the real one into the process
    if ranks == 2:
        python = ready_python(
            [{**fakes, "LD_PRELOAD": preload, "FAKE_CUDA_OWNS": str(rank)} for rank in range(ranks)]
        )
    else:  # a server for each rank would take longer
        settings = f"FAKE_CUDA_OWNS=$HORA_LOCAL_RANK LD_PRELOAD={preload}"
        python = ["sh", "-c", f'{settings} exec "$0" "$@"', sys.executable]
    program = PRETEND + textwrap.dedent(program)
    return run_python(ranks, program, environment=fakes | environment, python=python)


def nccl_functions(library: pathlib.Path, which: str) -> set[str]:
    """Those that a library exports (--defined-only) or expects from another one (--undefined-only)."""
    listed = subprocess.run(
        ["nm", "--dynamic", "--format=posix", which, library], capture_output=True, text=True, check=True
    ).stdout
    return {
        name
        for name in (line.split()[0].split("@")[0] for line in listed.splitlines())
        if name.startswith("nccl")
    }


def test_the_fake_nccl_has_every_function_that_pytorch_expects():
    torch = importlib.util.find_spec("torch")
    assert torch is not None and torch.origin is not None
    libraries = (pathlib.Path(torch.origin).parent / "lib").glob("*.so*")
    expected = set().union(*(nccl_functions(library, "--undefined-only") for library in libraries))
    missing = expected - nccl_functions(FAKES / "libnccl.so.2", "--defined-only")
    assert not missing, (
        f"PyTorch {importlib.metadata.version('torch')} cannot be loaded beside the fake NCCL: "
        f"refused_calls.cc lacks {sorted(missing)}"
    )


@pytest.mark.long
@pytest.mark.parametrize("operations", ["nccl", "staged"])
def test_every_operation_gives_what_it_gives_on_the_cpu(operations: str):
    run_on_gpus(
        2,
        """
        def check(operation, *arguments, **keywords):
            there = operation(*[a.float() if isinstance(a, torch.Tensor) else a for a in arguments], **keywords)
            here = operation(*[a.double() if isinstance(a, torch.Tensor) else a for a in arguments], **keywords)
            there, here = ([x] if isinstance(x, torch.Tensor) or x is None else list(x) for x in (there, here))
            assert len(there) == len(here)
            for a, b in zip(there, here):
                assert (a is None) == (b is None), operation
                if a is not None and a.dtype == torch.float32:
                    assert torch.equal(a.double(), b), (operation, a, b)
            assert waits, operation
            waits.clear()
        x = torch.arange(12.0).reshape(6, 2) * (rank + 1)
        for op in (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product):
            check(hvd.allreduce, x, op=op)
        check(hvd.allreduce, x.t(), op=hvd.Sum)
        check(hvd.allreduce, x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
        check(hvd.allreduce, x, op=hvd.Sum, compression=hvd.Compression.fp16)
        check(hvd.allreduce, x, op=hvd.Average, compression=hvd.Compression.mxfp8_e4m3)
        check(hvd.broadcast, x, 1)
        check(hvd.allgather, x[: 2 + rank])
        check(hvd.allgather, x[:0])
        check(hvd.alltoall, x)
        check(hvd.alltoall, x, [1 + rank, 3])
        check(hvd.reducescatter, x[:5], op=hvd.Sum)
        check(hvd.gather, x[: 1 + rank], 1)
        check(hvd.scatter, x, 0)
        check(hvd.reduce, x, 1, hvd.Sum)
        check(hvd.reducescatter, x[:5], op=hvd.Average, compression=hvd.Compression.mxfp8_e4m3)
        check(hvd.reduce, x, 1, hvd.Sum, compression=hvd.Compression.mxfp8_e5m2)
        check(hvd.scan, x)
        check(hvd.allreduce, x.reshape(-1)[:0], op=hvd.Sum)
        check(hvd.allreduce, torch.tensor(3.0 + rank), op=hvd.Sum)
        y = x.t().float()
        assert hvd.allreduce_(y, op=hvd.Sum) is y and torch.equal(y, torch.arange(12.0).reshape(6, 2).t() * 3)
    """,
        HORA_GPU_OPERATIONS=operations,
    )


@pytest.mark.long
def test_ranks_on_several_hosts_use_nccl_within_each():
    run_on_gpus(
        4,
        """
        x = torch.arange(1000.0) * (rank + 1)
        assert torch.equal(hvd.allreduce(x, op=hvd.Sum), torch.arange(1000.0) * 10)
        assert torch.equal(hvd.broadcast(x, 3), torch.arange(1000.0) * 4)
        assert torch.equal(hvd.allgather(x[: 1 + rank]), torch.cat([torch.arange(1.0 + other) * (other + 1) for other in range(4)]))
        assert torch.equal(hvd.alltoall(x[:4]), rank * torch.tensor([1.0, 2, 3, 4]))
        assert torch.equal(hvd.reducescatter(x[:8], op=hvd.Sum), 10 * torch.tensor([2.0 * rank, 2 * rank + 1]))
        w = torch.nn.Parameter(torch.ones(4))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 1.0), [("w", w)], op=hvd.Sum)
        for step in range(2):
            optimizer.zero_grad()
            (w * rank).sum().backward()
            optimizer.step()
        assert torch.equal(w, torch.full((4,), -11.0)) and len(waits) > 6
    """,
        HORA_GPU_OPERATIONS="hierarchical",
        RANKS_OF_A_HOST="2",
    )


def test_groups_and_tensors_on_cpu_and_gpu_go_side_by_side():
    run_on_gpus(
        2,
        """
        handles = [hvd.allreduce_async(torch.full((100 + i,), i + rank, dtype=(torch.float32, torch.float64, torch.int64)[i % 3]), op=hvd.Sum) for i in range(30)]
        for i, handle in enumerate(handles):
            result = hvd.synchronize(handle)
            assert torch.equal(result, torch.full_like(result, 2 * i + 1)), i
        group = hvd.grouped_allreduce([torch.full((3,), 1.0 + rank), torch.full((5, 2), 2.0)], op=hvd.Sum)
        assert torch.equal(group[0], torch.full((3,), 3.0)) and torch.equal(group[1], torch.full((5, 2), 4.0))
        gathered = hvd.grouped_allgather([torch.full((1 + rank,), 1.0), torch.full((2,), 1.0 * rank)])
        assert [tuple(part.shape) for part in gathered] == [(3,), (4,)]
        assert hvd.broadcast_object({"a": 1} if rank == 0 else None, 0) == {"a": 1}
    """,
    )


def test_gradients_of_operations_travel_on_the_gpu_too():
    run_on_gpus(
        2,
        """
        x = torch.full((3,), 1.0 + rank, requires_grad=True)
        (hvd.allreduce(x, op=hvd.Sum) * (rank + 1)).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 3.0))
        y = torch.ones(rank + 1, 2, requires_grad=True)
        (hvd.allgather(y) * torch.arange(3.0)[:, None]).sum().backward()
        assert torch.equal(y.grad, torch.arange(3.0)[:, None].expand(3, 2)[rank : 2 * rank + 1])
    """,
    )


TRAIN = """
from torch import nn
def train(dtype, **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    data, target = torch.randn(4 * size, 8), torch.randint(0, 3, (4 * size,))
    mine = slice(rank, None, size)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), net.named_parameters(), **options)
    for step in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(data[mine]), target[mine]).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return optimizer, [parameter.detach().clone() for parameter in net.parameters()]
"""


@pytest.mark.parametrize("operations", ["nccl", "staged"])
def test_training_gives_what_it_gives_on_the_cpu_bit_for_bit(operations: str):
    run_on_gpus(
        2,
        TRAIN
        + """
for options in ({}, {"compression": hvd.Compression.fp16, "op": hvd.Sum}, {"compression": hvd.Compression.mxfp8_e5m2}, {"groups": 2}, {"op": hvd.Adasum}, {"check_finite": True}):
    waits.clear()
    _, on_gpu = train(torch.float32, **options)
    assert waits, options
    devices.gpu_of = lambda tensor: None
    _, on_cpu = train(torch.float32, **options)
    devices.gpu_of = gpu_of
    for a, b in zip(on_gpu, on_cpu):
        assert torch.equal(a, b), options
""",
        HORA_GPU_OPERATIONS=operations,
    )


def test_gradients_lie_side_by_side_in_memory_of_horas():
    run_on_gpus(
        2,
        TRAIN
        + """
optimizer, _ = train(torch.float32)
places = [slot.place for slot in optimizer._reducer.slots]
assert all(place.data_ptr() % 64 == 0 for place in places)
for place, following in zip(places, places[1:]):
    assert following.data_ptr() == place.data_ptr() + (place.nbytes + 63) // 64 * 64
assert all(slot.parameter.grad is None or slot.in_place() for slot in optimizer._reducer.slots)
""",
    )


def test_gradients_that_are_not_finite_on_one_rank_are_told_on_all():
    run_on_gpus(
        2,
        """
        for dtype in (torch.float32, torch.float64):
            a, b = (torch.nn.Parameter(torch.ones(4, dtype=dtype)) for _ in range(2))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], 0.1), [("a", a), ("b", b)], check_finite=True)
            for step, factor in enumerate((1.0, float("inf"), 2.0, float("nan"))):
                optimizer.zero_grad()
                ((a * (factor if rank == step % 2 else 1.0)).sum() + b.sum()).backward()
                assert optimizer.gradients_finite() == (step % 2 == 0), (dtype, step)
                if optimizer.gradients_finite():
                    optimizer.step()
            assert torch.isfinite(a).all()
    """,
    )


@pytest.mark.parametrize("operations", ["nccl", "staged"])
def test_a_pass_that_fails_on_one_rank_fails_on_all_and_the_job_goes_on(operations: str):
    run_on_gpus(
        2,
        """
        def fail(gradient):
            raise ValueError("bad batch")
        layers = [torch.nn.Linear(2, 2, dtype=dtype) for dtype in (torch.float32, torch.float64)]
        hvd.broadcast_parameters([(f"{i}.{name}", p) for i, layer in enumerate(layers) for name, p in layer.named_parameters()], 0)
        named = [(f"{i}.{name}", p) for i, layer in enumerate(layers) for name, p in layer.named_parameters()]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], 0.1), named)
        for step in range(6):
            before = [p.detach().clone() for _, p in named]
            try:
                hidden = layers[0](torch.full((1, 2), float(rank + step)))
                if step % 3 == 1 and rank == 1:
                    hidden.register_hook(fail)
                layers[1](hidden.double()).sum().backward()
                optimizer.step()
            except (ValueError, hvd.HoraBackwardError) as error:
                assert step % 3 == 1 and isinstance(error, ValueError) == (rank == 1), error
                assert all(torch.equal(p, value) for (_, p), value in zip(named, before))
            else:
                assert step % 3 != 1
            optimizer.zero_grad()
        everybody = hvd.allgather_object([p.tolist() for _, p in named])
        assert everybody[0] == everybody[1]
    """,
        HORA_GPU_OPERATIONS=operations,
    )


def test_a_gradient_that_is_added_to_after_it_was_reduced_counts_as_a_whole():
    run_on_gpus(
        2,
        """
        for dtype in (torch.float32, torch.float64):
            w = torch.nn.Parameter(torch.ones(4, dtype=dtype))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], 0.1), [("w", w)], op=hvd.Sum, check_finite=True)
            def add(much):
                (w * (much if rank == 1 else 0.0)).sum().backward()
            for clear in (optimizer.zero_grad, lambda: setattr(w, "grad", None)):
                clear()
                add(0.75 * torch.finfo(dtype).max)
                assert optimizer.gradients_finite() and torch.isfinite(w.grad).all()
                add(0.75 * torch.finfo(dtype).max)
                assert not optimizer.gradients_finite() and w.grad.isinf().all()
        table = torch.nn.Embedding(4, 2, sparse=True)
        w = torch.nn.Parameter(torch.ones(2))
        named = [("table", table.weight), ("w", w)]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], 0.1), named, check_finite=True)
        for used, factor in ((True, 1.0), (True, float("inf")), (False, 1.0)):
            optimizer.zero_grad()
            loss = w.sum() + (table(torch.tensor([rank])).sum() * factor if used else 0.0)
            loss.backward()
            assert optimizer.gradients_finite() == (factor == 1.0), (used, factor)
    """,
    )


def test_sparse_gradients_and_batch_norm_work_on_the_gpu():
    run_on_gpus(
        2,
        """
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 4, sparse=True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), 1.0), table.named_parameters(), op=hvd.Sum)
        before = table.weight.detach().clone()
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([rank, 5])).sum().backward()
            optimizer.step()
        change = (before - table.weight.detach()).round()
        assert torch.equal(change[:, 0], torch.tensor([2.0, 2, 0, 0, 0, 4, 0, 0, 0, 0]))
        norm = hvd.SyncBatchNorm(3)
        x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
        expected = torch.nn.BatchNorm1d(3)(x)
        assert torch.allclose(norm(x[rank::2]), expected[rank::2], atol=1e-5)
    """,
    )


def test_sparse_sums_that_another_stream_waits_for_are_copied_to_it():
    run_on_gpus(
        2,
        """
        streams, waiting = [0], []
        devices.current_stream = lambda gpu: streams[0]
        devices.note_use = lambda tensor, gpu: None
        devices.let_wait = lambda place: waiting.append(place.stream)
        values = torch.full((2, 3), 1.0 + rank)
        finish = hvd.sparse_allreduce_async(torch.sparse_coo_tensor([[0, rank]], values, (2, 3)), "x", hvd.Sum)
        streams[0] = 1  # CUDA's legacy stream, by another name
        assert torch.equal(finish().to_dense(), torch.tensor([[4.0] * 3, [2.0] * 3])), waiting
        assert waiting == [0] and 1 in waits
    """,
    )


def test_outputs_of_horas_that_another_stream_waits_for_are_copied_to_it():
    run_on_gpus(
        2,
        """
        streams, waiting = [0], []
        devices.current_stream = lambda gpu: streams[0]
        devices.note_use = lambda tensor, gpu: None
        devices.let_wait = lambda place: waiting.append(place.stream)
        for start in (hvd.allgather_async, hvd.alltoall_async):
            handle = start(torch.full((2,), 1.0 + rank))
            streams[0] = 1  # CUDA's legacy stream, by another name
            gathered = hvd.synchronize(handle)
            gathered = gathered[0] if isinstance(gathered, tuple) else gathered
            assert gathered[0] == 1 and gathered[-1] == 2, gathered
            streams[0] = 0
        assert waiting == [0, 0], waiting
    """,
    )


def test_all_ranks_start_alike_with_state_on_the_gpu():
    run_on_gpus(
        2,
        """
        torch.manual_seed(rank)
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(net.parameters(), 0.1 * (rank + 1))
        if rank == 0:
            net(torch.ones(3)).sum().backward()
            optimizer.step()
        hvd.broadcast_parameters(net.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        everybodys = hvd.allgather(torch.cat([p.detach().reshape(1, -1) for p in net.parameters()], 1))
        assert torch.equal(everybodys[0], everybodys[1])
        moments = hvd.allgather(optimizer.state_dict()["state"][0]["exp_avg"].reshape(1, -1))
        assert torch.equal(moments[0], moments[1]) and optimizer.param_groups[0]["lr"] == 0.1
    """,
    )


def test_messages_go_by_way_of_the_cpu():
    run_on_gpus(
        2,
        """
        x = torch.arange(6.0).reshape(2, 3)
        if rank == 0:
            hvd.send(x.t(), 1, tag=3)
        else:
            y = torch.zeros(3, 2)
            assert hvd.recv(y, 0, 3).value is y
            assert torch.equal(y, x.t())
    """,
    )


def test_arrays_on_a_gpu_go_by_dlpack_and_come_back_so():
    run_on_gpus(
        2,
        """
        from hora import _job, _native
        class Array:  # as CuPy's
            def __init__(self, values, shape):
                room = (ctypes.c_float * len(values))(*values)
                self.shape = shape
                self.memory = _job.runtime().allocate(4 * max(len(values), 1), gpu)
                ctypes.memmove(self.memory.address, room, 4 * len(values))
            def __dlpack_device__(self):
                return 2, gpu
            def __dlpack__(self, stream):
                assert stream == 1
                return self.memory.dlpack(_native.DType.float32, self.shape)
        def values(array):
            assert array.__dlpack_device__() == (2, gpu) and array.dtype == "float32"
            lent = _native.LentArray(array.__dlpack__(stream=2))
            assert lent.device == gpu and tuple(lent.shape) == array.shape
            array.made_by.wait()
            count = 1
            for extent in array.shape:
                count *= extent
            interface = array.__cuda_array_interface__
            assert interface["typestr"] == "<f4" and interface["shape"] == array.shape and interface["stream"] == 1
            return list((ctypes.c_float * count).from_address(lent.address))
        x = Array([1.0 + rank, 2, 3, 4], (4, 1))
        result = values(hora.allreduce(x, op=hora.Sum))
        assert result == [3, 4, 6, 8], result
        assert values(hora.broadcast(x, 1)) == [2, 2, 3, 4]
        assert values(hora.allgather(x)) == [1, 2, 3, 4, 2, 2, 3, 4]
        out, splits = hora.alltoall(x, [1, 3])
        assert values(out) == ([1, 2] if rank == 0 else [2, 3, 4, 2, 3, 4]) and splits.tolist() == [[1, 1], [3, 3]][rank]
        assert values(hora.reducescatter(x, op=hora.Sum)) == ([3, 4] if rank == 0 else [6, 8])
        assert values(hora.scan(x)) == ([1, 2, 3, 4] if rank == 0 else [3, 4, 6, 8])
        gathered = hora.gather(x, 0)
        assert gathered is None if rank else values(gathered) == [1, 2, 3, 4, 2, 2, 3, 4]
        try:
            hora.send(x, 0)
        except hora.HoraArgumentError as error:
            assert f"cuda:{gpu}" in str(error) and "messages travel between CPUs" in str(error)
        try:
            hora.allreduce(x).__dlpack__(stream=0)
        except ValueError as error:
            assert "stream=0" in str(error)
    """,
    )


def test_a_rank_may_have_no_more_batches_on_its_gpu():
    run_on_gpus(
        2,
        """
        for step in range(2 + rank):
            result = hvd.allreduce(torch.ones(3), op=hvd.Sum, name=f"x{step}")
            assert torch.equal(result, torch.full((3,), 2.0 if step < 2 else 1.0))
        assert hvd.join() in (0, 1)
    """,
    )


def test_a_second_gpu_in_one_process_is_refused():
    run_on_gpus(
        2,
        """
        hvd.allreduce(torch.ones(2))
        gpu_before, gpu = gpu, 1 - gpu
        try:
            hvd.allreduce(torch.ones(2), name="x")
            assert False
        except hvd.HoraArgumentError as error:
            assert f"cuda:{gpu_before}" in str(error) and "one GPU" in str(error), error
        gpu = gpu_before
        assert torch.equal(hvd.allreduce(torch.ones(2), op=hvd.Sum), torch.full((2,), 2.0))
    """,
    )


STAND_STILL = """
import gc, threading, time, weakref
import numpy as np
hvd.allreduce(torch.ones(1))
cuda, context, go_on = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), threading.Event()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu) == 0 and cuda.cuCtxPushCurrent_v2(context) == 0
wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: go_on.wait())
def stand_still():
    assert cuda.cuLaunchHostFunc(None, wait, None) == 0
def refused(what, *arguments):
    try:
        what(*arguments)
    except hvd.HoraInternalError as error:
        return str(error)
    raise AssertionError("it was not refused")
"""


@pytest.mark.long
def test_tensors_that_the_gpu_may_still_use_are_kept_when_the_job_fails():
    run_on_gpus(
        2,
        STAND_STILL
        + """
def reduced(count, name):
    memory = np.ones(count, np.float32)
    handle = hvd.allreduce_async_(torch.from_numpy(memory), name=name)
    while not hvd.poll(handle):
        time.sleep(0.001)
    return weakref.ref(memory), refused(hvd.synchronize, handle)
there, error = reduced(3 + rank, "x")
gc.collect()
assert there() is None, error  # the ranks disagreed, and nothing was done with it
if rank == 1:
    stand_still()  # and does so for longer than the runtime's limit
there, error = reduced(1000, "y")
gc.collect()
assert there() is not None, error
go_on.set()
""",
        HORA_OPERATION_TIMEOUT="1",
    )


@pytest.mark.long
def test_state_is_not_saved_after_steps_whose_gradients_were_aborted():
    run_on_gpus(
        2,
        STAND_STILL
        + """
devices.finish = lambda gpu: cuda.cuStreamSynchronize(None)
model = torch.nn.Linear(2, 1, bias=False)
state = hvd.elastic.TorchState(model, torch.optim.SGD(model.parameters(), 0.1), epoch=1)
state.sync()
before = model.weight.detach().clone()
if rank == 1:
    stand_still()
devices.wait_on = lambda handle, stream: handle.wait_on(stream)
brought = torch.ones(1000)
hvd.allreduce_(brought, name="y")
with torch.no_grad():
    model.weight.fill_(float("nan"))  # a step with what comes of that
state.epoch = 2
if rank == 1:
    threading.Timer(3, go_on.set).start()
for save in (state.save, state.commit, state.sync):
    error = refused(save)
    assert "HORA_OPERATION_TIMEOUT" in error or rank == 1, error
state.restore()
assert torch.equal(model.weight, before) and state.epoch == 1
""",
        HORA_OPERATION_TIMEOUT="1",
    )


GRAPH = (
    STAND_STILL
    + """
stream = ctypes.c_void_p()
assert cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0) == 0
devices.current_stream = lambda gpu: stream.value
class Graph:
    def __enter__(self):
        assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
        devices.is_captured = lambda gpus: bool(gpus)
        devices.wait_on = lambda handle, stream: handle.wait_on(stream)
        return self
    def __exit__(self, *error):
        devices.is_captured, devices.wait_on = lambda gpus: False, wait_on
        graph = ctypes.c_void_p()
        assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
        self.runnable = ctypes.c_void_p()
        assert cuda.cuGraphInstantiateWithFlags(ctypes.byref(self.runnable), graph, ctypes.c_ulonglong(0)) == 0
        assert cuda.cuGraphDestroy(graph) == 0
    def launch(self):
        assert cuda.cuGraphLaunch(self.runnable, stream) == 0
    def replay(self):
        self.launch()
        assert cuda.cuStreamSynchronize(stream) == 0
    def destroy(self):
        assert cuda.cuGraphExecDestroy(self.runnable) == 0
"""
)


@pytest.mark.parametrize("operations", ["nccl", "staged"])
def test_operations_that_are_captured_into_a_graph_run_with_it(operations: str):
    run_on_gpus(
        2,
        GRAPH
        + """
x, root, parts = torch.ones(5), torch.zeros(3), torch.zeros(4, 2)
def step():
    total = hvd.allreduce(x, op=hvd.Sum, name="total")
    hvd.allreduce_(x, name="mean")
    hvd.broadcast_(root, 1, name="root")
    own = hvd.reducescatter(parts, op=hvd.Sum, name="own")
    return total, own, hvd.grouped_allreduce([x, x.clone()], name="pair")
try:
    with Graph():
        hvd.broadcast_(root, 1, name="root")
    raise AssertionError("it was not refused")
except hvd.HoraArgumentError as error:
    assert "no broadcast of float32 to or from rank 1 has run on the GPU before" in str(error), error
step()
root.zero_()
with Graph() as graph:
    total, own, pair = step()
assert not root.any(), "a capture carries nothing out"
for step in range(30):
    x.fill_(rank + step)
    root.fill_(rank + 10 * step)
    parts.copy_(torch.arange(8.0).view(4, 2) * step)
    graph.replay()
    assert torch.equal(total, torch.full((5,), 1.0 + 2 * step)), (step, total)
    assert torch.equal(x, torch.full((5,), 0.5 + step)), (step, x)
    assert torch.equal(root, torch.full((3,), 1.0 + 10 * step))
    assert torch.equal(own, 2 * step * torch.arange(8.0).view(4, 2)[2 * rank : 2 * rank + 2])
    assert torch.equal(pair[0], x)
    devices.current_stream = lambda gpu: 0
    assert hvd.allreduce(torch.ones(2, dtype=torch.float64), name="host").sum() == 2
    devices.current_stream = lambda gpu: stream.value
for step in range(20):
    x.fill_(rank)
    other = torch.full((4,), float(rank))
    graph.launch()
    after = hvd.allreduce_async_(other, op=hvd.Sum, name="after")  # behind the run
    hvd.synchronize(after)
    assert torch.equal(x, torch.full((5,), 0.5)) and torch.equal(other, torch.ones(4)), (x, other)
graph.destroy()
""",
        HORA_GPU_OPERATIONS=operations,
    )


def test_a_training_step_that_is_captured_reduces_its_gradients_in_each_run():
    run_on_gpus(
        2,
        GRAPH
        + """
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
def step():
    model(torch.randn(6, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
for _ in range(3):
    step()
with Graph() as graph:
    step()
gradients = [parameter.grad for parameter in model.parameters()]
for run in range(20):  # what PyTorch computes is not part of the fake's graph
    for number, gradient in enumerate(gradients):
        gradient.fill_(number + rank + run)
    graph.replay()
    for number, gradient in enumerate(gradients):
        assert torch.equal(gradient, torch.full_like(gradient, number + 0.5 + run)), (run, number, gradient)
step()
""",
    )


def test_a_backward_pass_may_be_captured_without_the_step():
    run_on_gpus(
        2,
        GRAPH
        + """
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0), model.named_parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
optimizer.zero_grad()
with Graph() as graph:
    model(torch.ones(2, 4)).sum().backward()
for run in range(5):
    before = model.weight.detach().clone()
    for parameter in model.parameters():
        parameter.grad.fill_(rank + run)
    graph.replay()
    optimizer.step()
    assert torch.equal(model.weight, before - (0.5 + run)), (run, before, model.weight)
""",
    )


@pytest.mark.parametrize("operations", ["nccl", "staged"])
def test_a_graph_runs_while_other_ranks_leave_a_process_set_that_this_one_has_left(operations: str):
    run_on_gpus(
        2,
        GRAPH
        + """
x, y = torch.ones(5), torch.ones(100_000)
both = hvd.add_process_set([0, 1], name="both")
hvd.allreduce_(y, op=hvd.Sum, process_set=both)
hvd.allreduce_(x, op=hvd.Sum, name="x")
with Graph() as graph:
    hvd.allreduce_(x, op=hvd.Sum, name="x")
if rank == 0:
    hvd.barrier()
hvd.remove_process_set(both)
if rank == 1:
    graph.launch()  # it waits for rank 0
    hvd.barrier()
hvd.barrier()  # the set ends now
if rank == 0:
    graph.launch()
assert cuda.cuStreamSynchronize(stream) == 0
assert torch.equal(x, torch.full((5,), 4.0)), x
""",
        HORA_GPU_OPERATIONS=operations,
    )


def test_ddp_that_is_captured_reduces_its_gradients_in_each_run():
    run_on_gpus(
        2,
        GRAPH
        + """
import torch.distributed as dist, hora.torch.distributed
dist.init_process_group("hora")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1), gradient_as_bucket_view=True)
def step():
    model(torch.ones(2, 4)).sum().backward()
for _ in range(3):
    step()
with Graph() as graph:
    step()
    total = torch.zeros(3)
    dist.all_reduce(total)
gradient = model.module.weight.grad
for run in range(20):
    gradient.fill_(rank + run)
    total.fill_(rank)
    graph.replay()
    sums = torch.full((1, 4), 1.0 + 2 * run)  # DDP has divided before, which is not part of the fake's graph
    assert torch.equal(gradient, sums), (run, gradient)
    assert torch.equal(total, torch.ones(3))
""",
    )


def test_what_a_graph_cannot_have_is_refused_and_the_job_goes_on():
    run_on_gpus(
        2,
        GRAPH
        + """
with Graph():
    for operation in (hvd.allgather, hvd.alltoall):
        try:
            operation(torch.ones(2), name="x")
            raise AssertionError("it was not refused")
        except hvd.HoraArgumentError as error:
            assert "cannot be part of a CUDA graph: the ranks agree on the size of its output" in str(error), error
devices.current_stream = lambda gpu: 0
assert torch.equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, name="x"), torch.full((2,), 2.0))
""",
    )


def test_a_graph_whose_operation_fails_goes_on_with_nan_and_the_next_call_raises():
    run_on_gpus(
        2,
        GRAPH
        + """
x = torch.ones(3)
with Graph() as graph:
    hvd.allreduce_(x, name="x" if rank == 0 else "another")
x.fill_(1)
graph.replay()
assert x.isnan().all(), x
try:
    hvd.allreduce(torch.ones(1), name="y")
    raise AssertionError("it did not raise")
except hvd.HoraInternalError as error:
    assert "an operation in a CUDA graph has failed: 'allreduce.x'" in str(error) or rank == 1, error
""",
        HORA_MISSING_TIMEOUT="2",
    )


def test_joining_and_leaving_come_after_runs_of_graphs_that_were_launched():
    run_on_gpus(
        2,
        GRAPH
        + """
x = torch.ones(3)
hvd.allreduce_(x, op=hvd.Sum, name="x")
with Graph() as graph:
    hvd.allreduce_(x, op=hvd.Sum, name="x")
for leave in (hvd.join, hvd.shutdown):
    x.fill_(1)
    for _ in range(1 if leave == hvd.join and rank == 1 else 20):
        graph.launch()
    leave()
    assert torch.equal(x, torch.full((3,), 2.0 if leave == hvd.join else 2.0**20)), (leave, x)
""",
    )


def test_reports_say_which_memory_and_library_it_is():
    lines = run_on_gpus(
        2,
        """
        hvd.allreduce(torch.ones(2))
        report = hvd.memory_report()
        assert f"cuda:{gpu}" in report and "MiB" in report, report
        assert hvd.cuda_built() and hvd.nccl_built() >= 20000
        print(hvd.nccl_built())
    """,
    )
    assert lines[0] == lines[1]


def test_without_a_driver_one_sentence_says_what_to_do():
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("there is a driver here")
    result = hrun(
        "-np", "2", *ready_python(), "-c",
        PRETEND + "try:\n    hvd.allreduce(torch.ones(2), name='x')\nexcept hvd.HoraUnavailableError as error:\n    print(error)\n"
        "print(hvd.allreduce(torch.ones(2, dtype=torch.float64)).sum().item())",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("'allreduce.x' on cuda:") == 2 and result.stdout.count("2.0") == 2, (
        result.stdout
    )


ELASTIC = """
import signal
torch.cuda.synchronize = lambda *_: None  # what the fake stream waits for is there
torch.cuda.is_initialized = lambda: False
deaths = os.environ.get("DEATHS", "").split(",")
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
x = torch.randn(240, 8, generator=torch.Generator().manual_seed(1))
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
training = hvd.elastic.Training(model, optimizer, data, batch=24, microbatch=4)

def die(place):
    if f"{os.environ['HORA_RANK']}:{training.progress.steps}:{place}" in deaths:
        os.kill(os.getpid(), signal.SIGKILL)

for epoch in training.epochs(2):
    for inputs, targets in training.batches():
        die("forward")
        training.backward((model(inputs) - targets).square().mean())
        die("backward")
        if training.step() and training.progress.steps in (5, 10) and deaths != [""]:
            while hvd.size() < 3 and not hora._job.runtime().change_is_due:
                training.retry(lambda: None)
hvd.check_replicas(model)
assert not hora._job._kept, "gradients of a former generation are not given back"
print("result", training.progress.steps, *(float(each.detach().sum()) for each in model.parameters()))
"""


@pytest.mark.long
def test_elastic_training_goes_on_with_gpus(tmp_path: pathlib.Path):
    """Ranks are killed while the others are in NCCL's collectives, and replaced."""
    program = tmp_path / "train.py"
    program.write_text(PRETEND + ELASTIC)
    python = (
        f"FAKE_CUDA_OWNS=$HORA_LOCAL_RANK LD_PRELOAD={FAKES}/libnccl.so.2 exec {sys.executable} {program}"
    )
    fakes = {"LD_LIBRARY_PATH": f"{FAKES}:{os.environ.get('LD_LIBRARY_PATH', '')}", "FAKE_GPUS": "3"}
    fakes["HORA_GPU_OPERATIONS"] = "nccl"

    def train(ranks: int, *words: str, deaths: str) -> list[str]:
        finished = hrun(
            "-np", str(ranks), *words, "sh", "-c", python, environment={**fakes, "DEATHS": deaths}
        )
        assert finished.returncode == 0, finished.stderr
        results = [line.split("result ")[1] for line in finished.stdout.splitlines() if "result " in line]
        assert len(results) == ranks and len(set(results)) == 1, finished.stdout
        assert finished.stderr.count("was killed by signal 9") == deaths.count(",") + bool(deaths)
        return results[0].split()

    alone = [float(each) for each in train(1, deaths="")]
    survivors = [float(each) for each in train(3, "--min-np", "1", deaths="1:3:backward,0:7:forward")]
    assert survivors == pytest.approx(alone, rel=1e-4)


def test_torch_distributed_lets_the_stream_wait_and_ddp_trains():
    lines = run_on_gpus(
        2,
        """
        import torch.distributed as dist, hora.torch.distributed
        dist.init_process_group("hora")
        memory = hora._job.runtime().allocate(64, gpu)
        tensor = tensor_in(memory, torch.float32, 16).fill_(rank)
        work = dist.all_reduce(tensor, async_op=True)
        assert not waits
        work.wait()
        print(len(waits), tensor.tolist() == [1.0] * 16)
        dist.all_reduce(tensor.fill_(rank))
        print(len(waits))
        gathered = torch.zeros(32)
        dist.all_gather_into_tensor(gathered, tensor)
        print(gathered.tolist() == [1.0] * 32)
        torch.manual_seed(1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        model(torch.full((2, 4), float(rank))).sum().backward()
        print([gradient.item() for gradient in model.module.weight.grad[0]])
        """,
    )
    assert lines == [["1 True", "2", "True", "[1.0, 1.0, 1.0, 1.0]"]] * 2
