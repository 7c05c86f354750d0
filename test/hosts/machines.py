# SPDX-License-Identifier: Apache-2.0
"""Hosts for tests: namespaces of this machine, with an sshd each, on networks of their own.

A `Cluster` has a switch and some `Host`s. Each host has its own network, processes, name, /etc/hosts, /run
and /dev/shm; the files, users and processors are this machine's. Nothing outside is touched, and nothing
needs removing: no name is given to a namespace, so each ends with its first process, and that ends with the
process that made the cluster, however that ends.

The hosts share these properties with real hosts that trouble a launcher:
- interfaces have other names on every host, and the order of their names says nothing;
- docker0 is up, with the same address on every host;
- a host's own name is 127.0.1.1 in its /etc/hosts, as Debian installs it;
- there are two networks; names stand for addresses of the first.

ssh leads from each to each, by name and by address, except by the last: whose key nobody knows. A second sshd
port takes another key, `Cluster.other_key`, and that alone.
"""

import contextlib
import dataclasses
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence

BOOT = pathlib.Path(__file__).with_name("boot.sh")
NETWORKS = ("10.20.0", "192.168.20")  # their first three numbers
NETWORKS6 = ("fd00:20", "fd00:21")  # their first two groups
INTERFACES = [("enp3s0", "enp4s0"), ("eth1", "eth0"), ("bond7", "ib0")]  # of the first hosts, by network
OTHER_PORT = 2222  # of sshd
SSH_SESSIONS = (
    "sshd: ",
    "sshd-session: ",
)  # sshd's processes for a client begin so; the second form is OpenSSH 9.8 and later
FIRST = 11  # the last number of the first host's addresses
DOCKER = [  # its bridge, with a container's end in it, so that it is up
    "link add docker0 up type bridge",
    "address add 172.17.0.1/16 dev docker0",
    "link add veth0 up master docker0 type veth peer name container0",
    "link set container0 up",
]
RATE = ("tbf", "burst", "256kb", "latency", "20ms", "rate")  # ... "1gbit"
DELAY = ("netem", "delay")  # ... "10ms", in each direction; not every kernel can: see can_delay()
FIREWALLS = ("iptables", "ip6tables")
NEEDED = (
    "unshare",
    "nsenter",
    "setpriv",
    "ip",
    "bridge",
    "tc",
    *FIREWALLS,
    "ssh",
    "ssh-keygen",
    "/usr/sbin/sshd",
)

Word = str | os.PathLike[str]


def missing() -> str | None:
    """Why there can be no hosts here, if so."""
    if os.geteuid() != 0:
        return "hosts for tests are made by root alone"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"hosts for tests need {', '.join(absent)}: test/packages.txt lists the packages"
    allowed = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if allowed.returncode == 0 else f"namespaces cannot be made here: {allowed.stderr.strip()}"


def can_delay() -> bool:
    """Whether this kernel has netem."""
    add = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", *DELAY, "1ms"]
    return missing() is None and subprocess.run(add, capture_output=True, check=False).returncode == 0


@dataclasses.dataclass(frozen=True)
class Process:
    pid: int
    started: int  # in clock ticks after boot: with the pid it is unique
    parent: int
    command: str


def process(pid: int) -> Process | None:
    """The process with this number; None if there is none, or if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        command = (
            pathlib.Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else Process(pid, int(fields[19]), int(fields[1]), command)


def only_child(pid: int) -> int:
    """The one child of a process that makes one at once, and then waits for it."""
    children: list[str] = []
    while not children and process(pid):
        time.sleep(0.001)
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (child,) = children
    return int(child)


def ended(pid: int, seconds: float) -> bool:
    """Whether a process has ended, or does within this time."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], seconds)[0])
        finally:
            os.close(descriptor)
    return True


def read_until(pipe: int, word: bytes, seconds: float) -> None:
    seen = b""
    while word not in seen:
        if not select.select([pipe], [], [], seconds)[0]:
            raise TimeoutError(f"no '{word.decode()}' within {seconds} s, but {seen!r}")
        more = os.read(pipe, 4096)
        if not more:
            raise RuntimeError(f"ended before '{word.decode()}': {seen!r}")
        seen += more


class Namespaces:
    """New namespaces and their first process, which dies with this one."""

    def __init__(self, flags: Sequence[str], command: Sequence[Word], log: pathlib.Path) -> None:
        with open(log, "wb") as errors:
            self._keeper = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "unshare",
                    *flags,
                    "--fork",
                    "--kill-child=KILL",
                    *map(str, command),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._keeper.stdin and self._keeper.stdout
        self._to, self._from = self._keeper.stdin, self._keeper.stdout
        self._log = log
        self.pid = 0  # of the first process; known when it has spoken

    def tell(self, line: bytes) -> None:
        self._to.write(line + b"\n")
        self._to.flush()

    def expect(self, word: bytes) -> None:
        try:
            read_until(self._from.fileno(), word, 30)
        except (TimeoutError, RuntimeError) as error:
            raise RuntimeError(f"{error}\n{self._log.read_text()}") from error
        self.pid = self.pid or only_child(self._keeper.pid)

    def end(self) -> None:
        """Kills everything in them, at once."""
        self._keeper.kill()
        self._keeper.wait()
        if self.pid:
            ended(self.pid, 30)
        self._to.close()
        self._from.close()


class Host:
    """One of a cluster's hosts."""

    def __init__(self, cluster: "Cluster", index: int, name: str) -> None:
        self.name = name
        self.folder = cluster.folder / name
        self.addresses = [f"{network}.{FIRST + index}" for network in NETWORKS]
        self.addresses6 = [f"{network}::{FIRST + index}" for network in NETWORKS6]
        self.interfaces = INTERFACES[index] if index < len(INTERFACES) else (f"net{index}b", f"net{index}a")
        self.ports = [f"{name}-{network}" for network in range(len(NETWORKS))]  # of the switch
        self._cluster = cluster
        self._namespaces: Namespaces | None = None
        self._own: set[tuple[int, int]] = set()

    @property
    def address(self) -> str:
        """Its first address."""
        return self.addresses[0]

    @property
    def up(self) -> bool:
        return self._namespaces is not None

    @property
    def pid(self) -> int:
        """The pid of the host's first process, as this machine numbers it."""
        assert self._namespaces is not None, f"{self.name} is down"
        return self._namespaces.pid

    # ---- running programs

    def command(self, *words: Word, directory: Word | None = None) -> list[str]:
        """The command that runs a command on this host, as if on its console."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--net", "--pid"]
        return [*enter, "sh", "-c", 'cd "$0" && exec "$@"', str(directory or os.getcwd()), *map(str, words)]

    def start(
        self, *words: Word, directory: Word | None = None, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        """A program on this host, with pipes for its output. `program(started)` is its pid."""
        return subprocess.Popen(
            self.command(*words, directory=directory),
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        *words: Word,
        seconds: float = 60,
        directory: Word | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a program on this host to its end."""
        started = self.start(*words, directory=directory, environment=environment)
        try:
            out, err = started.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.kill(program(started), signal.SIGKILL)
            out, err = started.communicate()
            raise AssertionError(f"{words} did not end within {seconds} s\n{out}\n{err}") from None
        return subprocess.CompletedProcess(list(map(str, words)), started.returncode, out, err)

    def do(self, *words: Word) -> str:
        """The output of a program that must succeed."""
        result = self.run(*words)
        assert result.returncode == 0, (
            f"on {self.name}: {words}: exit code {result.returncode}\n{result.stdout}{result.stderr}"
        )
        return result.stdout

    # ---- what runs on it

    def processes(self) -> list[Process]:
        """The processes of the host beside those that always run on it."""
        namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/pid") == namespace:
                    each = process(int(entry))
                    if each and (each.pid, each.started) not in self._own:
                        found.append(each)
        return found

    # ---- trouble

    def cut(self, network: int | None = None) -> None:
        """Loses all that comes and goes, on one network or all; the host itself sees nothing of it."""
        self._cluster.switch("ip", [f"link set {port} nomaster" for port in self._chosen(network)])

    def mend(self) -> None:
        """Undoes `cut` and `isolate`."""
        lines = [f"link set {port} master {self._cluster.bridges[at]}" for at, port in enumerate(self.ports)]
        self._cluster.switch("ip", lines)
        self._cluster.switch("bridge", [f"link set dev {port} isolated off" for port in self.ports])

    def isolate(self, network: int | None = None) -> None:
        """Loses what isolated hosts send each other; others reach them, and they others."""
        self._cluster.switch("bridge", [f"link set dev {port} isolated on" for port in self._chosen(network)])

    def _chosen(self, network: int | None) -> list[str]:
        return self.ports if network is None else [self.ports[network]]

    def firewall(self, how: str) -> None:
        """Lets nothing in but ssh and the answers to requests from here. Other packets are dropped ("DROP"),
        or refused ("REJECT")."""
        refusal = "-j REJECT --reject-with tcp-reset" if how == "REJECT" else "-j DROP"
        rules = [
            "-i lo -j ACCEPT",
            "-m conntrack --ctstate ESTABLISHED -j ACCEPT",
            "-p tcp --dport 22 -j ACCEPT",
            f"-p tcp {refusal}",
        ]
        for tool in FIREWALLS:
            for rule in rules:
                self.do(tool, "-A", "INPUT", *rule.split())

    def block_tcp(self, *but: int) -> None:
        """Loses all that comes over TCP, but from and to these ports and ssh's. Undone by `open_firewall`."""
        rules = [
            "-i lo -j ACCEPT",
            *(f"-p tcp --{end} {port} -j ACCEPT" for port in (22, *but) for end in ("sport", "dport")),
            "-p tcp -j DROP",
        ]
        for tool in FIREWALLS:
            for rule in rules:
                self.do(tool, "-A", "INPUT", *rule.split())

    def open_firewall(self) -> None:
        for tool in FIREWALLS:
            self.do(tool, "-F", "INPUT")

    @contextlib.contextmanager
    def link(self, *discipline: str) -> Iterator[None]:
        """Queues what goes to and from the first network in this way of tc's: RATE or DELAY below, with a
        value."""
        own, port = self.interfaces[0], self.ports[0]
        self.do("tc", "qdisc", "replace", "dev", own, "root", *discipline)
        self._cluster.switch("tc", [f"qdisc replace dev {port} root {' '.join(discipline)}"])
        try:
            yield
        finally:
            self.do("tc", "qdisc", "del", "dev", own, "root")
            self._cluster.switch("tc", [f"qdisc del dev {port} root"])

    @contextlib.contextmanager
    def instead_of(self, directory: Word, other: Word | None = None) -> Iterator[None]:
        """Shows another directory in the place of one, or an empty one."""
        self.do("mount", *(["-t", "tmpfs", "none"] if other is None else ["--bind", str(other)]), directory)
        try:
            yield
        finally:
            self.do("umount", "--lazy", directory)

    def crash(self) -> None:
        """Acts as a power failure: nothing leaves the host any more, and everything on it is gone."""
        self.cut()
        self.end()

    # ---- its life

    def start_up(self) -> None:
        """Begins to boot."""
        for name, text in self._files().items():
            (self.folder / name).write_text(text)
        flags = ["--mount", "--uts", "--ipc", "--net", "--pid", "--mount-proc"]
        self._namespaces = Namespaces(flags, ["bash", BOOT, self.name, self.folder], self.folder / "boot.log")

    def connect(self) -> None:
        """Gives it its interfaces, once it has booted; it goes on by itself."""
        assert self._namespaces is not None
        self._namespaces.expect(b"booted")
        lines = []
        for bridge, port, interface in zip(self._cluster.bridges, self.ports, self.interfaces, strict=True):
            lines += [
                f"link add {port} type veth peer name {interface} netns {self.pid}",
                f"link set {port} master {bridge} up",
            ]
        self._cluster.switch("ip", lines)
        self._namespaces.tell(b"connected")

    def wait_until_up(self) -> None:
        assert self._namespaces is not None
        self._namespaces.expect(b"up")
        self._own = {(each.pid, each.started) for each in self.processes()}

    def end(self) -> None:
        """Ends everything on it."""
        if self._namespaces is not None:
            self._namespaces.end()
            self._namespaces = None

    def _files(self) -> dict[str, str]:
        """The configuration files of this host."""
        hosts = self._cluster.hosts
        others = [f"{host.address} {host.name}" for host in hosts if host is not self]
        known = [
            f"{name},[{name}]:{OTHER_PORT} {host.public_key()}"
            for host in hosts
            for name in [host.name, *host.addresses, host.addresses6[0]]
        ]
        addresses = ["link set lo up", *DOCKER]
        for at, interface in enumerate(self.interfaces):
            addresses += [
                f"address add {self.addresses[at]}/24 dev {interface}",
                f"address add {self.addresses6[at]}/64 dev {interface} nodad",
            ]
            addresses += [f"link set {interface} up"]
        return {
            "hosts": "\n".join(
                ["127.0.0.1 localhost", "::1 localhost", f"127.0.1.1 {self.name}", *others, ""]
            ),
            "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
            "known_hosts": "\n".join([*known, ""]),
            "ssh_config": SSH_CONFIG.format(key=self._cluster.key, known=self.folder / "known_hosts"),
            "sshd_config": SSHD_CONFIG.format(
                key=self.folder / "host_key",
                authorized=f"{self._cluster.key}.pub",
                other=f"{self._cluster.other_key}.pub",
            ),
            "boot_id": f"{uuid.uuid4()}\n",
            "addresses": "\n".join([*addresses, ""]),
        }

    def public_key(self) -> str:
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])


SSH_CONFIG = """Host *
  IdentityFile {key}
  IdentitiesOnly yes
  UserKnownHostsFile {known}
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
"""
SSHD_CONFIG = f"""Port 22
Port {OTHER_PORT}
HostKey {{key}}
AuthorizedKeysFile {{authorized}}
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 300
PidFile none
Match LocalPort {OTHER_PORT}
  AuthorizedKeysFile {{other}}
"""


class Cluster:
    """Some hosts; a context manager, in which they are up. `folder` must be empty, and is the caller's to
    remove."""

    def __init__(self, folder: pathlib.Path, *names: str) -> None:
        self.folder = folder
        self.key = folder / "key"
        self.other_key = folder / "other_key"
        self.bridges = [f"network{at}" for at in range(len(NETWORKS))]
        self.hosts = [Host(self, index, name) for index, name in enumerate(names)]
        self._switch: Namespaces | None = None

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def __enter__(self) -> "Cluster":
        try:
            self._make_keys()
            self._switch = Namespaces(
                ["--net"], ["sh", "-c", "echo booted; read -r _"], self.folder / "switch.log"
            )
            for host in self.hosts:
                host.start_up()
            self._switch.expect(b"booted")
            self.switch("ip", [f"link add {bridge} up type bridge" for bridge in self.bridges])
            for host in self.hosts:
                host.connect()
            for host in self.hosts:
                host.wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            host.end()
        if self._switch is not None:
            self._switch.end()

    def _make_keys(self) -> None:
        keys = [self.key, self.other_key, *(host.folder / "host_key" for host in self.hosts)]
        for key in keys:
            key.parent.mkdir(exist_ok=True)
        made = [
            subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
            for key in keys
        ]
        assert all(each.wait() == 0 for each in made), "ssh-keygen failed"

    def switch(self, tool: str, lines: Sequence[str]) -> None:
        """Has the switch's `ip`, `bridge` or `tc` carry out some lines."""
        assert self._switch is not None
        command = ["nsenter", "--target", str(self._switch.pid), "--net", tool, "-batch", "-"]
        result = subprocess.run(
            command, input="\n".join([*lines, ""]), capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{tool}: {result.stderr}\n{lines}"

    def stop(self, started: "subprocess.Popen[str]") -> None:
        """Kills a program that Host.start started."""
        os.kill(program(started), signal.SIGKILL)
        started.communicate()

    def sweep(self) -> None:
        """Kills what runs on the hosts."""
        for host in self.hosts:
            for each in host.processes() if host.up else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)

    def becomes_quiet(self, seconds: float, but: tuple[str, ...] = ()) -> list[str]:
        """Waits until nothing runs on any host that is up, for so long at most. Returns the processes that
        are left, one line each. Commands that begin as one of `but` do not count."""
        deadline = time.monotonic() + seconds
        while True:
            left = [
                (host, each)
                for host in self.hosts
                if host.up
                for each in host.processes()
                if not each.command.startswith(but)
            ]
            remaining = deadline - time.monotonic()
            if not left or remaining <= 0:
                return [f"{host.name}: {each.pid} {each.command}" for host, each in left]
            ended(left[0][1].pid, remaining)


def program(started: "subprocess.Popen[str]") -> int:
    """The pid, as this machine numbers it, of a program that Host.start started."""
    return only_child(started.pid)
