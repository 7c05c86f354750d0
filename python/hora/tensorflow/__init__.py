# SPDX-License-Identifier: Apache-2.0
"""Hora for TensorFlow 2, with the names of horovod.tensorflow.

    import tensorflow as tf, hora.tensorflow as hvd
    hvd.init()
    total = hvd.allreduce(tf.ones(3), op=hvd.Sum)
    print(hvd.rank(), total)

Start it with `hrun -np 2 python program.py`. Operations work eagerly and within `tf.function`. There they
are nodes of `tf.numpy_function`: the host runs them, with Python's lock, and XLA (`jit_compile=True`) cannot
compile them. TensorFlow raises the errors of such a node as tf.errors.OpError, with Hora's text.
"""

from hora import _shared_names
from hora._shared_names import *  # noqa: F403
from hora._synchronization import barrier
from hora.tensorflow import _tensorflow as _tensorflow  # the first: it says why a TensorFlow is of no use
from hora.tensorflow._allreduce import allreduce, grouped_allreduce
from hora.tensorflow._optimizer import DistributedOptimizer
from hora.tensorflow._rows import allgather, alltoall, broadcast, reducescatter
from hora.tensorflow._tape import DistributedGradientTape
from hora.tensorflow._variables import broadcast_variables

__all__ = [
    "DistributedGradientTape",
    "DistributedOptimizer",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_variables",
    "grouped_allreduce",
    "reducescatter",
]
__all__ += _shared_names.__all__
