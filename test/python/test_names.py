# SPDX-License-Identifier: Apache-2.0
"""Every name of horovod.torch 0.28.1: it exists in hora.torch and, under --horovod, in horovod.torch; its
signature is Horovod's; and a test shows what it does."""

import ast
import dataclasses
import inspect
import pathlib
import re
import subprocess
import sys
from typing import Any

import hora.torch as hvd
import pytest
from ranks import hrun
from ready_ranks import ready_python

HERE = pathlib.Path(__file__).resolve().parent

FORMS = "test_names.py::test_every_form_of_an_operation_gives_the_same_under_horovods_name"
QUERIES = "test_names.py::test_ranks_know_who_they_are_and_what_there_is"
SETS = "test_process_sets.py::test_sets_are_registered_at_init_and_later_and_tell_what_they_are"
LIFETIME = "test_lifetime.py::test_a_process_that_joins_and_leaves_again_and_again_leaves_nothing_behind"

# The second field, after the name: the arguments of a function or a class, "module", "object", "error" (a
# RuntimeError), or a value.
REDUCE = "prescale_factor=1.0, postscale_factor=1.0"
SET = "process_set=global_process_set"
NAMES: list[tuple[str, str, str]] = [
    ("elastic", "module", "test_elastic.py::test_states_hold_what_is_handed_to_them"),
    (
        "Compression",
        "object",
        "test_operations.py::test_compressors_of_ones_own_are_called_and_the_built_in_ones_may_be",
    ),
    ("allgather_object", "(obj, name=None)", "test_arrays.py::test_objects_are_gathered_in_rank_order"),
    (
        "broadcast_object",
        f"(obj, root_rank=0, name=None, {SET})",
        "test_arrays.py::test_objects_are_broadcast",
    ),
    (
        "broadcast_optimizer_state",
        "(optimizer, root_rank, model=None)",
        "test_starting_alike.py::test_the_state_of_every_optimizer_of_torch_reaches_ranks_that_have_none",
    ),
    ("broadcast_parameters", "(params, root_rank)", FORMS),
    (
        "allreduce",
        f"(tensor, average=None, name=None, compression=Compression.none, op=None, {REDUCE}, {SET})",
        FORMS,
    ),
    ("allreduce_async", f"(tensor, average=None, name=None, op=None, {REDUCE}, {SET})", FORMS),
    ("allreduce_", f"(tensor, average=None, name=None, op=None, {REDUCE}, {SET})", FORMS),
    ("allreduce_async_", f"(tensor, average=None, name=None, op=None, {REDUCE}, {SET})", FORMS),
    (
        "grouped_allreduce",
        f"(tensors, average=None, name=None, compression=Compression.none, op=None, {REDUCE}, {SET})",
        FORMS,
    ),
    ("grouped_allreduce_async", f"(tensors, average=None, name=None, op=None, {REDUCE}, {SET})", FORMS),
    ("grouped_allreduce_", f"(tensors, average=None, name=None, op=None, {REDUCE}, {SET})", FORMS),
    ("grouped_allreduce_async_", f"(tensors, average=None, name=None, op=None, {REDUCE}, {SET})", FORMS),
    ("sparse_allreduce_async", f"(tensor, name, op, {SET})", FORMS),
    ("allgather", f"(tensor, name=None, {SET})", FORMS),
    ("allgather_async", f"(tensor, name=None, {SET})", FORMS),
    ("grouped_allgather", f"(tensors, name=None, {SET})", FORMS),
    ("grouped_allgather_async", f"(tensors, name=None, {SET})", FORMS),
    ("broadcast", f"(tensor, root_rank, name=None, {SET})", FORMS),
    ("broadcast_async", f"(tensor, root_rank, name=None, {SET})", FORMS),
    ("broadcast_", f"(tensor, root_rank, name=None, {SET})", FORMS),
    ("broadcast_async_", f"(tensor, root_rank, name=None, {SET})", FORMS),
    ("alltoall", f"(tensor, splits=None, name=None, {SET})", FORMS),
    ("alltoall_async", f"(tensor, splits=None, name=None, {SET})", FORMS),
    (
        "reducescatter",
        f"(tensor, name=None, compression=Compression.none, op=Average, {SET}, {REDUCE})",
        FORMS,
    ),
    ("reducescatter_async", f"(tensor, name=None, op=Average, {SET}, {REDUCE})", FORMS),
    (
        "grouped_reducescatter",
        f"(tensors, name=None, compression=Compression.none, op=Average, {SET}, {REDUCE})",
        FORMS,
    ),
    ("grouped_reducescatter_async", f"(tensors, name=None, op=Average, {SET}, {REDUCE})", FORMS),
    (
        "join",
        "(device=-1)",
        "test_join.py::test_ranks_with_5_3_and_7_batches_join_and_the_means_divide_as_asked",
    ),
    ("barrier", f"({SET})", FORMS),
    ("poll", "(handle)", FORMS),
    ("synchronize", "(handle)", FORMS),
    ("init", "(comm=None, process_sets=None)", SETS),
    ("shutdown", "()", LIFETIME),
    ("is_initialized", "()", LIFETIME),
    (
        "start_timeline",
        "(file_path, mark_cycles=False)",
        "test_names.py::test_a_timeline_is_json_that_names_what_was_reduced",
    ),
    ("stop_timeline", "()", "test_names.py::test_a_timeline_is_json_that_names_what_was_reduced"),
    ("size", "()", QUERIES),
    ("local_size", "()", QUERIES),
    ("cross_size", "()", QUERIES),
    ("rank", "()", QUERIES),
    ("local_rank", "()", QUERIES),
    ("cross_rank", "()", QUERIES),
    ("mpi_threads_supported", "()", QUERIES),
    ("mpi_enabled", "()", QUERIES),
    ("mpi_built", "()", QUERIES),
    ("gloo_enabled", "()", QUERIES),
    ("gloo_built", "()", QUERIES),
    ("nccl_built", "()", QUERIES),
    ("ddl_built", "()", QUERIES),
    ("ccl_built", "()", QUERIES),
    ("cuda_built", "()", QUERIES),
    ("rocm_built", "()", QUERIES),
    ("is_homogeneous", "()", QUERIES),  # of horovod.torch.mpi_ops
    ("ProcessSet", "(ranks_or_comm)", SETS),
    ("global_process_set", "object", SETS),
    ("add_process_set", "(process_set)", SETS),
    ("remove_process_set", "(process_set)", SETS),
    ("Average", "0", FORMS),
    ("Sum", "1", FORMS),
    ("Adasum", "2", FORMS),
    ("Min", "3", FORMS),
    ("Max", "4", FORMS),
    ("Product", "5", FORMS),
    (
        "HorovodInternalError",
        "error",
        "test_refusals.py::test_ranks_that_disagree_get_the_same_error_and_the_job_goes_on",
    ),
    (
        "DistributedOptimizer",
        "(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1, "
        "op=Average, gradient_predivide_factor=1.0, num_groups=0,"
        f" groups=None, sparse_as_dense=False, {SET})",
        "test_torch.py::test_accumulation_clipping_and_set_to_none_equal_one_process",
    ),
    (
        "SyncBatchNorm",
        "(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True)",
        "test_batch_norm.py::test_values_gradients_and_statistics_are_those_of_the_whole_batch",
    ),
]


VARIABLES = """
FUSION_THRESHOLD CYCLE_TIME CACHE_CAPACITY HIERARCHICAL_ALLREDUCE HIERARCHICAL_ALLGATHER TORUS_ALLREDUCE BATCH_D2D_MEMCOPIES NUM_NCCL_STREAMS
DISABLE_GROUP_FUSION ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS DYNAMIC_PROCESS_SETS TIMELINE TIMELINE_MARK_CYCLES AUTOTUNE AUTOTUNE_LOG AUTOTUNE_WARMUP_SAMPLES
AUTOTUNE_STEPS_PER_SAMPLE AUTOTUNE_BAYES_OPT_MAX_SAMPLES AUTOTUNE_GAUSSIAN_PROCESS_NOISE STALL_CHECK_DISABLE STALL_CHECK_TIME_SECONDS
STALL_SHUTDOWN_TIME_SECONDS THREAD_AFFINITY LOG_LEVEL LOG_HIDE_TIME CONTROLLER CPU_OPERATIONS GLOO_IFACE GLOO_TIMEOUT_SECONDS GLOO_RENDEZVOUS_ADDR
GLOO_RENDEZVOUS_PORT RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME ELASTIC MPI_THREADS_DISABLE ADASUM_MPI_CHUNK_SIZE CCL_CACHE
DISABLE_NVTX_RANGES START_TIMEOUT ELASTIC_TIMEOUT SPARK_START_TIMEOUT SPARK_USE_LOCAL_RANK_GPU_INDEX GPU ALLOW_MIXED_GPU_IMPL CUDA_HOME ROCM_HOME CMAKE DEBUG
SKIP_COMPILE LOCAL_VERSION
"""
FLAGS = """
-v --version -np --num-proc -cb --check-build --disable-cache --start-timeout --network-interfaces --network-interface --output-filename --verbose --config-file
-p --ssh-port -i --ssh-identity-file --fusion-threshold-mb --cycle-time-ms --cache-capacity --hierarchical-allreduce --no-hierarchical-allreduce
--hierarchical-allgather --no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --autotune --no-autotune --autotune-log-file
--autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --min-np --min-num-proc --max-np
--max-num-proc --slots-per-host --elastic-timeout --reset-limit --blacklist-cooldown-range --timeline-filename --timeline-mark-cycles --no-timeline-mark-cycles
--no-stall-check --stall-check --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --mpi-threads-disable --no-mpi-threads-disable --mpi-args
--tcp --binding-args --num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level --log-with-timestamp --log-without-timestamp -prefix-timestamp
--prefix-output-with-timestamp --log-hide-timestamp --no-log-hide-timestamp -H --hosts -hostfile --hostfile --host-discovery-script --gloo --mpi --jsrun
"""


def test_the_documentation_compares_every_name_variable_and_flag():
    rows = [
        line.split("|")[1]
        for line in (HERE.parents[1] / "python/HOROVOD.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    told = {word.split()[0] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    for words in (
        [name for name, _, _ in NAMES],
        [f"HOROVOD_{name}" for name in VARIABLES.split()],
        FLAGS.split(),
    ):
        assert sorted(set(words) - told) == []


@dataclasses.dataclass
class Wanted:
    """The parameters that Horovod's signature says."""

    parameters: list[inspect.Parameter]

    @staticmethod
    def of(text: str) -> "Wanted":
        arguments = text.removeprefix("(").removesuffix(")")
        return Wanted(
            list(inspect.signature(eval(f"lambda {arguments}: None", dict(vars(hvd)))).parameters.values())
        )


def difference(wanted: Wanted, found: Any) -> str:
    """The error in our signature; empty if it is Horovod's, or that with optional arguments after it."""
    ours = list(inspect.signature(found).parameters.values())
    for index, parameter in enumerate(wanted.parameters):
        if index >= len(ours) or (ours[index].name, ours[index].kind) != (parameter.name, parameter.kind):
            return f"argument {index + 1} should be {parameter.name}, not {ours[index] if index < len(ours) else 'left out'}"
        same = ours[index].default is parameter.default or ours[index].default == parameter.default
        if not same or type(ours[index].default) is not type(parameter.default):
            return f"{parameter.name} should be {parameter.default!r} by default, not {ours[index].default!r}"
    required = [
        extra.name
        for extra in ours[len(wanted.parameters) :]
        if extra.default is extra.empty and extra.kind in (extra.POSITIONAL_OR_KEYWORD, extra.KEYWORD_ONLY)
    ]
    return f"{required} have no default" if required else ""


@pytest.mark.parametrize(("name", "what"), [(name, what) for name, what, _ in NAMES])
def test_a_name_is_what_it_is_in_horovod(name: str, what: str):
    assert name in hvd.__all__
    found = getattr(hvd, name)
    if what.startswith("("):
        assert difference(Wanted.of(what), found) == ""
        assert inspect.getdoc(found), "no documentation"
    elif what == "module":
        assert inspect.ismodule(found)
    elif what == "error":
        assert issubclass(found, RuntimeError)
    elif what != "object":
        assert (type(found), str(found)) == (int, what)


def words_of(path: pathlib.Path, text: str) -> set[str]:
    """The words of a test, and of the programs beside it that it runs or imports."""
    texts = [
        text,
        *(
            other.read_text()
            for other in HERE.glob("*.py")
            if not other.name.startswith("test_") and other.name in path.read_text()
        ),
    ]
    return {word for each in texts for word in re.findall(r"\w+", each)}


@pytest.mark.parametrize(("name", "test"), [(name, test) for name, _, test in NAMES])
def test_a_name_has_a_test_that_uses_it(name: str, test: str):
    path, _, function = test.partition("::")
    source = (HERE / path).read_text()
    bodies = [
        ast.get_source_segment(source, node) or ""
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    assert bodies, f"there is no {test}"
    assert name in words_of(HERE / path, bodies[0])


OURS = {
    "average_metrics",
    *("gather", "gather_async", "gather_object", "scatter", "scatter_async", "scatter_object"),
    *("reduce", "reduce_async", "scan", "scan_async"),
    *("BitAnd", "BitOr", "BitXor", "LogicalAnd", "LogicalOr"),
    *("Handle", "JobListener"),
    "memory_report",
    "expect_delay",
    "check_replicas",
    *(
        "send",
        "isend",
        "recv",
        "irecv",
        "probe",
        "send_object",
        "recv_object",
        "ANY_SOURCE",
        "ANY_TAG",
        "Received",
        "Envelope",
    ),
}


def test_the_table_has_every_name_but_those_that_are_ours_alone():
    listed = [name for name, _, _ in NAMES]
    assert len(set(listed)) == len(listed) == 68
    errors = {
        name
        for name in hvd.__all__
        if isinstance(getattr(hvd, name), type) and issubclass(getattr(hvd, name), hvd.HoraError)
    }
    assert set(hvd.__all__) - set(listed) - errors == OURS


def test_a_signature_that_differs_is_found():
    """The test above is of use."""

    def ours(tensor: object, name: str | None = None, extra: int = 1) -> None: ...

    assert difference(Wanted.of("(tensor, name=None)"), ours) == ""
    assert difference(Wanted.of("(tensor, name='x')"), ours) == "name should be 'x' by default, not None"
    assert difference(Wanted.of("(tensor, op=None)"), ours).startswith("argument 2 should be op, not name")
    assert difference(Wanted.of("(tensor)"), ours) == ""
    assert difference(Wanted.of("()"), ours) == "['tensor'] have no default"
    assert (
        difference(Wanted.of("(tensor, name=None, extra=True)"), ours)
        == "extra should be True by default, not 1"
    )
    assert (
        difference(Wanted.of("(tensor, name=None, extra=1, more=2)"), ours)
        == "argument 4 should be more, not left out"
    )


def unchanged_script(ranks: int, program: str, *arguments: str) -> None:
    result = hrun(
        "-np",
        str(ranks),
        "--horovod",
        *ready_python(),
        "-c",
        "import horovod.torch as hvd\n" + program,
        *arguments,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_form_of_an_operation_gives_the_same_under_horovods_name(ranks: int):
    unchanged_script(
        ranks,
        """
import torch
hvd.init()
rank, size = hvd.rank(), hvd.size()
wait = hvd.synchronize
every = [torch.arange(6.0).reshape(3, 2) + 10 * r for r in range(size)]
mine = every[rank]
fresh = lambda: mine.clone()
two = lambda: [mine.clone(), mine.clone() * 2]
twice = lambda x: (x, x * 2)
equal = lambda found, wanted: all(map(torch.equal, found, wanted)) and len(found) == len(wanted)
stack = torch.stack(every)
reductions = {hvd.Average: stack.mean(0), hvd.Sum: stack.sum(0), hvd.Min: stack.amin(0), hvd.Max: stack.amax(0), hvd.Product: stack.prod(0)}

for op, whole in reductions.items():
    assert torch.equal(hvd.allreduce(fresh(), op=op), whole)
    assert torch.equal(wait(hvd.allreduce_async(fresh(), op=op)), whole)
    for call in (hvd.allreduce_, lambda x, **how: wait(hvd.allreduce_async_(x, **how))):
        x = fresh()
        assert call(x, op=op) is x and torch.equal(x, whole)
    if op != hvd.Product:
        wanted = twice(whole)
        found = hvd.grouped_allreduce(two(), op=op)
        assert type(found) is list and equal(found, wanted)
        found = wait(hvd.grouped_allreduce_async(two(), op=op))
        assert type(found) is tuple and equal(found, wanted)
        for call in (hvd.grouped_allreduce_, lambda xs, **how: wait(hvd.grouped_allreduce_async_(xs, **how))):
            xs = two()
            found = call(xs, op=op)
            assert type(found) is tuple and all(a is b for a, b in zip(found, xs)) and equal(xs, wanted)

same = torch.tensor([3.0, 4.0])
assert torch.allclose(hvd.allreduce(same, op=hvd.Adasum), same)  # of equal vectors it is the vector
own = torch.zeros(size); own[rank] = rank + 1.0
assert torch.allclose(hvd.allreduce(own, op=hvd.Adasum), torch.arange(1.0, size + 1))  # of orthogonal ones the sum

sparse = torch.sparse_coo_tensor([[rank, 4]], [1.0, 2.0], (5,))
dense = sum(torch.sparse_coo_tensor([[r, 4]], [1.0, 2.0], (5,)).to_dense() for r in range(size))
assert torch.equal(hvd.sparse_allreduce_async(sparse, name="sparse", op=hvd.Sum)().to_dense(), dense)
assert torch.allclose(hvd.sparse_allreduce_async(sparse, name="sparse", op=hvd.Average)().to_dense(), dense / size)

uneven = [torch.full((r + 1, 2), float(r)) for r in range(size)]
whole = torch.cat(uneven)
assert torch.equal(hvd.allgather(uneven[rank]), whole) and torch.equal(wait(hvd.allgather_async(uneven[rank])), whole)
for found in (hvd.grouped_allgather([uneven[rank], uneven[rank] * 2]), wait(hvd.grouped_allgather_async([uneven[rank], uneven[rank] * 2]))):
    assert type(found) is tuple and equal(found, twice(whole))

root = size - 1
assert torch.equal(hvd.broadcast(fresh(), root), every[root]) and torch.equal(wait(hvd.broadcast_async(fresh(), root_rank=root)), every[root])
for call in (hvd.broadcast_, lambda x, r: wait(hvd.broadcast_async_(x, r))):
    x = fresh()
    assert call(x, root) is x and torch.equal(x, every[root])

model = torch.nn.BatchNorm1d(2)
torch.nn.init.constant_(model.weight, rank)
hvd.broadcast_parameters(model.state_dict(), root_rank=root)
assert model.weight.tolist() == [root, root]
torch.nn.init.constant_(model.bias, rank)
hvd.broadcast_parameters(list(model.named_parameters()), root_rank=root)
assert model.bias.tolist() == [root, root]

# Rank r sends r + 1 rows to each; without splits, one row to each.
splits = torch.full((size,), rank + 1, dtype=torch.int32)
rows = torch.full(((rank + 1) * size, 2), float(rank))
for found in (hvd.alltoall(rows, splits=splits), hvd.alltoall(rows, splits.tolist()), wait(hvd.alltoall_async(rows, splits))):
    output, received = found
    assert torch.equal(output, whole) and received.dtype == torch.int32 and received.tolist() == list(range(1, size + 1))
plain = torch.arange(float(size)) + 100 * rank
wanted = torch.tensor([100.0 * r + rank for r in range(size)])
assert torch.equal(hvd.alltoall(plain), wanted)
output, received = wait(hvd.alltoall_async(plain))
assert torch.equal(output, wanted) and received.tolist() == [1] * size

counts = [4 // size + (r < 4 % size) for r in range(size)]
begin = sum(counts[:rank])
long = torch.stack([torch.arange(8.0).reshape(4, 2) * (r + 1) for r in range(size)])
for op, whole in ((hvd.Average, long.mean(0)), (hvd.Sum, long.sum(0))):
    part = whole[begin : begin + counts[rank]]
    assert torch.allclose(hvd.reducescatter(long[rank], op=op), part) and torch.allclose(wait(hvd.reducescatter_async(long[rank], op=op)), part)
    found = hvd.grouped_reducescatter([long[rank], long[rank] * 2], op=op)
    assert type(found) is list and all(map(torch.allclose, found, twice(part)))
    assert all(map(torch.allclose, wait(hvd.grouped_reducescatter_async([long[rank], long[rank] * 2], op=op)), twice(part)))

assert hvd.barrier() is None
handle = hvd.allreduce_async(fresh(), name="polled")
assert isinstance(handle, int)
while not hvd.poll(handle):
    pass
assert torch.equal(wait(handle), stack.mean(0))
""",
    )


def test_ranks_know_who_they_are_and_what_there_is():
    unchanged_script(
        2,
        """
import os
from horovod.torch.mpi_ops import is_homogeneous
built = {query: query() for query in (hvd.mpi_built, hvd.mpi_enabled, hvd.gloo_built, hvd.gloo_enabled, hvd.ddl_built, hvd.ccl_built, hvd.cuda_built, hvd.rocm_built)}
assert all(type(answer) is bool for answer in built.values()) and type(hvd.nccl_built()) is int
assert not hvd.mpi_enabled() and not hvd.ddl_built() and not hvd.ccl_built() and not hvd.rocm_built()
for query in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size, is_homogeneous):
    try:
        query()
    except ValueError as error:
        assert "init()" in str(error)
    else:
        raise AssertionError(query)
hvd.init()
assert {query: query() for query in built} == built
number = int(os.environ["HORA_RANK"])
assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (number, 2, number, 2, 0, 1)
assert is_homogeneous()
try:
    print(hvd.mpi_threads_supported())
except ValueError as error:
    assert "MPI" in str(error)
else:
    raise AssertionError
""",
    )


def test_a_timeline_is_json_that_names_what_was_reduced(tmp_path: pathlib.Path):
    unchanged_script(
        2,
        """
import json, os, sys, torch
path = sys.argv[1]
try:
    hvd.start_timeline(path)
except ValueError as error:
    assert "init()" in str(error)
else:
    raise AssertionError
hvd.init()
hvd.start_timeline(path, mark_cycles=True)
hvd.allreduce(torch.ones(3), name="a tensor of mine")
hvd.stop_timeline()
hvd.allreduce(torch.ones(3), name="not in the trace")
hvd.barrier()
if hvd.rank() == 0:
    text = open(path).read()
    json.loads(text)
    assert "a tensor of mine" in text and "not in the trace" not in text
hvd.barrier()
""",
        str(tmp_path / "trace.json"),
    )


@pytest.mark.long
def test_a_program_that_uses_every_name_has_the_right_types(tmp_path: pathlib.Path):
    program = HERE / "typed_program.py"
    used = {word for word in re.findall(r"hvd\.(\w+)", program.read_text())}
    assert set(hvd.__all__) - used == set(), "typed_program.py does not use them"
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-incremental",
            "--config-file=/dev/null",
            str(program),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
