# SPDX-License-Identifier: Apache-2.0
"""Hora under torch.compile: what ranks do together stays outside of graphs."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def untraced(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, at which a graph of torch.compile's ends; another one begins after it.

    What torch.compiler.disable does, without importing the compiler for those who do not use it: that takes seconds.
    """
    disabled: Callable[Arguments, Result] | None = None

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if disabled is None:
            disabled = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            assert disabled is not None
        return disabled(*args, **kwargs)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # the mark by which the compiler knows such functions
    return call


with contextlib.suppress(AttributeError):  # an older PyTorch compiles the wrapper's own frames, a few lines, and finds the mark
    torch._C._dynamo.eval_frame.skip_code(untraced(lambda: None).__code__)  # type: ignore[attr-defined]  # one code for all
