# SPDX-License-Identifier: Apache-2.0
"""A function of the module `sys` that Hora replaces while this process is in a job."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class Hook:
    """Replaces one function of `sys` from `install` to `remove`.

    Other libraries may replace the same function later, and keep a reference to the one of Hora. It then
    stays in their chain, and after `remove` it only calls the function that was there before. Each `install`
    makes a new function, so that no chain calls itself. Not thread-safe: `init` and `shutdown` call it.
    """

    def __init__(self, name: str, replacement: Callable[..., Any]) -> None:
        """`replacement(former, *arguments)` is called in place of `former(*arguments)`."""
        self._name = name
        self._replacement = replacement
        self._own: Callable[..., Any] | None = None

    def install(self) -> None:
        """Does nothing the second time."""
        if self._own is not None:
            return
        former = getattr(sys, self._name)

        @functools.wraps(former)
        def own(*arguments: Any) -> Any:
            return self._replacement(former, *arguments) if self._own is own else former(*arguments)

        self._own = own
        setattr(sys, self._name, own)

    def remove(self) -> None:
        """Puts the former function back, unless somebody else has replaced it since."""
        own, self._own = self._own, None
        if own is not None and getattr(sys, self._name) is own:
            setattr(sys, self._name, own.__wrapped__)  # type: ignore[attr-defined]
