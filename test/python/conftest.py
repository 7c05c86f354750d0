# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import ready_ranks  # noqa: E402


@pytest.fixture(scope="package", autouse=True)
def servers_end_with_the_tests() -> Iterator[None]:
    yield
    ready_ranks.end_all()


@pytest.fixture(params=[True, False], ids=["overlapping", "one core each"])
def overlap(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arguments of run_ready: two ranks reduce gradients during backward(), or only after it."""
    return (
        {"environment": {"HORA_CPU_OPERATIONS": "tcp"}}
        if request.param
        else {"options": ("--bind-to", "core")}
    )
