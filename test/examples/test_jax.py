# SPDX-License-Identifier: Apache-2.0
"""hora.jax: operations outside of jit and in compiled programs, their derivatives, training with optax, and
the messages of what goes wrong."""

import importlib.util
import pathlib
import re
import sys
import textwrap

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from listed_output import check_output  # noqa: E402
from ranks import ROOT, hrun, run_python  # noqa: E402

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="needs jax: ./dev test frameworks"
)

ONE_CORE = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}

BEGIN = """
import functools, os, signal, sys
import jax, jax.numpy as jnp, numpy as np
import hora, hora.jax as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
same = lambda got, expected: np.testing.assert_array_equal(np.asarray(got), np.asarray(expected), strict=True)
"""

#: Of each kind: how it is called, and what rank `r` of `size` gets, by the arrays of all. Rank r brings `x(r)`.
OPERATIONS = """
def x(r):
    return np.arange(12, dtype=np.float32).reshape(4, 3) * (r + 1)

everyone = [x(r) for r in range(size)]
rows = np.array_split(np.arange(4), size)[rank]
OPERATIONS = {
    "average": (hvd.allreduce, sum(everyone) / np.float32(size)),
    "sum": (functools.partial(hvd.allreduce, op=hvd.Sum), sum(everyone)),
    "factors": (functools.partial(hvd.allreduce, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * sum(everyone)),
    "min": (functools.partial(hvd.allreduce, op=hvd.Min), everyone[0]),
    "max": (functools.partial(hvd.allreduce, op=hvd.Max), everyone[-1]),
    "broadcast": (functools.partial(hvd.broadcast, root_rank=1), everyone[1]),
    "allgather": (hvd.allgather, np.concatenate(everyone)),
    "reducescatter": (functools.partial(hvd.reducescatter, op=hvd.Sum), sum(everyone)[rows]),
    "alltoall": (functools.partial(hvd.alltoall), np.concatenate([one[4 // size * rank:4 // size * (rank + 1)] for one in everyone])),
    "alltoall with splits": (
        functools.partial(hvd.alltoall, splits=[4] + [0] * (size - 1), received_splits=[4 if rank == 0 else 0] * size),
        np.concatenate(everyone) if rank == 0 else np.zeros((0, 3), np.float32),
    ),
}
"""


def ranks(count: int, program: str) -> list[list[str]]:
    """Runs a program on ranks that have one core each."""
    program = BEGIN + OPERATIONS + textwrap.dedent(program)
    return run_python(count, program, environment=ONE_CORE, seconds=240)


@pytest.mark.parametrize("count", [2, 4])
def test_operations_are_the_same_outside_of_jit_and_under_jit(count: int):
    ranks(
        count,
        """
        for name, (operation, expected) in OPERATIONS.items():
            same(operation(jnp.asarray(x(rank))), expected)
            same(jax.jit(operation)(jnp.asarray(x(rank))), expected)
            same(jax.jit(operation)(x(rank)), expected)
            same(jax.block_until_ready(operation(x(rank), name=name)), expected)
        """,
    )


def test_operations_have_derivatives_batches_and_loops():
    ranks(
        2,
        """
        # The derivative of the sum of the functions of all ranks, by differences of the whole.
        random = np.random.default_rng(5)
        linear = {name: one for name, one in OPERATIONS.items() if name not in ("min", "max")}
        for name, (operation, expected) in linear.items():
            weights = hora.broadcast_object([random.normal(size=(8, 3)).astype(np.float32) for _ in range(size)])
            def function(a):
                result = operation(a)
                return (result * weights[rank][:len(result)]).sum()
            for way in (jax.grad(function), jax.jit(jax.grad(function))):
                slopes = way(jnp.asarray(x(rank)))
                for changed in range(size):
                    for index in ((0, 0), (3, 2)):
                        step = np.zeros((4, 3), np.float32)
                        step[index] = changed == rank
                        total = hora.allreduce(np.float64(function(x(rank) + step) - function(x(rank))), op=hora.Sum)
                        slope = hora.broadcast(np.float64(slopes[index]), changed)
                        np.testing.assert_allclose(slope, total, rtol=1e-3, atol=1e-3, err_msg=f"{name} {index}")
            value, tangent = jax.jvp(operation, (x(rank),), (x(rank),))
            same(value, expected)
            same(tangent, expected)
            # a batch of two, in the last dimension and in the first
            for axis in (0, 2):
                batch = np.stack([x(rank), 3 * x(rank)], axis)
                got = jax.jit(jax.vmap(operation, axis, axis))(batch)
                same(got, np.stack([expected, 3 * expected], axis))
        same(hvd.allreduce(jnp.ones(2), op=hvd.Sum, prescale_factor=0.0), np.zeros(2, np.float32))
        for name in ("min", "max"):
            try:
                jax.grad(lambda a: OPERATIONS[name][0](a).sum())(x(rank))
                raise SystemExit("no error")
            except hvd.HoraUnsupportedError as error:
                assert "only op=Average and op=Sum have a derivative" in str(error), error

        @jax.jit
        def loop(a):
            return jax.lax.fori_loop(0, 5, lambda i, b: hvd.allreduce(b, op=hvd.Sum) / size + 1, a)
        same(loop(jnp.zeros(3)), np.full(3, 5, np.float32))
        def of_one_of_two(a, other):
            summed = hvd.allreduce({"a": a, "other": other, "count": jnp.int32(1)}, op=hvd.Sum)
            return (summed["a"] ** 2).sum() * summed["count"]
        same(jax.grad(of_one_of_two)(jnp.ones(3), jnp.ones(2)), np.full(3, 2 * size * size * size, np.float32))
        with jax.disable_jit():
            same(hvd.allreduce(jnp.ones(2), op=hvd.Sum), np.full(2, size, np.float32))
        weights = [jnp.ones((64, 64)) * i for i in range(6)]
        def of_broadcasts(weights, a):
            return sum(((hvd.broadcast(w, 0) * (i + 1) + a) ** 2).sum() for i, w in enumerate(weights))
        for i, slopes in enumerate(jax.jit(jax.grad(of_broadcasts))(weights, jnp.float32(rank))):
            here = sum(2 * (i + 1) * (i * (i + 1) + r) for r in range(size)) if rank == 0 else 0
            same(slopes, np.full((64, 64), here, np.float32))
        remembered = jax.jit(jax.grad(jax.checkpoint(lambda a: (hvd.allreduce(jnp.sin(a), op=hvd.Sum) ** 2).sum())))
        angles = jnp.arange(3.0) + rank
        total = sum(jnp.sin(jnp.arange(3.0) + r) for r in range(size))
        np.testing.assert_allclose(remembered(angles), 2 * size * total * jnp.cos(angles), rtol=1e-5)
        mesh = jax.sharding.Mesh(jax.local_devices(), ("one",))
        spec = jax.sharding.PartitionSpec("one")
        sharded = jax.shard_map(lambda a: hvd.allreduce(a, op=hvd.Sum), mesh=mesh, in_specs=spec, out_specs=spec)
        same(jax.jit(sharded)(jnp.ones(4)), np.full(4, size, np.float32))
        """,
    )


def test_trees_dtypes_sets_and_a_barrier():
    ranks(
        3,
        """
        jax.config.update("jax_enable_x64", True)
        tree = {"a": jnp.ones((2, 0)), "b": [jnp.arange(3), (jnp.bool_(rank > 0), None)], "c": 2.5}
        summed = jax.jit(lambda t: hvd.allreduce(t, op=hvd.Sum))(tree)
        assert jax.tree.structure(summed) == jax.tree.structure(tree)
        same(summed["b"][0], np.arange(3) * size)
        same(summed["c"], np.float64(2.5 * size))
        assert hvd.allreduce({}) == {}

        kinds = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
        for kind in map(jnp.dtype, kinds.split()):
            same(hvd.allreduce(jnp.arange(5).astype(kind), op=hvd.Sum), (np.arange(5) * size).astype(kind))
        for kind in map(jnp.dtype, "bool float8_e4m3fn float8_e5m2 float8_e8m0fnu".split()):  # no NaNs: 0 is one of float8_e8m0fnu
            same(hvd.broadcast(jnp.arange(1, 6).astype(kind) if rank == 1 else jnp.ones(5, kind), 1), np.arange(1, 6).astype(kind))

        exact = jnp.float32(1 + 2**-20)
        assert hvd.allreduce(exact, op=hvd.Max) == exact
        assert hvd.allreduce(exact, op=hvd.Max, compression=hvd.Compression.bf16) == 1
        assert jax.jit(functools.partial(hvd.allreduce, compression=hvd.Compression.mxfp8_e4m3))(exact) == 1
        assert jax.jit(functools.partial(hvd.allreduce, op=hvd.Max, compression=hvd.Compression.fp16))(exact) == 1

        few = hvd.add_process_set([0, 2])
        if rank != 1:
            same(jax.jit(functools.partial(hvd.allreduce, op=hvd.Sum, process_set=few))(jnp.ones(2) * rank), np.full(2, 2.0))
            same(hvd.allgather(jnp.full(rank + 1, rank), process_set=few), np.array([0, 2, 2, 2]))
        same(hvd.allgather(jnp.full(rank, rank), rows=[0, 1, 2]), np.array([1, 2, 2]))
        hvd.barrier()
        same(jax.jit(lambda a: hvd.barrier(a + 1) * 2)(jnp.ones(2)), np.full(2, 4.0))
        assert hvd.average_metrics({"loss": jnp.float32(rank), "seen": 3}) == {"loss": 1.0, "seen": 3.0}
        begun = hvd.broadcast_parameters({"w": jnp.full(2, rank), "key": jax.random.key(rank), "step": rank, "none": None}, 2)
        same(begun["w"], np.full(2, 2))
        same(jax.random.key_data(begun["key"]), jax.random.key_data(jax.random.key(2)))
        assert begun["step"] == 2 and begun["none"] is None
        """,
    )


def test_independent_operations_of_a_program_may_come_in_any_order():
    ranks(
        4,
        """
        order = np.random.default_rng(rank).permutation(16)
        @jax.jit
        def program(arrays):
            got = {}
            for i in map(int, order):
                got[i] = hvd.allreduce(arrays[i], op=hvd.Sum, name=f"n{i}")
            return [got[i] for i in range(16)]
        arrays = [jnp.full(1000 + i, float(i + rank)) for i in range(16)]
        for _ in range(20):
            for i, got in enumerate(program(arrays)):
                same(got, np.full(1000 + i, 4.0 * i + 6, np.float32))

        # Unnamed ones keep their order, whatever a rank's compiler does with the rest.
        @jax.jit
        def unnamed(a):
            first = hvd.allreduce(jnp.sin(a) if rank == 0 else a * a + 1, op=hvd.Max).sum()
            return first, hvd.allreduce(jnp.full(2000, 7.0), op=hvd.Sum)
        for _ in range(20):
            assert unnamed(jnp.zeros(3000))[0] == 3000
            same(unnamed(jnp.zeros(3000))[1], np.full(2000, 28, np.float32))
        """,
    )


def test_a_function_that_is_traced_once_and_called_twice_has_two_operations():
    ranks(
        2,
        """
        inner = jax.jit(lambda a: hvd.allreduce(a, op=hvd.Sum, name="twice"))
        @jax.jit
        def outer(a, b):
            return inner(a), inner(b), jax.lax.cond(a[0] > 100, inner, lambda c: c, b)
        for _ in range(20):
            a, b, c = outer(jnp.full(3000, 1.0), jnp.full(3000, 2.0))
            assert a[0] == 2 and b[0] == 4 and c[0] == 2, (a, b, c)
        """,
    )


def test_callbacks_of_a_program_may_call_hora_themselves():
    ranks(
        2,
        """
        import time
        from jax.experimental import io_callback
        def outside(a):
            time.sleep(0.1 * rank)  # longer than the moment that a handler waits
            return np.asarray(hvd.allreduce(jnp.asarray(a) + 1, op=hvd.Sum))
        @jax.jit
        def program(a):
            a = hvd.allreduce(a, op=hvd.Sum)
            return io_callback(outside, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
        for _ in range(3):
            same(program(jnp.ones(3000)), np.full(3000, 6, np.float32))
        """,
    )


TRANSFORMER = """
import optax
LAYERS, WIDTH, HEADS, LENGTH, VOCABULARY, BATCH = 2, 32, 4, 16, 29, 8

def parameters(key):
    keys = iter(jax.random.split(key, 99))
    dense = lambda *shape: jax.random.normal(next(keys), shape, jnp.float64) / np.sqrt(shape[0])
    layer = lambda: {"qkv": dense(WIDTH, 3 * WIDTH), "out": dense(WIDTH, WIDTH), "up": dense(WIDTH, 4 * WIDTH), "down": dense(4 * WIDTH, WIDTH)}
    return {"embedding": dense(VOCABULARY, WIDTH), "position": dense(LENGTH, WIDTH), "layers": [layer() for _ in range(LAYERS)], "head": dense(WIDTH, VOCABULARY)}

def normalized(a):
    return (a - a.mean(-1, keepdims=True)) / jnp.sqrt(a.var(-1, keepdims=True) + 1e-5)

def loss_of(params, tokens):
    a = params["embedding"][tokens[:, :-1]] + params["position"]
    for layer in params["layers"]:
        q, k, v = jnp.split((normalized(a) @ layer["qkv"]).reshape(*a.shape[:2], HEADS, -1), 3, axis=-1)
        weights = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
        weights = jax.nn.softmax(jnp.where(np.tril(np.ones((LENGTH, LENGTH), bool)), weights, -1e9))
        a = a + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(a.shape) @ layer["out"]
        a = a + jax.nn.gelu(normalized(a) @ layer["up"]) @ layer["down"]
    return optax.softmax_cross_entropy_with_integer_labels(normalized(a) @ params["head"], tokens[:, 1:]).mean()

def trained(optimizer, tokens_of, params, mean):
    state = optimizer.init(params)
    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, tokens):
        loss, gradients = jax.value_and_grad(loss_of)(params, tokens)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, mean(loss)
    losses = []
    for number in range(50):
        params, state, loss = step(params, state, tokens_of(number))
        losses.append(float(loss))
    return params, losses

def batch(number):
    start = np.random.default_rng(number).integers(0, VOCABULARY, (BATCH, 1))
    return (start + np.arange(LENGTH + 1) * (1 + start % 3)) % VOCABULARY
"""


@pytest.mark.parametrize("count", [2, 4])
def test_a_transformer_learns_as_on_one_process(count: int):
    ranks(
        count,
        'jax.config.update("jax_enable_x64", True)\n'
        + TRANSFORMER
        + textwrap.dedent("""
        optimizer = lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
        own = hvd.broadcast_parameters(parameters(jax.random.key(rank)))
        distributed = hvd.DistributedOptimizer(optimizer())
        share = BATCH // size
        params, losses = trained(distributed, lambda n: batch(n)[rank * share:(rank + 1) * share], own, hvd.allreduce)
        alone, expected = trained(optimizer(), batch, parameters(jax.random.key(0)), lambda loss: loss)
        np.testing.assert_allclose(losses, expected, rtol=1e-6)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-9), params, alone)
        assert losses[-1] < losses[0] / 4, losses
        everyone = hora.allgather_object([np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params)])
        assert all(one == everyone[0] for one in everyone)
        """),
    )


# Rank 0 runs the first program, rank 1 the second; the message that rank 0 gets.
MISTAKES = {
    "shape": (
        "hvd.allreduce(jnp.ones(3), 'x')",
        "hvd.allreduce(jnp.ones(4), 'x')",
        r"JaxRuntimeError: INTERNAL: .*'allreduce.x'.*\[3\].*\[4\]",
    ),
    "dtype, under jit": (
        "jax.jit(hvd.allreduce)(jnp.ones(3))",
        "jax.jit(hvd.allreduce)(jnp.ones(3, jnp.int32))",
        r"JaxRuntimeError: INTERNAL: .*'allreduce.allreduce'.*float32.*int32",
    ),
    "rows": (
        "jax.jit(hvd.allgather)(jnp.ones(1))",
        "jax.jit(hvd.allgather)(jnp.ones(2))",
        r"JaxRuntimeError: INTERNAL: .*'allgather.allgather'",
    ),
    "no array": (
        "hvd.allreduce({'a': [1.0, 'text']}, 'x')",
        "0",
        r"HoraArgumentError: 'allreduce.x.a.1': an array or a number is needed, not str: 'text'",
    ),
    "a key": (
        "hvd.allreduce(jax.random.key(0), 'x')",
        "0",
        r"HoraUnsupportedError: 'allreduce.x': Hora has no dtype key<fry>; jax.random.key_data\(\) gives its numbers",
    ),
    "a dtype that Hora has not": (
        "hvd.broadcast(jnp.ones(3, jnp.int4), 0)",
        "0",
        r"HoraUnsupportedError: 'broadcast': Hora has no dtype int4",
    ),
    "a scalar": (
        "hvd.allgather(jnp.float32(1))",
        "0",
        r"HoraShapeError: 'allgather': a scalar has no rows; reshape it to \(1,\)",
    ),
    "a line": (
        "hvd.allreduce({'a\\nb': jnp.ones(3)})",
        "0",
        r"HoraArgumentError: 'allreduce.a.nb': a name has no line breaks",
    ),
    "another job": (
        "f = jax.jit(hvd.allgather); f(jnp.ones(3)); hvd.shutdown(); hvd.init(rank=0, size=1); f(jnp.ones(3))",
        "f = jax.jit(hvd.allgather); f(jnp.ones(3)); hvd.shutdown()",
        r"this program was compiled for rank 0 of 2, and this is rank 0 of 1: call jax.clear_caches\(\) after init\(\)",
    ),
    "a root": (
        "hvd.broadcast(jnp.ones(3), 7)",
        "0",
        r"HoraArgumentError: 'broadcast': there is no root rank 7: ranks are 0 to 1",
    ),
    "splits": (
        "hvd.alltoall(jnp.ones(3), [1, 1])",
        "0",
        r"HoraArgumentError: 'alltoall': splits=\[1, 1\] takes 2 rows, and there are 3",
    ),
    "odd": (
        "hvd.alltoall(jnp.ones(3))",
        "0",
        r"HoraArgumentError: 'alltoall': 3 rows for 2 ranks: give splits=, the rows for each rank",
    ),
    "a reduction": (
        "hvd.allreduce(jnp.ones(3, jnp.complex64), op=hvd.Min)",
        "hvd.allreduce(jnp.ones(3, jnp.complex64), op=hvd.Min)",
        r"JaxRuntimeError: INVALID_ARGUMENT: .*complex64",
    ),
    "gradients": (
        "hvd.allreduce_gradients(jnp.ones(3), op=hvd.Min)",
        "0",
        r"HoraArgumentError: op=3: gradients are reduced by op=Average, op=Sum or op=Adasum",
    ),
    "vmap": (
        "jax.vmap(functools.partial(hvd.allreduce, op=hvd.Adasum))(jnp.ones((3, 2)))",
        "0",
        r"HoraUnsupportedError: 'allreduce': op=Adasum depends on the whole array",
    ),
    "a job that is left": (
        "f = jax.jit(hvd.allreduce); f(jnp.ones(3)); hvd.shutdown(); f(jnp.ones(3))",
        "f = jax.jit(hvd.allreduce); f(jnp.ones(3)); hvd.shutdown()",
        r"ValueError: FAILED_PRECONDITION: this process is in no job: call hora.jax.init\(\) first",
    ),
    "no job": (
        "hvd.shutdown(); jax.jit(hvd.allreduce)(jnp.ones(3))",
        "hvd.shutdown()",
        r"HoraNotInitializedError: Hora is not initialised",
    ),
    "a rank that dies": (
        "jax.jit(hvd.allreduce)(jnp.ones(3))",
        "os.kill(os.getpid(), signal.SIGKILL)",
        r"JaxRuntimeError: ABORTED: .*rank 1",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake: str):
    first, second, message = MISTAKES[mistake]
    program = BEGIN + f"jax.block_until_ready(eval('0'))\nif rank == 0:\n    {first}\nelse:\n    {second}\n"
    result = hrun("-np", "2", sys.executable, "-c", program, environment={"JAX_PLATFORMS": "cpu"})
    assert re.search(message, result.stdout + result.stderr), result.stdout + result.stderr


def test_two_devices_in_a_process_are_refused():
    program = BEGIN + textwrap.dedent("""
    mesh = jax.sharding.Mesh(jax.devices(), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    try:
        jax.jit(jax.shard_map(hvd.allreduce, mesh=mesh, in_specs=spec, out_specs=spec))(jnp.ones(4))
    except hvd.HoraUnsupportedError as error:
        print(error)
    """)
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    result = hrun("-np", "1", sys.executable, "-c", program, environment=environment)
    assert "hora.jax has one device in each process, and this program runs on 2" in result.stdout, (
        result.stderr
    )


def test_the_example_prints_what_its_first_lines_say():
    path = ROOT / "examples/frameworks/jax_digits.py"
    result = hrun("-np", "2", sys.executable, str(path), environment=ONE_CORE)
    assert result.returncode == 0, result.stdout + result.stderr
    check_output(path, re.sub(r"^\[0\] ", "", result.stdout, flags=re.MULTILINE))


def test_the_first_program_of_the_page_runs():
    text = (ROOT / "docs/jax.md").read_text()
    program = text.partition("```python\n")[2].partition("```")[0]
    assert run_python(2, program, environment=ONE_CORE) == [["0 [1. 1. 1.]"], ["1 [1. 1. 1.]"]]
