# SPDX-License-Identifier: Apache-2.0
"""Ranks of several hosts write to each other."""

import re

import pytest
from launch import BUILD, good, hrun
from machines import Cluster

WORKER = BUILD / "test/job_worker"


@pytest.mark.parametrize("plane", ["auto", "tcp"])
def test_all_ranks_of_three_hosts_write_to_all(hosts: Cluster, plane: str):
    setting = f"HORA_CPU_OPERATIONS={plane}"
    assert good(hosts["a"], "-x", setting, "-H", "a:2,b:1,c:1", WORKER, "write") == ["[0] done"]


def test_a_rank_that_dies_on_another_host_ends_messages_with_it(hosts: Cluster):
    result = hrun(hosts["a"], "-H", "a:1,b:1,c:1", WORKER, "orphan", "2")
    assert result.returncode == 137, f"{result.stdout}\n{result.stderr}"
    heard = re.findall(r"a message (?:from|to) rank 2 with tag 0: rank 2 \(pid \d+ on c\) is gone: .* after ([0-9.]+)", result.stdout)
    assert len(heard) == 4, f"{result.stdout}\n{result.stderr}"
    assert all(float(seconds) < 2 for seconds in heard), heard
