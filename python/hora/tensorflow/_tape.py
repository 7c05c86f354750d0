# SPDX-License-Identifier: Apache-2.0
"""DistributedGradientTape: gradients that are the ranks' average."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hora import ops
from hora._errors import HoraArgumentError
from hora._gradients import checked_reduction, is_alone
from hora._naming import names_of
from hora._reduction import Reduction
from hora.compression import Compression
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow._arguments import public
from hora.tensorflow._together import reduce_together


class _DistributedGradientTape:
    """The method that DistributedGradientTape puts before that of the tape's class."""

    _hora_reduction: Reduction
    _hora_sparse_as_dense: bool

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """The gradients of `tf.GradientTape.gradient`, reduced over the ranks as one operation. None stays
        None, so the ranks use the same sources."""
        own = super().gradient(target, sources, *args, **kwargs)  # type: ignore[misc]
        gradients = tf.nest.flatten(own)
        used = [place for place, each in enumerate(gradients) if each is not None]
        if not used or is_alone(self._hora_reduction.process_set):
            return own
        items = [gradients[place] for place in used]
        if self._hora_sparse_as_dense:
            items = [tf.convert_to_tensor(each) for each in items]
        names = names_of(tf.nest.flatten(sources))
        suffixes = [f".{names[place]}" for place in used]
        reduced = reduce_together(items, suffixes, "gradients", "tape", self._hora_reduction)
        for place, each in zip(used, reduced, strict=True):
            gradients[place] = each
        return tf.nest.pack_sequence_as(sources, gradients)


@public
def DistributedGradientTape(
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Makes a tape reduce gradients over all ranks. It is the same tape afterwards.

        with tf.GradientTape() as tape:
            loss = loss_of(model(x), y)
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)

    Each call of `gradient` is one operation on all gradients, so the ranks cannot wait for each other in
    different orders. It works within `tf.function`, and on persistent tapes. IndexedSlices are gathered.
    `jacobian` and `batch_jacobian` are this rank's own. On one rank, and on ranks outside the process set, it
    is the plain tape.

    Args:
        gradtape: a tf.GradientTape.
        device_dense, device_sparse, num_groups, groups: not used; there for scripts written for Horovod.
        compression: one of Compression: how floats travel; or a class with
            `compress(tensor)` and `decompress(tensor, context)`, which is not applied to IndexedSlices.
        sparse_as_dense: whether IndexedSlices are made tensors, and reduced as these.
        op: Average, Sum or Adasum; Average or Sum where there are IndexedSlices.
        gradient_predivide_factor: divides by it before the sum, multiplies after it. Needs op=Average.

    Raises:
        HoraArgumentError (a ValueError): an argument is out of range, or the process set is not registered.
        HoraNotInitializedError (a ValueError): this process is in no job.
        HoraInternalError (a RuntimeError), by `gradient`: the ranks disagree; the text names the variable.
            Within `tf.function` TensorFlow raises a tf.errors.OpError with that text.
    """
    if not isinstance(gradtape, tf.GradientTape):
        raise HoraArgumentError(f"expected a tf.GradientTape, not {type(gradtape).__name__}")
    if isinstance(gradtape, _DistributedGradientTape):
        raise HoraArgumentError("this tape already is a DistributedGradientTape")
    how = checked_reduction(Reduction, op, gradient_predivide_factor, process_set, compression)
    is_alone(process_set)
    former = gradtape.__class__
    gradtape.__class__ = type(
        former.__name__, (_DistributedGradientTape, former), {"__doc__": former.__doc__}
    )
    gradtape._hora_reduction = how
    gradtape._hora_sparse_as_dense = sparse_as_dense
    return gradtape
