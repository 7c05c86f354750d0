# SPDX-License-Identifier: Apache-2.0
"""The parts that all public functions have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from hora._arguments import documents

Function = TypeVar("Function", bound=Callable[..., Any])

_documented = documents(
    name="the same on all ranks; operations without a name are matched by the order in which ranks issue "
    "them, or in which their graphs have them.",
    compression="one of Compression: how floats travel; or a class with "
    "`compress(tensor)` and `decompress(tensor, context)`.",
)


def public(function: Function) -> Function:
    """A decorator. It completes the docstring, and AutoGraph leaves the function as it is."""
    as_it_is: Function = tf.autograph.experimental.do_not_convert(_documented(function))
    return as_it_is
