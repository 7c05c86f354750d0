# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from machines import Cluster, missing  # noqa: E402

QUIET = 10  # seconds that a job has to end everywhere


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The hosts a, b and c, for all tests that leave them as they were."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with Cluster(tmp_path_factory.mktemp("hosts"), "a", "b", "c") as made:
        yield made


@pytest.fixture
def hosts(cluster: Cluster) -> Iterator[Cluster]:
    """The same, and nothing may be left running on them."""
    yield cluster
    left = cluster.becomes_quiet(QUIET)
    cluster.sweep()
    assert not left, "left running:\n" + "\n".join(left)


@pytest.fixture
def own_hosts(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    """Hosts a, b and c of a test's own, to be harmed."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with Cluster(tmp_path, "a", "b", "c") as made:
        yield made
