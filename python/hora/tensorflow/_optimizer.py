# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer, which is that of hora.keras."""

from __future__ import annotations

from typing import Any


def DistributedOptimizer(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """`hora.keras.DistributedOptimizer`, with the same arguments. Keras is imported when it is called."""
    from hora.keras import DistributedOptimizer as of_keras

    return of_keras(optimizer, *args, **kwargs)
