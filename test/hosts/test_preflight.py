# SPDX-License-Identifier: Apache-2.0
"""The facts that hrun finds out about hosts: how fast they reach each other, and which cores their ranks
get."""

import os
import re

import pytest
from launch import hrun
from machines import Cluster


def test_every_pair_of_hosts_is_measured(hosts: Cluster):
    result = hrun(hosts["c"], "--preflight", "-H", "a:2,b:1,c:1")
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    for host in "abc":
        assert result.stdout.count(f"\n  {host}: ") == 1
        assert hosts[host].address in result.stdout
    for pair in ("b - a", "c - a", "c - b"):
        assert len(re.findall(rf"\n  {pair}: \d+ us, \d+ MB/s there, \d+ MB/s back; ", result.stdout)) == 1, (
            result.stdout
        )
    assert result.stdout.count("2 ranks share memory: ") == 1
    assert result.stdout.endswith("every host reaches every other\n")


@pytest.mark.skipif((os.cpu_count() or 1) < 2 or len(os.sched_getaffinity(0)) < 2, reason="takes two cores")
def test_ranks_are_bound_on_every_host(hosts: Cluster):
    words = [
        "-H",
        "a:2,b:2",
        "--bind-to",
        "core",
        "--report-bindings",
        "sh",
        "-c",
        "grep Cpus_allowed_list /proc/self/status",
    ]
    result = hrun(hosts["c"], *words)
    assert result.returncode == 0, result.stderr
    bound = dict(re.findall(r"hrun: rank (\d) on [ab] is bound to cpus (\S+) ", result.stderr))
    assert sorted(bound) == ["0", "1", "2", "3"]
    assert bound["0"] == bound["2"] != bound["1"] == bound["3"]
    assert sorted(result.stdout.splitlines()) == [
        f"[{rank}] Cpus_allowed_list:\t{cpus}" for rank, cpus in sorted(bound.items())
    ]


@pytest.mark.long
def test_hosts_that_do_not_reach_each_other_are_named(hosts: Cluster):
    for name in "bc":
        hosts[name].firewall("REJECT")
    try:
        result = hrun(hosts["a"], "--preflight", "--start-timeout", "6", "-H", "a:1,b:1,c:1")
    finally:
        for name in "bc":
            hosts[name].open_firewall()
    assert result.returncode == 1
    assert re.search(
        rf"rank 2 on c -> rank 1 on b: {re.escape(hosts['b'].address)}:\d+ refused", result.stderr
    ), result.stderr
