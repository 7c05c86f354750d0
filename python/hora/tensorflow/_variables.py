# SPDX-License-Identifier: Apache-2.0
"""Variables that begin alike on all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hora import _job
from hora._groups import start_broadcasts
from hora._loans import Array
from hora._naming import names_of
from hora.process_sets import ProcessSet, global_process_set
from hora.tensorflow._arguments import public
from hora.tensorflow._call import call, name_in_graph


@public
def broadcast_variables(
    variables: Iterable[Any], root_rank: int = 0, process_set: ProcessSet = global_process_set
) -> None:
    """Gives all ranks the values that the root's variables have. Also within `tf.function`.

    Args:
        variables: variables of TensorFlow or of Keras, as many on all ranks, with the same shapes and dtypes.

    Raises:
        HoraArgumentError (a ValueError): a variable cannot be sent, there is no such rank, or this one is no
            member of the set.
        HoraInternalError (a RuntimeError): the ranks disagree about the variables; the text names one.
    """
    listed = list(variables)
    named_so = name_in_graph(None)
    if not listed:
        return
    names = names_of(listed)

    def values_of_root(*arrays: Array) -> Any:
        own = dict(zip(names, arrays, strict=True))
        return _job.run(start_broadcasts, own, "broadcast_variables", named_so, root_rank, process_set)

    tensors = [tf.convert_to_tensor(each) for each in listed]
    received = call(values_of_root, tensors, [(each.dtype, each.shape) for each in tensors])
    for variable, value in zip(listed, received, strict=True):
        variable.assign(value)
