# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer of Keras that reduces gradients before it applies them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import keras

from hora import _job, ops
from hora._arguments import documents
from hora._errors import HoraUnsupportedError, HoraUsageError
from hora._gradients import checked_reduction, is_alone
from hora._naming import names_of
from hora._reduction import Reduction
from hora.compression import Compression
from hora.keras._backends import Reduce, reduce_of_backend
from hora.process_sets import ProcessSet, global_process_set


@dataclasses.dataclass(frozen=True)
class _Reducer:
    """Reduces the gradients of one optimizer."""

    name: str
    how: Reduction
    reduce: Reduce
    sparse_as_dense: bool

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients reduced over the ranks, as one operation."""
        if is_alone(self.how.process_set) or all(each is None for each in gradients):
            return list(gradients)
        if self.sparse_as_dense:
            gradients = [None if each is None else keras.ops.convert_to_tensor(each) for each in gradients]
        names = names_of(variables)
        own = dict(zip(names, gradients, strict=True))
        of_names = dict(zip(names, variables, strict=True))
        return list(self.reduce(own, of_names, self.name, self.how).values())


class _DistributedOptimizer:
    """The methods that DistributedOptimizer puts before those of the optimizer's class."""

    _hora_former: ClassVar[Any]  # the class without Hora
    _hora_reducer: _Reducer
    _trainable_variables: list[Any]
    built: bool

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Reduces the gradients, then does as the optimizer."""
        if trainable_variables is not None or self.built:
            variables = self._trainable_variables if trainable_variables is None else trainable_variables
            grads = self._hora_reducer.reduced(list(grads), list(variables))
        super().apply(grads, trainable_variables)  # type: ignore[misc]

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses a LossScaleOptimizer, which takes the loss scale away from the optimizer that it wraps."""
        if name == "loss_scale_factor" and value is None and hasattr(self, "_hora_reducer"):
            raise HoraUsageError(
                "a LossScaleOptimizer around a DistributedOptimizer would skip steps on single ranks; "
                "with the policy mixed_float16 write "
                "DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))"
            )
        super().__setattr__(name, value)

    @classmethod
    def from_config(cls, *args: Any, **kwargs: Any) -> Any:
        """An optimizer without Hora, as from a saved model."""
        return cls._hora_former.from_config(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy reduces gradients, too."""
        plain: Any = super().__reduce_ex__(protocol)  # Keras copies by a file in memory
        make = getattr(self._hora_former, plain[0].__name__)
        return _copied, (self._hora_reducer, make, plain[1])


class _DistributedLossScaleOptimizer(_DistributedOptimizer):
    """Of a LossScaleOptimizer, whose `stateless_apply` does not call `apply`. Gradients are reduced before it
    looks whether they are finite, so all ranks skip the same steps."""

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """Reduces the gradients, then does as the optimizer."""
        reduced = self._hora_reducer.reduced(list(grads), self._trainable_variables)
        return super().stateless_apply(optimizer_variables, reduced, trainable_variables)  # type: ignore[misc]


@documents(compression="one of Compression: how gradients travel.")
def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = ops.Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = True,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Makes an optimizer reduce gradients over all ranks before it applies them. It is the same object
    afterwards, with its state and its settings.

        model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size())), loss="mse")

    All gradients are one operation, in which the variables' paths name them. Clipping comes after it. A saved
    model has the optimizer without Hora. On one rank, and on ranks outside the process set, it is the plain
    optimizer. On the backend torch a variable that this rank did not use counts as zeros.

    With the policy mixed_float16 the optimizer is a keras.optimizers.LossScaleOptimizer.

    Args:
        optimizer: one of keras.optimizers, or one like them.
        name: the name of the operation; without it optimizers are numbered, in the same order on all ranks.
        device_dense, device_sparse, num_groups, groups: not used; there for scripts written for Horovod.
        sparse_as_dense: whether IndexedSlices, which TensorFlow makes for embeddings, are made dense before
            the reduction.
        op: Average, Sum or Adasum; Average or Sum where there are IndexedSlices.
        backward_passes_per_step: 1. Keras itself accumulates gradients: `gradient_accumulation_steps`.
        average_aggregated_gradients: not used.
        gradient_predivide_factor: divides by it before the sum, multiplies after it. Needs op=Average.

    Raises:
        HoraUsageError (a ValueError): it is no optimizer of Keras, or is distributed already; or a
            LossScaleOptimizer is put around it.
        HoraArgumentError (a ValueError): an argument is out of range, or the set is not registered.
        HoraUnsupportedError (a ValueError): `backward_passes_per_step` is not 1, or the backend is none of
            tensorflow, jax and torch.
        HoraNotInitializedError (a ValueError): this process is in no job.
        HoraInternalError (a RuntimeError), in a step: the ranks disagree; the text names the variable. The
            backends tensorflow and jax raise exceptions of their own, with that text.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise HoraUsageError(
            f"expected an optimizer, such as keras.optimizers.SGD(0.1), not {type(optimizer).__name__}"
        )
    if isinstance(optimizer, _DistributedOptimizer):
        raise HoraUsageError("this optimizer already is a DistributedOptimizer")
    if backward_passes_per_step != 1:
        raise HoraUnsupportedError(
            f"backward_passes_per_step={backward_passes_per_step!r}: Keras accumulates gradients itself; "
            "give gradient_accumulation_steps= to the optimizer"
        )
    how = checked_reduction(Reduction, op, gradient_predivide_factor, process_set, compression)
    is_alone(process_set)
    own_name = name or _job.object_name("optimizer", process_set.process_set_id)
    reducer = _Reducer(own_name, how, reduce_of_backend(), sparse_as_dense)
    return _made_distributed(optimizer, reducer)


def _made_distributed(optimizer: Any, reducer: _Reducer) -> Any:
    optimizer.__class__ = _distributed(optimizer.__class__)
    optimizer._hora_reducer = reducer
    return optimizer


def _distributed(former: Any) -> Any:
    """The class of optimizers of this class that reduce gradients."""
    scaling = issubclass(former, keras.optimizers.LossScaleOptimizer)
    return type(
        former.__name__,
        (_DistributedLossScaleOptimizer if scaling else _DistributedOptimizer, former),
        {
            "__doc__": former.__doc__,
            "_hora_former": former,
            # Keras saves the name of what `__class__` gives, so that files can be loaded without Hora.
            "__class__": property(lambda self: former),
        },
    )


def _copied(reducer: _Reducer, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return _made_distributed(make(*arguments), reducer)


def is_distributed(optimizer: Any) -> bool:
    """Whether an optimizer reduces gradients."""
    return isinstance(optimizer, _DistributedOptimizer)
