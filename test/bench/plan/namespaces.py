# SPDX-License-Identifier: Apache-2.0
"""Two hosts, which are network namespaces of this machine, and the link between them; needs root.

The link has a rate (tbf) and, where the kernel has netem, a delay. The hosts share the machine's cores and
its clock.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

from .figures import Samples
from .jobs import Job
from .launchers import Environment, Launcher, free_port

SUBNET = "10.213.7"
HOSTS = ("a", "b")
PREFIX = "hora-bench"  # of the namespaces' names


def unavailable() -> str | None:
    if os.geteuid() != 0:
        return "two hosts on one machine are network namespaces, which need root"
    return None if shutil.which("ip") and shutil.which("tc") else "there is no ip or no tc here (iproute2)"


def _name(host: str) -> str:
    return f"{PREFIX}-{host}"


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)


def _inside(name: str) -> list[str]:
    return ["ip", "netns", "exec", name]


@contextlib.contextmanager
def two_hosts(rate: str, delay: str) -> Iterator[None]:
    names = [_name(host) for host in HOSTS]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip(
            "link",
            "add",
            "eth0",
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            names[1],
        )
        for number, name in enumerate(names, 1):
            _ip("-n", name, "addr", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _ip("-n", name, "link", "set", interface, "up")
        for name in names:
            _shape(name, rate, delay)
        yield
    finally:
        for name in names:
            _ip("netns", "delete", name, check=False)


def _shape(name: str, rate: str, delay: str) -> None:
    """Limits what leaves a host. The bucket is a millisecond's worth."""
    device = [*_inside(name), "tc", "qdisc", "add", "dev", "eth0"]
    delayed = (
        subprocess.run(
            [*device, "root", "handle", "1:", "netem", "delay", delay], capture_output=True, check=False
        ).returncode
        == 0
    )
    parent = ["parent", "1:"] if delayed else ["root"]
    number, unit = re.fullmatch(r"(\d+)([mg])bit", rate).groups()  # type: ignore[union-attr]
    burst = int(number) * (10**9 if unit == "g" else 10**6) // 8 // 1000
    subprocess.run(
        [*device, *parent, "tbf", "rate", rate, "burst", str(max(burst, 16000)), "latency", "20ms"],
        check=True,
    )


def _ssh_stand_in() -> str:
    """The script that mpirun calls as `ssh HOST COMMAND`: it enters the namespace that has that address,
    under a name of its own."""
    script = pathlib.Path(tempfile.gettempdir(), f"{PREFIX}-enter")
    lines = [
        "#!/bin/sh",
        "host=$1; shift",
        f"case $host in *.1) name={_name('a')};; *) name={_name('b')};; esac",
        'exec ip netns exec $name unshare --uts sh -c "hostname $name; $*"',
    ]
    script.write_text("\n".join(lines) + "\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def _mpirun(ranks: int, program: Sequence[str]) -> list[tuple[list[str], Environment]]:
    hosts = ",".join(f"{SUBNET}.{number}:{ranks // 2}" for number in (1, 2))
    flags = [
        "--allow-run-as-root",
        "--oversubscribe",
        "--map-by",
        "slot",
        "--bind-to",
        "none",
        "--host",
        hosts,
        "-np",
        str(ranks),
    ]
    settings = {
        "plm_rsh_agent": _ssh_stand_in(),
        "btl": "tcp,self",
        "pml": "ob1",
        "btl_tcp_if_include": f"{SUBNET}.0/24",
        "oob_tcp_if_include": f"{SUBNET}.0/24",
    }
    for name, value in settings.items():
        flags += ["--mca", name, value]
    for variable in ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS", "HOROVOD_CYCLE_TIME"):
        flags += ["-x", variable]
    start = f'hostname {_name("a")}; exec "$@"'
    return [
        ([*_inside(_name("a")), "unshare", "--uts", "sh", "-c", start, "sh", "mpirun", *flags, *program], {})
    ]


def _processes(ranks: int, program: Sequence[str]) -> list[tuple[list[str], Environment]]:
    job = {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": f"{SUBNET}.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    return [
        ([*_inside(_name(HOSTS[2 * rank // ranks])), *program], {**job, "RANK": str(rank)})
        for rank in range(ranks)
    ]


mpirun = Launcher("mpirun across two hosts", unavailable, _mpirun)
processes = Launcher("processes on two hosts", unavailable, _processes)


@dataclasses.dataclass(frozen=True)
class Across:
    """A job whose launcher is one of these, between two hosts of its own."""

    job: Job
    rate: str
    delay: str

    @property
    def name(self) -> str:
        return self.job.name

    def missing(self) -> str | None:
        return self.job.missing()

    def run(self) -> Samples:
        with two_hosts(self.rate, self.delay):
            return self.job.run()
