# SPDX-License-Identifier: Apache-2.0
"""The text of `help()` about the functions of hora and hora.torch."""

import inspect
import re
import types

import hora
import hora.torch as hvd
import pytest
from hora._arguments import documents


def test_help_says_shapes_dtypes_and_errors():
    for name in (
        "allreduce",
        "grouped_allreduce",
        "allgather",
        "broadcast",
        "alltoall",
        "reducescatter",
        "gather",
        "scatter",
        "reduce",
        "scan",
        "send",
        "recv",
    ):
        text = inspect.getdoc(getattr(hvd, name)) or ""
        assert re.search(r"shape|rows|dimension", text), f"{name}: no shapes"
        assert re.search(r"Raises:(.|\n)*Error", text), f"{name}: no errors"
    text = inspect.getdoc(hvd.allreduce) or ""
    for word in (
        "Args:",
        "Returns:",
        "Raises:",
        "shape",
        "dtype",
        "float16",
        "bfloat16",
        "HoraArgumentError",
        "HoraInternalError",
    ):
        assert word in text, word


@pytest.mark.parametrize("module", [hora, hvd])
def test_help_describes_every_parameter_of_an_operation(module: types.ModuleType):
    """Or it names the function that has the same arguments and does the same."""
    for name in module.__all__:
        found = getattr(module, name)
        if not inspect.isfunction(found):
            continue
        text = inspect.getdoc(found) or ""
        parameters = inspect.signature(found).parameters
        twin = re.match(r"Starts `(\w+)`|`(\w+)` in place", text)
        if twin is not None:
            twins = inspect.signature(getattr(module, twin[1] or twin[2])).parameters
            assert parameters.keys() <= twins.keys(), name
        elif parameters.keys() & {"name", "root_rank", "dest", "source"}:
            described = re.findall(r"^    (\w+): ", text, re.MULTILINE)
            assert parameters.keys() <= set(described), name


def test_a_docstring_is_completed_and_the_function_stays():
    def add(tensor: object, name: str | None = None, root_rank: int = 0, process_set: object = None) -> int:
        """Adds.

        Args:
            tensor: any shape.
            root_rank: its own words.

        Raises:
            ValueError: never.
        """
        return root_rank

    def end(name: str) -> None:
        """Ends."""

    signature = inspect.signature(add)
    assert documents(name="which.")(add) is add
    assert inspect.signature(add) == signature
    head, arguments, errors = (add.__doc__ or "").split("\n\n")
    assert (head, errors) == ("Adds.", "Raises:\n    ValueError: never.")
    assert re.findall(r"^    (\w+): ", arguments, re.MULTILINE) == [
        "tensor",
        "root_rank",
        "name",
        "process_set",
    ]
    assert "root_rank: its own words." in arguments
    assert documents(name="the\nlast.")(end).__doc__ == "Ends.\n\nArgs:\n    name: the\n        last."
