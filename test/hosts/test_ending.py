# SPDX-License-Identifier: Apache-2.0
"""Jobs across hosts end: with the right sentence, the right exit code, and nothing left running anywhere."""

import os
import re
import signal
import sys

import pytest
from launch import HRUN, hrun, quiet, reduce_on
from machines import Cluster, program

SILENCE = 4  # seconds after which a host that says nothing is taken for lost

FAIL = """
import os, hora, numpy as np
hora.init()
hora.barrier()
if hora.rank() == 2:
    os.write(2, b"the last words\\n")
    os._exit(3)
while True:
    hora.allreduce(np.ones(1000, np.float32))
"""


def test_a_rank_that_fails_ends_all_with_its_exit_code(hosts: Cluster):
    result = hrun(hosts["a"], "-H", "a:2,b:2", sys.executable, "-c", FAIL)
    assert result.returncode == 3
    assert re.search(
        r"^hrun: rank 2 \(pid \d+ on b\) failed first: it exited with code 3$", result.stderr, re.MULTILINE
    ), result.stderr
    assert "\n  the last words\n" in result.stderr
    quiet(hosts)


SURVIVE = """
import os, sys, hora, numpy as np
hora.init()
hora.barrier()
if hora.rank() == int(sys.argv[1]):
    os.write(2, b"the last words\\n")
    os._exit(3)
try:
    while True:
        hora.allreduce(np.ones(1000, np.float32))
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize("victim", [0, 2])
def test_ranks_of_all_hosts_hear_how_a_rank_ended(hosts: Cluster, victim: int):
    result = hrun(hosts["a"], "-H", "b:2,c:2", sys.executable, "-c", SURVIVE, str(victim))
    assert result.returncode == 3
    heard = rf"rank {victim} \(pid \d+ on [bc]\) is gone: it exited with code 3 without shutdown; its last words: the last words\n"
    assert len(re.findall(heard, result.stdout)) == 3, result.stdout + result.stderr
    quiet(hosts)


@pytest.mark.parametrize("on", ["a", "c"])
def test_a_rank_that_is_killed_is_named(hosts: Cluster, on: str):
    job = reduce_on(hosts[on], 4, "-H", "a:2,b:2")
    victim = next(each for each in hosts["b"].processes() if "hora.init" in each.command)
    os.kill(victim.pid, signal.SIGKILL)
    result = job.end(20)
    assert result.returncode == 137
    assert re.search(
        r"^hrun: rank [23] \(pid \d+ on b\) failed first: it was killed by signal 9 \(Killed\)$",
        result.stderr,
        re.MULTILINE,
    ), result.stderr
    quiet(hosts)


@pytest.mark.long
def test_a_host_that_dies_is_named(own_hosts: Cluster):
    job = reduce_on(own_hosts["a"], 5, "-H", "a:2,b:2,c:1")
    own_hosts["b"].crash()
    result = job.end(20)
    assert result.returncode == 255
    assert "hrun: host b is lost, and with it ranks 2 and 3: " in result.stderr
    quiet(own_hosts)


@pytest.mark.long
def test_a_network_that_is_cut_for_too_long_ends_the_job_on_both_sides(hosts: Cluster):
    job = reduce_on(hosts["a"], 4, "-H", "a:2,b:2")
    hosts["b"].cut()
    try:
        quiet(hosts, SILENCE + 10, sessions=False)
    finally:
        hosts["b"].mend()
        hosts.sweep()
    result = job.end(1)
    assert result.returncode == 255
    assert "hrun: host b is lost, and with it ranks 2 and 3: no word from it for " in result.stderr


STAND_STILL = """
import os, hora, numpy as np
hora.init()
hora.barrier()
print(os.environ["HORA_COORDINATOR"].rpartition(":")[2], flush=True)
try:
    while True:
        hora.allreduce(np.ones(1000, np.float32), name="x")
except hora.HoraInternalError as error:
    print(error, flush=True)
"""


@pytest.mark.long
def test_an_operation_that_makes_no_progress_though_all_ranks_live_is_named(hosts: Cluster):
    job = hosts["a"].start(
        HRUN, "-H", "a,b", "-x", "HORA_OPERATION_TIMEOUT=2", sys.executable, "-c", STAND_STILL
    )
    assert job.stdout is not None
    coordinator, _ = sorted(job.stdout.readline().partition("] ")[2] for _ in range(2))
    hosts["b"].block_tcp(int(coordinator))
    try:
        out, err = job.communicate(timeout=30)
    finally:
        hosts["b"].open_firewall()
    assert job.returncode == 0, err
    assert (
        out.count(
            "allreduce of 'allreduce.x' has made no progress for 2 s, though all ranks have submitted it: "
        )
        == 2
    ), out + err
    quiet(hosts)


@pytest.mark.long
def test_a_network_that_is_cut_for_a_moment_does_no_harm(hosts: Cluster):
    steps = "import hora, numpy as np; hora.init(); hora.barrier(); print('in', 0, flush=True); [hora.allreduce(np.ones(1000)) for _ in range(2000)]; print('done')"
    no_words = "HORA_STRAGGLER_STEPS=0"  # on a slow rank: other programs of this machine may slow one down
    job = hosts["a"].start(HRUN, "-H", "a,b", "-x", no_words, sys.executable, "-c", steps)
    assert job.stdout is not None
    assert sorted(job.stdout.readline() for _ in range(2)) == ["[0] in 0\n", "[1] in 0\n"]
    hosts["b"].cut()
    hosts["b"].mend()
    out, err = job.communicate(timeout=60)
    assert (job.returncode, sorted(out.splitlines()), err) == (0, ["[0] done", "[1] done"], "")


@pytest.mark.parametrize("on", ["a", "c"])
def test_nothing_is_left_when_hrun_is_killed(hosts: Cluster, on: str):
    job = reduce_on(hosts[on], 4, "-H", "a:2,b:2")
    os.kill(program(job.popen), signal.SIGKILL)
    assert job.end(10).returncode == -signal.SIGKILL
    quiet(hosts)


@pytest.mark.long
def test_nothing_is_left_when_the_host_of_hrun_dies(own_hosts: Cluster):
    job = reduce_on(own_hosts["c"], 4, "-H", "a:2,b:2")
    own_hosts["c"].crash()
    assert job.popen.wait(10) != 0
    quiet(own_hosts, SILENCE + 10, sessions=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ranks_everywhere_end_when_hrun_is_told_to(hosts: Cluster, number: signal.Signals):
    job = reduce_on(hosts["a"], 4, "-H", "a:2,b:2")
    os.kill(program(job.popen), number)
    assert job.end(20).returncode == 128 + number
    quiet(hosts)


def test_ranks_that_will_not_end_are_killed_everywhere(hosts: Cluster):
    stubborn = "trap '' TERM INT; echo in $$; while :; do sleep 1; done"
    job = hosts["a"].start(HRUN, "--grace", "1", "-H", "a,b", "sh", "-c", stubborn)
    assert job.stdout is not None
    assert len([job.stdout.readline() for _ in range(2)]) == 2
    os.kill(program(job), signal.SIGTERM)
    assert job.wait(20) == 128 + signal.SIGTERM
    job.communicate()
    quiet(hosts)


def test_an_agent_that_is_killed_takes_its_ranks_along(hosts: Cluster):
    job = reduce_on(hosts["a"], 4, "-H", "a:2,b:2")
    agent = min(
        (each for each in hosts["b"].processes() if each.command.endswith("hrun --agent")),
        key=lambda each: each.started,
    )
    os.kill(agent.pid, signal.SIGKILL)
    result = job.end(20)
    assert result.returncode == 255
    assert "hrun: host b is lost, and with it ranks 2 and 3: " in result.stderr
    quiet(hosts)


@pytest.mark.long
def test_the_job_ends_when_its_time_is_over(hosts: Cluster):
    result = hrun(hosts["a"], "--timeout", "3", "-H", "a,b", "sleep", "1000")
    assert result.returncode == 124
    assert "hrun: the job did not end within 3 s (--timeout)\n" in result.stderr
    quiet(hosts)
