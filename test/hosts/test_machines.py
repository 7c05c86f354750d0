# SPDX-License-Identifier: Apache-2.0
"""The hosts themselves: that they are like hosts, and that nothing is left of them."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest
from machines import RATE, Cluster, ended, program

QUICK = ["ssh", "-o", "ConnectTimeout=1"]


def test_a_host_is_one_of_its_own(hosts: Cluster):
    a, b = hosts["a"], hosts["b"]
    assert (a.do("hostname"), b.do("hostname")) == ("a\n", "b\n")
    assert a.do("cat", "/proc/sys/kernel/random/boot_id") != b.do("cat", "/proc/sys/kernel/random/boot_id")
    a.do("touch", "/dev/shm/of-a")
    assert b.do("ls", "/dev/shm") == ""
    a.do("rm", "/dev/shm/of-a")
    assert not set(a.interfaces) & set(b.interfaces)
    for host in (a, b):
        assert "127.0.1.1" in host.do("getent", "hosts", host.name)
        assert "172.17.0.1/16" in host.do("ip", "-brief", "address", "show", "up", "docker0")


@pytest.mark.parametrize("target", ["b", "10.20.0.12", "192.168.20.12", "fd00:20::12"])
def test_ssh_leads_to_another_host_by_name_and_by_address(hosts: Cluster, target: str):
    assert hosts["a"].do("ssh", target, "hostname") == "b\n"


def test_another_port_takes_another_key(hosts: Cluster):
    other = ["ssh", "-o", "BatchMode=yes", "-p", "2222"]
    assert "Permission denied (publickey)" in hosts["a"].run(*other, "b", "true").stderr
    assert hosts["a"].do(*other, "-i", hosts.other_key, "b", "hostname") == "b\n"
    assert "Host key verification failed" in hosts["a"].run("ssh", hosts["b"].addresses6[1], "true").stderr


def test_a_name_that_nobody_has_is_not_known(hosts: Cluster):
    assert (
        hosts["a"].run("ssh", "nowhere", "true").stderr
        == "ssh: Could not resolve hostname nowhere: Name or service not known\n"
    )


def test_what_runs_on_a_host_is_seen_and_ends_with_it(own_hosts: Cluster):
    b = own_hosts["b"]
    sleeper = b.start("sleep", "1000")
    away = b.start("setsid", "sh", "-c", "sleep 1001 & echo started; wait")
    assert away.stdout is not None
    assert away.stdout.readline() == "started\n"
    pids = {each.pid for each in b.processes()}
    assert len(pids) == 3
    assert pids > {program(sleeper), program(away)}
    assert own_hosts["a"].processes() == []
    b.crash()
    assert all(ended(pid, 10) for pid in pids)
    assert sleeper.wait(10) != 0
    assert away.wait(10) != 0


@pytest.mark.long
def test_a_network_is_cut_without_a_word_and_mended(hosts: Cluster):
    a, b, c = (hosts[name] for name in "abc")
    b.cut()
    assert "timed out" in a.run(*QUICK, "b", "true").stderr
    assert "UP" in b.do("ip", "-brief", "link", "show", b.interfaces[0])
    b.mend()
    assert a.run(*QUICK, "b", "true").returncode == 0
    b.cut(0)
    assert "timed out" in a.run(*QUICK, b.addresses[0], "true").stderr
    assert a.run(*QUICK, b.addresses[1], "true").returncode == 0
    b.mend()
    b.isolate()
    c.isolate()
    assert "timed out" in b.run(*QUICK, "c", "true").stderr
    assert a.run(*QUICK, "c", "true").returncode == 0
    b.mend()
    c.mend()
    assert b.run(*QUICK, "c", "true").returncode == 0


@pytest.mark.parametrize(("how", "said"), [("DROP", "timed out"), ("REJECT", "Connection refused")])
def test_a_firewall_lets_only_ssh_in(hosts: Cluster, how: str, said: str):
    a, b = hosts["a"], hosts["b"]
    b.firewall(how)
    try:
        assert said in a.run(*QUICK, "-p", "2222", "b", "true").stderr
        assert a.run(*QUICK, "b", "true").returncode == 0
    finally:
        b.open_firewall()
    assert "Permission denied" in a.run(*QUICK, "-p", "2222", "b", "true").stderr


def test_a_link_is_as_fast_as_it_is_told_to_be(hosts: Cluster):
    a, b = hosts["a"], hosts["b"]
    receive = "import socket, time; s = socket.create_server(('', 5000)); print('ready', flush=True); c = s.accept()[0]; c.recv(1, socket.MSG_WAITALL)"
    receive += "; t = time.time(); c.recv(5_000_000, socket.MSG_WAITALL); print(time.time() - t)"
    with b.link(*RATE, "200mbit"):
        receiver = b.start(sys.executable, "-c", receive)
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        a.do(
            sys.executable,
            "-c",
            "import socket; socket.create_connection(('b', 5000)).sendall(bytes(5_000_001))",
        )
        assert float(receiver.communicate(timeout=30)[0]) > 0.8 * 5_000_000 * 8 / 200e6


def test_a_program_on_a_host_can_be_told_apart_from_what_waits_for_it(hosts: Cluster):
    sleeper = hosts["a"].start("sleep", "1000")
    os.kill(program(sleeper), signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM


def test_nothing_is_left_of_hosts_whose_maker_is_killed(cluster: Cluster, tmp_path: pathlib.Path):
    make = f"""
        import pathlib, sys
        sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
        from machines import Cluster, program
        with Cluster(pathlib.Path({str(tmp_path)!r}), "x", "y") as made:
            print(*[host.pid for host in made.hosts], program(made["x"].start("sleep", "1000")), flush=True)
            made["y"].run("sleep", "1000", seconds=1000)
        """
    maker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(make)], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    pids = [int(word) for word in maker.stdout.readline().split()]
    assert len(pids) == 3
    maker.send_signal(signal.SIGKILL)
    maker.wait(10)
    assert all(ended(pid, 10) for pid in pids)
