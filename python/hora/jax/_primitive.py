# SPDX-License-Identifier: Apache-2.0
"""The primitive of JAX that all operations are, with its derivatives, its batches and its custom call.

Each rank differentiates its own function. The derivative of an operation is that of the sum of the functions
of all ranks.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from hora import _job
from hora._errors import HoraUnsupportedError
from hora.jax import _library
from hora.jax._call import (
    ADASUM,
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    AVERAGE,
    BROADCAST,
    REDUCESCATTER,
    SUM,
    Call,
)

_primitive = Primitive("hora")
_primitive.multiple_results = True


def call(arrays: Sequence[jax.Array], how: Call) -> list[jax.Array]:
    """Carries out an operation on each array; all begin together."""
    _library.register()
    results: list[jax.Array] = _primitive.bind(*arrays, call=how)
    return results


# --- outside of jit ---


@functools.lru_cache(maxsize=4096)
def _compiled(how: Call) -> Any:
    def eager(*arrays: jax.Array) -> list[jax.Array]:
        return call(arrays, how)

    return jax.jit(eager)


def _execute(*arrays: jax.Array, call: Call) -> list[jax.Array]:
    with jax.disable_jit(False):
        results: list[jax.Array] = _compiled(call)(*arrays)
    return results


_primitive.def_impl(_execute)


# --- under jit ---


def _shapes(*arrays: Any, call: Call) -> list[Any]:
    if call.rows is None:
        return [array.update(weak_type=False) for array in arrays]
    return [array.update(shape=(call.rows, *array.shape[1:]), weak_type=False) for array in arrays]


_primitive.def_abstract_eval(_shapes)


class _Program:
    """A program that is lowered."""

    _counts: collections.Counter[str] = collections.Counter()  # how many of each name there were
    _lock = threading.Lock()
    _of_thread = threading.local()

    def __init__(self, module: Any) -> None:
        self._module = module
        self.name = module.operation.attributes["sym_name"].value.removeprefix("jit_")
        self._names: collections.Counter[str] = collections.Counter()
        with self._lock:
            self._counts[self.name] += 1
            self.key = f"{self.name}#{self._counts[self.name]}"

    @classmethod
    def of(cls, module: Any) -> _Program:
        """That of this module. A thread lowers one at a time, or one within another."""
        latest: collections.deque[_Program]
        latest = cls._of_thread.__dict__.setdefault("latest", collections.deque(maxlen=4))
        for known in latest:
            if known._module is module:
                return known
        latest.append(cls(module))
        return latest[-1]

    def completed(self, name: str, unnamed: bool) -> str:
        """The name of an operation, in the order of the program: ".2" makes another one of a second "x"."""
        if unnamed:
            kind, *path = name.split(".", 1)
            name = ".".join([kind, self.name, *path])
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}.{self._names[name]}"


def _check_devices(context: Any) -> None:
    of_mesh = getattr(context, "mesh", None)
    devices = of_mesh.size if of_mesh is not None else getattr(context, "num_devices", 1)
    if devices > 1:
        raise HoraUnsupportedError(
            f"hora.jax has one device in each process, and this program runs on {devices}: start one process "
            f"for each (hrun -np {devices}), and give each its own device"
        )


def _lower(context: Any, *operands: Any, call: Call) -> Any:
    _check_devices(context.module_context.axis_context)
    program = _Program.of(context.module_context.module)
    names = [program.completed(name, call.unnamed) for name in call.names]
    aliases = {i: i for i, operand in enumerate(operands) if call.rows is None and not _is_kept(operand)}
    lower = jax.ffi.ffi_lowering(_library.TARGET, has_side_effect=True, operand_output_aliases=aliases)
    return lower(context, *operands, **call.attributes(program.key, names))


def _is_kept(operand: Any) -> bool:
    """Whether it is an argument of the program that the caller keeps. XLA would copy it to write over it."""
    function = operand.owner.owner if hasattr(operand, "arg_number") else None
    if function is None or function.operation.name != "func.func" or function.name.value != "main":
        return False
    described = function.arg_attrs[operand.arg_number]
    return "tf.aliasing_output" not in described and "jax.buffer_donor" not in described


for _platform in ("cpu", "cuda"):
    mlir.register_lowering(_primitive, _lower, platform=_platform, cacheable=False)


# --- derivatives ---


def _tangents(primals: Sequence[Any], tangents: Sequence[Any], *, call: Call) -> tuple[Any, Any]:
    outputs = _primitive.bind(*primals, call=call)
    chosen = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]
    if chosen and not call.is_linear:
        raise HoraUnsupportedError(
            f"'{call.names[0]}': only op=Average and op=Sum have a derivative; jax.lax.stop_gradient() keeps "
            "an operation out of it"
        )
    known: dict[int, Any] = {}
    if chosen:
        moved = _primitive.bind(*(tangents[i] for i in chosen), call=call.of(chosen, ".tangent"))
        known = dict(zip(chosen, moved, strict=True))
    return outputs, [
        known[i] if i in known else ad.Zero(jax.typeof(output).to_tangent_aval())
        for i, output in enumerate(outputs)
    ]


def _cotangents(cotangents: Sequence[Any], *inputs: Any, call: Call) -> list[Any]:
    chosen = [i for i, cotangent in enumerate(cotangents) if type(cotangent) is not ad.Zero]
    known: dict[int, Any] = {}
    if chosen:
        given = [cotangents[i] for i in chosen]
        back = _TRANSPOSED[call.operation](given, call.of(chosen, ".cotangent"))
        known = dict(zip(chosen, back, strict=True))
    return [known[i] if i in known else ad.Zero(one.aval) for i, one in enumerate(inputs)]


def _of_broadcast(cotangents: list[Any], how: Call) -> list[Any]:
    """The sum of all on the root; zeros elsewhere. The compiler does not see which, so it keeps the sum, and
    makes the same program on all ranks."""
    summed = call(cotangents, dataclasses.replace(how, operation=ALLREDUCE, op=SUM, ranks=_job.size()))
    is_root = jax.lax.optimization_barrier(jax.numpy.asarray(_job.rank() == how.root))
    return [jax.numpy.where(is_root, one, jax.numpy.zeros_like(one)) for one in summed]


def _of_allgather(cotangents: list[Any], how: Call) -> list[Any]:
    """This rank's rows of the sum of all."""
    own = how.parts[how.place]
    if all(part == own for part in how.parts):
        return call(cotangents, dataclasses.replace(how, operation=REDUCESCATTER, op=SUM, rows=own))
    summed = call(cotangents, dataclasses.replace(how, operation=ALLREDUCE, op=SUM, rows=None))
    begin = sum(how.parts[: how.place])
    return [one[begin : begin + own] for one in summed]


def _of_reducescatter(cotangents: list[Any], how: Call) -> list[Any]:
    """The rows of all, times the factors of the reduction."""
    back = dataclasses.replace(how, operation=ALLGATHER, prescale=1.0, postscale=1.0, rows=sum(how.parts))
    factor = how.prescale * how.postscale / (len(how.parts) if how.op == AVERAGE else 1)
    return [one * jax.numpy.asarray(factor, one.dtype) for one in call(cotangents, back)]


def _of_alltoall(cotangents: list[Any], how: Call) -> list[Any]:
    """The rows go back to the ranks that have sent them."""
    return call(
        cotangents, dataclasses.replace(how, splits=how.parts, parts=how.splits, rows=sum(how.splits))
    )


_TRANSPOSED = {
    ALLREDUCE: call,
    BROADCAST: _of_broadcast,
    ALLGATHER: _of_allgather,
    ALLTOALL: _of_alltoall,
    REDUCESCATTER: _of_reducescatter,
}

ad.primitive_jvps[_primitive] = _tangents
ad.primitive_transposes[_primitive] = _cotangents


# --- vmap ---


def _batched(arrays: Sequence[Any], axes: Sequence[Any], *, call: Call) -> tuple[Any, Any]:
    """The whole batch travels at once. Rows stay the first dimension, and the batch becomes the second. An
    array that is the same in the whole batch has no axis, but None."""
    if call.operation == ALLREDUCE and call.op == ADASUM:
        raise HoraUnsupportedError(
            f"'{call.names[0]}': op=Adasum depends on the whole array, so jax.vmap cannot batch it; use "
            "op=Average, or call it outside of vmap"
        )
    if call.rows is not None:
        arrays = [
            array if axis is None else jax.numpy.moveaxis(array, axis, 1)
            for array, axis in zip(arrays, axes, strict=True)
        ]
        axes = [axis if axis is None else 1 for axis in axes]
    return _primitive.bind(*arrays, call=call), axes


batching.primitive_batchers[_primitive] = _batched
