# SPDX-License-Identifier: Apache-2.0
"""Saved models, with optimizers that reduce gradients again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from hora.compression import Compression
from hora.keras._optimizer import DistributedOptimizer


def load_model(
    filepath: str | os.PathLike[str],
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = Compression.none,
) -> Any:
    """A model that `model.save` has written. Its optimizer is a DistributedOptimizer with the saved state.

    Args:
        filepath: as for `keras.models.load_model`, a file that each rank can read.
        custom_optimizers: classes of optimizers that are not of Keras and not registered with it.
        custom_objects: other such objects, by their names.
        compression: one of Compression: how gradients travel.

    Raises:
        HoraArgumentError, HoraUnsupportedError, HoraNotInitializedError: as `DistributedOptimizer`.
        ValueError, OSError: as `keras.models.load_model`.
    """
    classes = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**classes, **(custom_objects or {})})
    if model.optimizer is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
