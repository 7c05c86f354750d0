# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs on several hosts."""

import pathlib

from launch import BUILD, lines
from machines import Cluster
from ranks import HRUN


def test_a_host_that_another_one_cannot_reach_is_left_out(own_hosts: Cluster, tmp_path: pathlib.Path):
    """hrun reaches both, so no process dies. The host whose ranks come later goes."""
    worker = [BUILD / "test/elastic_worker", "3000", "0.1", "1000", tmp_path]
    started = own_hosts["a"].start(
        HRUN, "-np", "4", "--min-np", "2", "--max-replacements", "0", "-H", "b:2,c:2", *worker
    )
    assert started.stdout is not None
    assert all(" trains " in started.stdout.readline() for _ in range(4))
    own_hosts["b"].isolate()
    own_hosts["c"].isolate()
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert [line for line in lines(out) if "model" in line] == [
        f"[{rank}] model 4.5015e+06 on rank {rank} of 2 in generation 3" for rank in (0, 1)
    ]
    assert err.count("on c) is left out: it cannot reach all other members") == 2, err
