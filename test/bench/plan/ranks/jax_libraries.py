# SPDX-License-Identifier: Apache-2.0
"""The libraries that are compared in compiled programs of JAX, behind one face."""

import abc
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

Function = Callable[..., Any]

SAME, OWN = PartitionSpec(), PartitionSpec("ranks")


class JaxLibrary(abc.ABC):
    """A job's ranks, connected, each with one device on the CPU."""

    rank: int
    size: int

    @abc.abstractmethod
    def barrier(self) -> None: ...

    @abc.abstractmethod
    def sum(self, array: jax.Array) -> jax.Array:
        """Within a program: the sum over all ranks."""

    def optimizer(self, plain: Any) -> Any:
        """Within a program: an optimizer of optax that averages the gradients of all ranks."""
        import optax

        def update(gradients: Any, state: Any, params: Any = None) -> Any:
            averaged = jax.tree.map(lambda one: self.sum(one) / self.size, gradients)
            return plain.update(averaged, state, params)

        return optax.GradientTransformation(plain.init, update)

    def compiled(self, function: Function, replicated: int, **options: Any) -> Function:
        """A program that each rank runs with its arrays. The first `replicated` arguments are the same on all
        ranks, and if there are such, the results. `options` are those of jax.jit."""
        return jax.jit(function, **options)

    def shared(self, array: np.ndarray) -> jax.Array:
        """An array that is the same on all ranks, for such a program."""
        return self._put(array)

    def own(self, array: np.ndarray) -> jax.Array:
        """An array of this rank's, for such a program."""
        return self._put(array)

    def _put(self, array: np.ndarray) -> jax.Array:
        """An array in memory of JAX's own. jax.device_put may take NumPy's, which no program can be given."""
        return jax.numpy.array(array)

    @abc.abstractmethod
    def close(self) -> None: ...


class Hora(JaxLibrary):
    def __init__(self) -> None:
        import hora.jax

        self._hvd: Any = hora.jax
        self._hvd.init()
        self.rank, self.size = self._hvd.rank(), self._hvd.size()

    def barrier(self) -> None:
        self._hvd.barrier()

    def sum(self, array: jax.Array) -> jax.Array:
        return self._hvd.allreduce(array, op=self._hvd.Sum)

    def optimizer(self, plain: Any) -> Any:
        return self._hvd.DistributedOptimizer(plain)

    def close(self) -> None:
        self._hvd.shutdown()


class Gloo(JaxLibrary):
    """JAX's own collectives between processes: each rank has a shard of global arrays."""

    def __init__(self) -> None:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        jax.distributed.initialize(address, self.size, self.rank)
        self._mesh = jax.make_mesh((self.size,), ("ranks",))
        self._meet = self.compiled(self.sum, 0)
        self._one = self.own(np.ones(1, np.float32))

    def barrier(self) -> None:
        jax.block_until_ready(self._meet(self._one))

    def sum(self, array: jax.Array) -> jax.Array:
        return jax.lax.psum(array, "ranks")

    def compiled(self, function: Function, replicated: int, **options: Any) -> Function:
        def mapped(*arguments: Any) -> Any:
            specs = (SAME,) * replicated + (OWN,) * (len(arguments) - replicated)
            # Without the check, jax.grad leaves the sums of gradients to the program.
            whole = jax.shard_map(
                function, mesh=self._mesh, in_specs=specs, out_specs=specs[0], check_vma=False
            )
            return whole(*arguments)

        return jax.jit(mapped, **options)

    def shared(self, array: np.ndarray) -> jax.Array:
        return self._global(array, SAME, array.shape)

    def own(self, array: np.ndarray) -> jax.Array:
        return self._global(array, OWN, (self.size * len(array), *array.shape[1:]))

    def _global(self, array: np.ndarray, spec: PartitionSpec, shape: tuple[int, ...]) -> jax.Array:
        sharding = NamedSharding(self._mesh, spec)
        return jax.make_array_from_single_device_arrays(shape, sharding, [self._put(array)])

    def close(self) -> None:
        jax.distributed.shutdown()


class Mpi4jax(JaxLibrary):
    def __init__(self) -> None:
        import mpi4jax
        from mpi4py import MPI

        self._mpi4jax, self._mpi = mpi4jax, MPI
        self.rank, self.size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()

    def barrier(self) -> None:
        self._mpi.COMM_WORLD.Barrier()

    def sum(self, array: jax.Array) -> jax.Array:
        return self._mpi4jax.allreduce(array, op=self._mpi.SUM)

    def close(self) -> None:
        pass


LIBRARIES: dict[str, Callable[[], JaxLibrary]] = {"hora": Hora, "gloo": Gloo, "mpi4jax": Mpi4jax}
