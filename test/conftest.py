# SPDX-License-Identifier: Apache-2.0
"""Options of all tests in Python."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--third",
        type=int,
        choices=(0, 1, 2),
        help="of the tests that are marked `long`, only every third one, from this one on",
    )
    parser.addoption(
        "--chaos",
        type=float,
        help="for how many minutes ranks and hosts are lost in test/hosts/test_chaos.py",
    )
    parser.addoption(
        "--replays",
        type=int,
        default=4,
        help="how many trainings test/python/test_elastic_libtorch.py makes again without their faults",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    third = config.getoption("third")
    if third is None:
        return
    longs = [item for item in items if item.get_closest_marker("long")]
    left_out = [item for number, item in enumerate(longs) if number % 3 != third]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
