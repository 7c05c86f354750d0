# SPDX-License-Identifier: Apache-2.0
"""Hora under torch.compile: what ranks do together stays outside of graphs."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _disabled(function: Callable[Arguments, Result], wrapper: types.CodeType) -> Callable[Arguments, Result]:
    """As the compiler leaves it alone, and the frames of the wrapper, too: one code for all functions."""
    torch._dynamo.eval_frame.skip_code(wrapper)
    left_alone: Callable[Arguments, Result] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return left_alone


# The compiler's callback for the frames of this thread; None: it does nothing. Versions that do not tell
# count as doing something.
_compiling: Callable[[], Any] = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", bool)


def untraced(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, at which a graph of torch.compile's ends; another one begins after it.

    It does the work of torch.compiler.disable, and does not import the compiler, which takes seconds. Where
    the compiler has been imported, as by torch.optim, it saves the few microseconds that disable costs.
    """
    disabled: Callable[Arguments, Result] | None = None

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if disabled is None:
            disabled = _disabled(function, call.__code__)  # type: ignore[attr-defined]
            return disabled(*args, **kwargs)
        return function(*args, **kwargs) if _compiling() is None else disabled(*args, **kwargs)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # the mark by which the compiler knows such functions
    return call


def untrace(names: dict[str, Any], public: Iterable[str]) -> None:
    """Makes the public functions of a module, whose names these are, untraced."""
    for name in public:
        if inspect.isfunction(names[name]):
            names[name] = untraced(names[name])
