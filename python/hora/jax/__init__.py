# SPDX-License-Identifier: Apache-2.0
"""Hora for JAX.

    import hora.jax as hvd, jax.numpy as jnp
    hvd.init()
    total = hvd.allreduce(jnp.ones(3), op=hvd.Sum)
    print(hvd.rank(), total)

Start it with `hrun -np 2 python program.py`. Operations work outside of jit, and under jit, grad, vmap and
shard_map. Each process has one device.
"""

from hora import _shared_names
from hora._shared_names import *  # noqa: F403
from hora.jax import _jax as _jax  # the first: it says why a JAX is of no use
from hora.jax._operations import allgather, allreduce, alltoall, barrier, broadcast, reducescatter
from hora.jax._training import DistributedOptimizer, allreduce_gradients, broadcast_parameters

__all__ = [
    "DistributedOptimizer",
    "allgather",
    "allreduce",
    "allreduce_gradients",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_parameters",
    "reducescatter",
]
__all__ += _shared_names.__all__
