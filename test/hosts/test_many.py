# SPDX-License-Identifier: Apache-2.0
"""Sixty-four hosts with a rank each, as processes of one host, start without a connection from each to
each."""

from by_hand import Job
from launch import BUILD
from machines import Cluster, Host

MANY = 64
LOG = 6


def connections_made(host: Host) -> int:
    """The number of connections that programs on the host have made so far."""
    names, values = (
        line.split() for line in host.do("cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:")
    )
    return int(values[names.index("ActiveOpens")])


def test_many_hosts_start_with_few_connections(hosts: Cluster):
    a = hosts["a"]
    before = connections_made(a)
    said = Job(
        [(a, 1)] * MANY,
        BUILD / "bin/hello",
        candidates=["127.0.0.1"],
        environment={"HORA_CPU_OPERATIONS": "tcp"},
    ).output()
    made = connections_made(a) - before
    assert f"the sum of all ranks + 1 is {MANY * (MANY + 1) // 2}\n" in said[0]
    assert made <= (MANY - 1) + MANY * LOG
