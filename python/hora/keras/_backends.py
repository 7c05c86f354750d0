# SPDX-License-Identifier: Apache-2.0
"""The reduction of gradients on each backend of Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from hora import _job
from hora._errors import HoraUnsupportedError
from hora._reduction import Reduction

#: Of gradients and variables, by the names of these, it makes reduced gradients. Those of unused variables
#: are None. The other arguments are the name of the whole and the reduction.
Reduce = Callable[[dict[str, Any], dict[str, Any], str, Reduction], dict[str, Any]]


def _on_tensorflow(
    gradients: dict[str, Any], variables: dict[str, Any], name: str, how: Reduction
) -> dict[str, Any]:
    from hora.tensorflow._together import reduce_together

    used = {key: each for key, each in gradients.items() if each is not None}
    reduced = reduce_together(list(used.values()), [f".{key}" for key in used], "gradients", name, how)
    return gradients | dict(zip(used, reduced, strict=True))


def _on_jax(
    gradients: dict[str, Any], variables: dict[str, Any], name: str, how: Reduction
) -> dict[str, Any]:
    import hora.jax

    used = {key: each for key, each in gradients.items() if each is not None}
    reduced: dict[str, Any] = hora.jax.allreduce(
        used, f"gradients.{name}", how.op, how.prescale, how.postscale, how.compression, how.process_set
    )
    return gradients | reduced


def _on_torch(
    gradients: dict[str, Any], variables: dict[str, Any], name: str, how: Reduction
) -> dict[str, Any]:
    """Each rank's graph is its own, so a variable may be unused on some ranks. It counts as zeros there."""
    import torch

    from hora.torch._ops.allreduce import start_gradients_in_place
    from hora.torch._ops.reduction import Reduction as OfTensors
    from hora.torch._untraced import untraced

    used = torch.tensor([each is not None for each in gradients.values()], dtype=torch.uint8)
    filled = {
        key: torch.zeros_like(variables[key].value, requires_grad=False) if each is None else each
        for key, each in gradients.items()
    }
    of_tensors = OfTensors(how.op, how.prescale, how.postscale, how.process_set, how.compression)
    untraced(_job.run)(start_gradients_in_place, filled, used, name, of_tensors)
    return {
        key: each if is_used else None
        for (key, each), is_used in zip(filled.items(), used.tolist(), strict=True)
    }


_BACKENDS: dict[str, Reduce] = {"tensorflow": _on_tensorflow, "jax": _on_jax, "torch": _on_torch}


def reduce_of_backend() -> Reduce:
    """The function for the backend that Keras uses. Raises HoraUnsupportedError if there is none."""
    backend = keras.backend.backend()
    if backend not in _BACKENDS:
        raise HoraUnsupportedError(
            f"hora.keras has no backend {backend!r}: set KERAS_BACKEND to {', '.join(_BACKENDS)} before "
            "Keras is imported"
        )
    return _BACKENDS[backend]
