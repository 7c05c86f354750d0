# SPDX-License-Identifier: Apache-2.0
"""Learning rates that change while `fit` runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from hora import _job
from hora._errors import HoraArgumentError, HoraUsageError


class LearningRateScheduleCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate to initial_lr * multiplier(epoch), from one epoch to another.

    Args:
        initial_lr: the learning rate that is multiplied.
        multiplier: a number, or a function of the epoch, which is a float unless `staircase`.
        start_epoch: the first epoch for which it counts.
        end_epoch: the first epoch for which it does not count any more; None: there is none.
        staircase: whether the rate changes at the beginning of epochs only, not at every batch. A number
            changes at the beginning of epochs only.
        momentum_correction: whether the momentum of keras.optimizers.SGD is scaled with the rate. Keras has
            the rate in it already, so a higher rate would count late.
        steps_per_epoch: the batches of an epoch, if Keras cannot know them.

    Raises:
        HoraArgumentError (a ValueError): an argument is out of range.
        HoraUsageError (a ValueError), by `fit`: the steps of an epoch are not known.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(initial_lr, (int, float)):
            raise HoraArgumentError(
                f"initial_lr must be a number, such as 0.1 * hvd.size(), not {initial_lr!r}"
            )
        self._initial_lr = initial_lr
        self._multiplier = multiplier if callable(multiplier) else lambda epoch: float(multiplier)
        self._start_epoch = start_epoch
        self._end_epoch = end_epoch
        self._staircase = staircase or not callable(multiplier)
        self._momentum_correction = momentum_correction
        self._steps_per_epoch = steps_per_epoch
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        ended = self._end_epoch is not None and self._epoch >= self._end_epoch
        if self._epoch < self._start_epoch or ended:
            return
        if not self._staircase:
            self._set(self._multiplier(self._epoch + batch / self._steps()))
        elif batch == 0:
            self._set(self._multiplier(self._epoch))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras. Adds the learning rate to the metrics."""
        if logs is not None:
            logs["lr"] = self._rate(self.model.optimizer)

    def _steps(self) -> int:
        steps = self._steps_per_epoch or self.params.get("steps")
        if not steps:
            raise HoraUsageError(
                f"{type(self).__name__}: Keras does not know how many batches an epoch has; give "
                "steps_per_epoch="
            )
        return int(steps)

    def _set(self, multiplier: float) -> None:
        optimizer = self.model.optimizer
        former, rate = self._rate(optimizer), self._initial_lr * multiplier
        optimizer.learning_rate = rate
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if not self._momentum_correction or not isinstance(inner, keras.optimizers.SGD):
            return
        if inner.built and inner.momentum and former > 0 and rate != former:
            for momentum in inner.momentums:
                momentum.assign(momentum * (rate / former))

    @staticmethod
    def _rate(optimizer: Any) -> float:
        return float(keras.ops.convert_to_numpy(optimizer.learning_rate))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Lets the learning rate grow from initial_lr / size() to initial_lr, batch by batch.

    Large learning rates at the beginning may spoil a training (Goyal et al., 2017: "Accurate, Large Minibatch
    SGD"). After the warmup epochs the rate stays, unless another callback changes it.

    Args:
        initial_lr: the learning rate for all ranks, such as 0.1 * hvd.size().
        warmup_epochs: in how many epochs it grows.
        momentum_correction, steps_per_epoch: as for LearningRateScheduleCallback.
        verbose: whether a line says that it has ended.

    Raises:
        HoraArgumentError, HoraUsageError: as LearningRateScheduleCallback.
        HoraNotInitializedError (a ValueError), by `fit`: this process is in no job.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        if not warmup_epochs > 0:
            raise HoraArgumentError(f"warmup_epochs must be positive, not {warmup_epochs!r}")
        self._warmup_epochs = warmup_epochs
        self._verbose = verbose
        super().__init__(
            initial_lr,
            self._grown,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )

    def _grown(self, epoch: float) -> float:
        done = (epoch + 1 / self._steps()) / self._warmup_epochs  # 1 at the last batch
        return (1 + done * (_job.size() - 1)) / _job.size()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        super().on_epoch_end(epoch, logs)
        if self._verbose and epoch == self._warmup_epochs - 1:
            print(f"Epoch {epoch + 1}: the learning rate has grown to {self._rate(self.model.optimizer):g}.")
