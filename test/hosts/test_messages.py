# SPDX-License-Identifier: Apache-2.0
"""Messages from rank to rank across hosts, and what becomes of them when a host is lost."""

import re
import sys
import textwrap

import pytest
from by_hand import Job
from launch import BUILD, Running, good, hrun, quiet
from machines import DELAY, Cluster, can_delay

WORKER = BUILD / "test/job_worker"

# Every rank to every other one, small and large, at the same time.
EXCHANGE = textwrap.dedent("""
    import hora, numpy as np
    hora.init()
    rank, size = hora.rank(), hora.size()
    others = [other for other in range(size) if other != rank]
    sizes = (0, 3, 8192, 8193, 400_000)
    handles = [hora.isend(np.arange(count) * (rank + 1), other, tag) for tag, count in enumerate(sizes) for other in others]
    for tag, count in reversed(list(enumerate(sizes))):
        for _ in others:
            value, source, _ = hora.recv(np.empty(count, np.int64), hora.ANY_SOURCE, tag)
            assert np.array_equal(value, np.arange(count) * (source + 1)), (source, tag)
    for handle in handles:
        hora.synchronize(handle)
    hora.send_object({"from": rank, "text": "x" * 100_000}, (rank + 1) % size) if rank % 2 == 0 else None
    got = hora.recv_object((rank - 1) % size)
    assert got.value["from"] == got.source == (rank - 1) % size
    hora.send_object({"from": rank, "text": "x" * 100_000}, (rank + 1) % size) if rank % 2 else None
    assert (hora.allreduce(np.ones(3), op=hora.Sum) == size).all() and hora.probe() is None
    print("rank", rank, "of", size)
    """)

# Rank 0 waits for what the last rank never sends.
WAIT = textwrap.dedent("""
    import os, hora, numpy as np
    hora.init()
    last = hora.size() - 1
    if hora.rank() == last:
        hora.send(np.ones(1), 0)
    print("in", os.getpid(), flush=True)
    if hora.rank() == 0:
        hora.recv(source=last)
        try:
            hora.recv(source=last)
        except RuntimeError as error:
            print("said:", error, flush=True)
            raise
    hora.barrier()
    """)


def said_by(size: int) -> list[str]:
    return [f"rank {rank} of {size}\n" for rank in range(size)]


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (1, 3, 2)], ids=str)
def test_every_rank_reaches_every_other_one(hosts: Cluster, counts: tuple[int, ...]):
    job = Job(list(zip(hosts.hosts, counts, strict=False)), sys.executable, "-c", EXCHANGE)
    assert job.output() == said_by(sum(counts))


def test_hrun_starts_ranks_that_exchange_messages(hosts: Cluster):
    assert good(hosts["c"], "-H", "a:2,b:2", sys.executable, "-c", EXCHANGE) == [
        f"[{rank}] rank {rank} of 4" for rank in range(4)
    ]


@pytest.mark.parametrize("network", [0, 1])
def test_a_network_that_is_down_is_gone_around(hosts: Cluster, network: int):
    hosts["b"].cut(network)
    try:
        assert Job([(hosts["a"], 1), (hosts["b"], 2)], sys.executable, "-c", EXCHANGE).output() == said_by(3)
    finally:
        hosts["b"].mend()


@pytest.mark.skipif(not can_delay(), reason="this kernel has no netem, or this is not root")
def test_a_distant_host_only_takes_longer(hosts: Cluster):
    with hosts["b"].link(*DELAY, "20ms"):
        assert Job([(hosts["a"], 2), (hosts["b"], 2)], sys.executable, "-c", EXCHANGE).output() == said_by(4)


@pytest.mark.long
def test_a_host_that_dies_ends_a_receive_and_is_named(own_hosts: Cluster):
    job = Running(own_hosts["a"], 4, "--grace", "30", "-H", "a:2,b:2", sys.executable, "-c", WAIT)
    own_hosts["b"].crash()
    result = job.end(30)
    assert result.returncode == 255
    said = next(line for line in result.stdout.splitlines() if line.startswith("[0] said: "))
    assert re.search(r"a message from rank 3 with any tag: rank [23] \(pid \d+ on b\) is gone", said), said
    quiet(own_hosts)


@pytest.mark.parametrize("plane", ["auto", "tcp"])
def test_programs_in_cpp_exchange_messages_on_every_plane(hosts: Cluster, plane: str):
    setting = f"HORA_CPU_OPERATIONS={plane}"
    assert good(hosts["a"], "-x", setting, "-H", "a:2,b:1,c:1", WORKER, "write") == ["[0] done"]


def test_a_rank_that_dies_on_another_host_is_named_by_all_who_wait_for_it(hosts: Cluster):
    result = hrun(hosts["a"], "-H", "a:1,b:1,c:1", WORKER, "orphan", "2")
    assert result.returncode == 137, f"{result.stdout}\n{result.stderr}"
    heard = re.findall(
        r"a message (?:from|to) rank 2 with tag 0: rank 2 \(pid \d+ on c\) is gone: .* after ([0-9.]+)",
        result.stdout,
    )
    assert len(heard) == 4, f"{result.stdout}\n{result.stderr}"
    assert all(float(seconds) < 2 for seconds in heard), heard
