# SPDX-License-Identifier: Apache-2.0
"""Callbacks for `fit`: ranks that start alike, metrics of all ranks, and learning rates that warm up."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np

from hora._metrics import average_metrics
from hora.keras._learning_rates import LearningRateScheduleCallback, LearningRateWarmupCallback
from hora.keras._optimizer import is_distributed
from hora.keras._variables import broadcast_global_variables
from hora.process_sets import ProcessSet, global_process_set

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


#: Those of models without a training step of their own.
_TRAIN_STEPS = [each.train_step for each in (keras.Model, keras.Sequential) if hasattr(each, "train_step")]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Gives all ranks the root's weights and optimizer state, before the first step of each `fit`. If the
    model is not built then, after that step.

    On the backend tensorflow it sets `model.jit_compile` to False: XLA cannot compile Hora's operations, and
    Keras would use XLA by default where there is a GPU.

    Args:
        root_rank: the rank that has the weights to begin with.
        device: not used; there for scripts written for Horovod.
        process_set: the ranks that train together.

    Raises:
        HoraArgumentError, HoraInternalError, by `fit`: as `broadcast_global_variables`.
    """

    def __init__(
        self, root_rank: int, device: str = "", process_set: ProcessSet = global_process_set
    ) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._process_set = process_set
        self._done = False

    def set_model(self, model: Any) -> None:
        """Called by Keras, before it makes the function that trains."""
        super().set_model(model)
        if keras.backend.backend() == "tensorflow" and model.jit_compile:
            model.jit_compile = False
            model.train_function = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras."""
        self._done = False
        if not is_distributed(self.model.optimizer) and type(self.model).train_step in _TRAIN_STEPS:
            warnings.warn(
                f"the optimizer of {self.model.name!r} is no DistributedOptimizer, so each rank trains "
                "alone. "
                "Write model.compile(hvd.DistributedOptimizer(optimizer), ...), also for a copy of a model",
                stacklevel=2,
            )
        self._broadcast_once()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._broadcast_once()

    def _broadcast_once(self) -> None:
        if self._done:
            return
        model = self.model
        if not model.built:
            return
        if not model.optimizer.built:  # on TensorFlow the first step would build it
            model.optimizer.build(model.trainable_variables)
        broadcast_global_variables(self._root_rank, model, self._process_set)
        self._done = True


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Replaces the metrics of an epoch by their averages over the ranks. It comes before callbacks that use
    them, such as ReduceLROnPlateau or ModelCheckpoint.

    Args:
        device: not used; there for scripts written for Horovod.
        process_set: the ranks that train together.

    Raises:
        HoraArgumentError, HoraInternalError, by `fit`: as `average_metrics`.
    """

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self._process_set = process_set

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        if not logs:
            return
        # F1Score and others have a number for each class.
        numbers = {
            (key, place): number
            for key, value in logs.items()
            for place, number in np.ndenumerate(keras.ops.convert_to_numpy(value))
        }
        named = {f"{key}{list(place) or ''}": number for (key, place), number in numbers.items()}
        averages = average_metrics(named, process_set=self._process_set).values()
        for (key, place), average in zip(numbers, averages, strict=True):
            if place:
                logs[key] = np.array(logs[key])
                logs[key][place] = average
            else:
                logs[key] = average
