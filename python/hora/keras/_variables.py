# SPDX-License-Identifier: Apache-2.0
"""Variables that begin alike on all ranks."""

from __future__ import annotations

from typing import Any

import keras

from hora import _job
from hora._arguments import documented
from hora._errors import HoraUsageError
from hora._groups import start_broadcasts
from hora._naming import unique
from hora.process_sets import ProcessSet, global_process_set


@documented
def broadcast_global_variables(
    root_rank: int, model: Any = None, process_set: ProcessSet = global_process_set
) -> None:
    """Gives all ranks the weights of the root's model, and the state of its optimizer.

    The states of random generators stay those of each rank, so that ranks drop different units.

    Args:
        model: a built model. Keras 3 has no list of all variables, as TensorFlow 1 had.

    Raises:
        HoraUsageError (a ValueError): it is no model, or not built.
        HoraArgumentError (a ValueError): there is no such rank, or this one is no member of the set.
        HoraInternalError (a RuntimeError): the ranks' models differ; the text names the variable.
    """
    if not isinstance(model, keras.Model):
        raise HoraUsageError(
            f"broadcast_global_variables() needs a model, not {type(model).__name__}: Keras 3 has no list of "
            "all variables; write broadcast_global_variables(0, model)"
        )
    if not model.built:
        raise HoraUsageError("the model has no variables yet; call model.build() or the model itself before")
    optimizer = getattr(model, "optimizer", None)
    variables = list(model.weights)
    names = [f"model.{each.path}" for each in model.weights]
    if optimizer is not None and optimizer.built:
        variables += optimizer.variables
        names += [f"optimizer.{each.path}" for each in optimizer.variables]
    named = dict(zip(unique(names), variables, strict=True))
    arrays = {name: keras.ops.convert_to_numpy(each) for name, each in named.items()}
    received = _job.run(start_broadcasts, arrays, "broadcast_global_variables", None, root_rank, process_set)
    for variable, value in zip(variables, received, strict=True):
        variable.assign(value)
