# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
from collections.abc import Iterator

import pytest

TEST = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TEST / "hosts"), str(TEST / "support")]

from machines import Cluster, missing  # noqa: E402
from performance import HOSTS  # noqa: E402


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Machines that a fault may happen to."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with Cluster(tmp_path_factory.mktemp("machines"), *HOSTS) as made:
        yield made
