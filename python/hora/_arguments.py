# SPDX-License-Identifier: Apache-2.0
"""The arguments that operations have in common: their documentation, and their checks.

Names and process sets are checked by `_naming.Naming`, reductions by `_reduction.Reduction`, and rows by
`_rows`.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from hora._errors import HoraArgumentError

Function = TypeVar("Function", bound=Callable[..., Any])

_GREATEST = 2**31 - 1

_TEXTS = {
    "obj": "anything that can be pickled.",
    "root_rank": "the root, by its number in the job, also within a process set.",
    "out": "where the result goes, in place of a new one: contiguous, of its dtype and shape.",
    "name": "the same on all ranks; unnamed operations are matched by the order in which ranks issue them.",
    "prescale_factor": "a number; each rank's elements are multiplied by it before the reduction.",
    "postscale_factor": "a number; the result is multiplied by it.",
    "process_set": "the ranks that take part; all ranks by default.",
}


def documents(**texts: str) -> Callable[[Function], Function]:
    """A decorator that completes a docstring. To the section Args it adds the parameters of the function that
    the docstring itself leaves out, with the texts above or those given here. The function stays the same
    object, with its signature."""
    known = _TEXTS | texts

    def complete(function: Function) -> Function:
        if function.__doc__ is not None:  # `python -OO` removes docstrings
            parameters = list(inspect.signature(function).parameters)
            function.__doc__ = _completed(inspect.cleandoc(function.__doc__), parameters, known)
        return function

    return complete


documented = documents()


def _completed(doc: str, parameters: list[str], texts: dict[str, str]) -> str:
    missing = [
        f"\n    {name}: " + texts[name].replace("\n", "\n        ")
        for name in parameters
        if name in texts and f"\n    {name}: " not in doc
    ]
    begins = [doc.find(f"\n\n{section}:\n") for section in ("Returns", "Raises")]
    end = min((begin for begin in begins if begin >= 0), default=len(doc))
    heading = "" if "\n\nArgs:\n" in doc or not missing else "\n\nArgs:"
    return doc[:end] + heading + "".join(missing) + doc[end:]


def checked_number(value: Any, name: str, argument: str, what: str) -> int:
    """An argument of the operation `name` as a number that travels. Whether it makes sense is checked when
    the operation is submitted."""
    try:
        checked = operator.index(value)
    except TypeError:
        raise HoraArgumentError(f"'{name}': {argument} must be {what}, not {value!r}") from None
    if abs(checked) > _GREATEST:
        raise HoraArgumentError(
            f"'{name}': {argument}={checked} is too large: {argument}s end at {_GREATEST}"
        )
    return checked


def checked_root(root_rank: Any, name: str) -> int:
    """A root rank as a number. Whether there is such a rank is checked when the operation is submitted."""
    return checked_number(root_rank, name, "root_rank", "the number of a rank")


def check_factor(factor: Any, argument: str) -> None:
    """Raises HoraArgumentError for a factor that is no number. A tensor with one element is a number, too; a
    string is none."""
    try:
        if isinstance(factor, str):
            raise TypeError
        float(factor)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise HoraArgumentError(
            f"{argument}={factor!r} is no number; give one such as 0.5, or leave it out"
        ) from None
