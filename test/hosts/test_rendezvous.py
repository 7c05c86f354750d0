# SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts find each other, whatever their networks are like, and reduce. No launcher is
involved."""

import re
import sys
import textwrap

import pytest
from by_hand import PORTS, Job
from launch import BUILD
from machines import DELAY, RATE, Cluster, can_delay

HELLO = BUILD / "bin/hello"

REDUCE = textwrap.dedent("""
    import hora, numpy as np
    hora.init()
    for count in (1, 1000, 1_000_000):
        sums = hora.allreduce(np.arange(count, dtype=np.float32) % 1000 * (hora.rank() + 1), op=hora.Sum)
        expected = np.arange(count, dtype=np.float32) % 1000 * sum(range(1, hora.size() + 1))
        assert np.array_equal(sums, expected), (count, sums[:5], expected[:5])
    parts = hora.allgather(np.full((hora.rank() + 1, 2), hora.rank()))
    assert parts.shape == (sum(range(1, hora.size() + 1)), 2), parts.shape
    print("rank", hora.rank(), "of", hora.size())
    """)

# Greets whoever comes to docker0, as a mail server does.
MAIL_SERVER = textwrap.dedent("""
    import socket, sys
    listener = socket.create_server(("172.17.0.1", int(sys.argv[1])))
    print("ready", flush=True)
    connections = []
    while True:
        connections.append(listener.accept()[0])
        connections[-1].sendall(b"220 welcome\\r\\n")
    """)


def said_by(size: int) -> list[str]:
    return [f"rank {rank} of {size}\n" for rank in range(size)]


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (1, 3, 2)], ids=str)
def test_ranks_meet_and_reduce(hosts: Cluster, counts: tuple[int, ...]):
    job = Job(list(zip(hosts.hosts, counts, strict=False)), sys.executable, "-c", REDUCE)
    assert job.output() == said_by(sum(counts))


def test_ranks_meet_without_python(hosts: Cluster):
    lines = Job([(hosts["a"], 1), (hosts["b"], 1)], HELLO).output()
    assert lines == ["rank 0 of 2 says hello\nthe sum of all ranks + 1 is 3\n", "rank 1 of 2 says hello\n"]


def test_addresses_that_lead_elsewhere_cost_no_more_than_a_try(hosts: Cluster):
    a, b = hosts["a"], hosts["b"]
    candidates = ["172.17.0.1", "127.0.1.1", "10.20.0.250", a.addresses6[1], a.addresses[0]]
    assert Job([(a, 2), (b, 2)], sys.executable, "-c", REDUCE, candidates=candidates).output() == said_by(4)


def test_another_program_behind_a_candidate_is_told_from_rank_0(hosts: Cluster):
    a, b = hosts["a"], hosts["b"]
    port = next(PORTS)
    mail_server = b.start(sys.executable, "-c", MAIL_SERVER, str(port))
    try:
        assert mail_server.stdout is not None
        assert mail_server.stdout.readline() == "ready\n"
        job = Job(
            [(a, 1), (b, 1)],
            sys.executable,
            "-c",
            REDUCE,
            candidates=["172.17.0.1", a.addresses[0]],
            port=port,
        )
        assert job.output() == said_by(2)
    finally:
        hosts.stop(mail_server)


def test_rank_0_listens_on_a_port_that_no_connection_takes(hosts: Cluster):
    lowest = int(hosts["a"].do("cat", "/proc/sys/net/ipv4/ip_local_port_range").split()[0])
    assert next(PORTS) < lowest - 1000


@pytest.mark.parametrize("network", [0, 1])
def test_a_network_that_is_down_is_gone_around(hosts: Cluster, network: int):
    a, b = hosts["a"], hosts["b"]
    b.cut(network)
    try:
        assert Job([(a, 1), (b, 1)], sys.executable, "-c", REDUCE).output() == said_by(2)
    finally:
        b.mend()


def test_a_slow_link_only_takes_longer(hosts: Cluster):
    with hosts["b"].link(*RATE, "100mbit"):
        assert Job([(hosts["a"], 1), (hosts["b"], 1)], sys.executable, "-c", REDUCE).output() == said_by(2)


@pytest.mark.skipif(not can_delay(), reason="this kernel has no netem, or this is not root")
def test_a_distant_host_only_takes_longer(hosts: Cluster):
    with hosts["b"].link(*DELAY, "20ms"):
        assert Job([(hosts["a"], 1), (hosts["b"], 1)], sys.executable, "-c", REDUCE).output() == said_by(2)


def sent(cluster: Cluster, name: str, network: int) -> int:
    """Bytes that a host has sent on a network."""
    host = cluster[name]
    return int(host.do("cat", f"/sys/class/net/{host.interfaces[network]}/statistics/tx_bytes"))


@pytest.mark.parametrize("chosen", ["192.168.20.0/24", "names"])
def test_data_takes_the_network_that_was_asked_for(hosts: Cluster, chosen: str):
    a, b = hosts["a"], hosts["b"]
    network = ",".join({a.interfaces[1], b.interfaces[1]}) if chosen == "names" else chosen
    before = sent(hosts, "b", 0), sent(hosts, "b", 1)
    assert Job(
        [(a, 1), (b, 1)], sys.executable, "-c", REDUCE, environment={"HORA_NETWORK": network}
    ).output() == said_by(2)
    assert sent(hosts, "b", 1) - before[1] > 2_000_000
    assert sent(hosts, "b", 0) - before[0] < 200_000


@pytest.mark.long
@pytest.mark.parametrize(("how", "said"), [("DROP", "timed out"), ("REJECT", "refused")])
def test_who_cannot_reach_whom_is_said_with_address_and_port(hosts: Cluster, how: str, said: str):
    """Rank 0 is reached, rank 1 is not: ssh and what it lets in are not all that ranks need."""
    a, b, c = (hosts[name] for name in "abc")
    for host in (b, c):
        host.firewall(how)
    try:
        ends = Job(
            [(a, 1), (b, 1), (c, 1)], sys.executable, "-c", REDUCE, environment={"HORA_START_TIMEOUT": "6"}
        ).results()
    finally:
        for host in (b, c):
            host.open_firewall()
    attempts = ", ".join(
        rf"{re.escape(address)}:\d+ {said}"
        for address in (*b.addresses, *(f"[{six}]" for six in b.addresses6))
    )
    for each in ends:
        assert each.returncode == 1
        assert re.search(
            rf"ranks cannot reach each other over the network:\n  rank 2 on c -> rank 1 on b: {attempts}",
            each.stderr,
        ), each.stderr


@pytest.mark.long
def test_a_rank_that_cannot_reach_rank_0_says_where_it_looked(hosts: Cluster):
    a, b = hosts["a"], hosts["b"]
    b.cut()
    try:
        ends = Job(
            [(a, 1), (b, 1)], sys.executable, "-c", REDUCE, environment={"HORA_START_TIMEOUT": "3"}
        ).results()
    finally:
        b.mend()
    assert [each.returncode for each in ends] == [1, 1]
    assert "rank 1 did not come within 3 s" in ends[0].stderr
    assert re.search(
        r"rank 1 did not get through to rank 0 within 3 s: 10\.20\.0\.11:\d+ timed out; ", ends[1].stderr
    ), ends[1].stderr
