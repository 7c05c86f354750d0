# SPDX-License-Identifier: Apache-2.0
"""Hora for Keras 3 on TensorFlow, JAX or PyTorch, with the names of horovod.keras.

    import keras, hora.keras as hvd
    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1 * hvd.size()))
    model.compile(optimizer, loss="mse")
    model.fit(x, y, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Start it with `hrun -np 2 python train.py`.
"""

from hora import _shared_names
from hora._shared_names import *  # noqa: F403
from hora._synchronization import barrier
from hora.keras import _keras as _keras  # the first: it says why a Keras is of no use
from hora.keras import callbacks
from hora.keras._arrays import allgather, allreduce, broadcast
from hora.keras._models import load_model
from hora.keras._optimizer import DistributedOptimizer
from hora.keras._variables import broadcast_global_variables

__all__ = [
    "DistributedOptimizer",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "load_model",
]
__all__ += _shared_names.__all__
