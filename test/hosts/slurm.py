# SPDX-License-Identifier: Apache-2.0
"""A real Slurm whose nodes are hosts of a cluster. It writes only into a folder of its own, and ends with the
hosts."""

import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping

from machines import Cluster, Host, Word, only_child

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc")
CPUS = 4  # that each node claims; they are this machine's

# No cgroups and no accounting: nothing outside the folder is needed. More processors than there are must be
# claimed explicitly, and a request that can never be served fails at once instead of waiting.
CONFIGURATION = """ClusterName=test
SlurmctldHost={head}({head_address})
SlurmctldPort=6817
SlurmdPort=6818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=5
EnforcePartLimits=ALL
SchedulerParameters=batch_sched_delay=0
{nodes}
PartitionName=test Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why there can be no Slurm here, if so."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [name for name in NEEDED if shutil.which(name, path=path) is None]
    return f"these tests need {', '.join(absent)}: test/packages.txt lists the packages" if absent else None


class Slurm:
    """A context manager, in which the nodes are ready. Commands run on the first host, which is the
    controller's, too."""

    def __init__(self, cluster: Cluster, folder: pathlib.Path) -> None:
        self.cluster = cluster
        self.head = cluster.hosts[0]
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Slurm":
        try:
            self._write_files()
            self._start(self.head, "munged", "--foreground", "--force", *self._munge_files())
            self._wait_for("munge", "-n", "-S", str(self.folder / "munge.socket"))
            self._start(self.head, "slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
            for host in self.cluster.hosts:
                self._start(host, "slurmd", "-D", "-N", host.name, "-f", self.environment["SLURM_CONF"])
            self._wait_for(
                "sh", "-c", f'test "$(sinfo -h -N -o %t | grep -cx idle)" = {len(self.cluster.hosts)}'
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            with contextlib.suppress(ValueError, ProcessLookupError):  # it has ended
                os.kill(only_child(daemon.pid), signal.SIGTERM)
        for daemon in self._daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):  # its host's end is its end
                daemon.wait(10)

    def run(
        self,
        *words: Word,
        seconds: float = 60,
        environment: Mapping[str, str] | None = None,
        directory: Word | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a command of Slurm's, or one inside it, to its end."""
        return self.head.run(
            *words,
            seconds=seconds,
            environment={**self.environment, **(environment or {})},
            directory=directory,
        )

    def _write_files(self) -> None:
        for name in ("state", *(f"spool-{host.name}" for host in self.cluster.hosts)):
            (self.folder / name).mkdir(parents=True)
        nodes = [
            f"NodeName={host.name} NodeAddr={host.address} CPUs={CPUS} RealMemory=500 State=UNKNOWN"
            for host in self.cluster.hosts
        ]
        names = ",".join(host.name for host in self.cluster.hosts)
        text = CONFIGURATION.format(
            head=self.head.name,
            head_address=self.head.address,
            folder=self.folder,
            nodes="\n".join(nodes),
            names=names,
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\n"
        )  # not used, but looked for if it is not said
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))

    def _munge_files(self) -> list[str]:
        files = {
            "key-file": "munge.key",
            "socket": "munge.socket",
            "pid-file": "munged.pid",
            "log-file": "munged.log",
            "seed-file": "munge.seed",
        }
        return [f"--{flag}={self.folder / name}" for flag, name in files.items()]

    def _start(self, host: Host, name: str, *words: Word) -> None:
        """A daemon in the foreground."""
        program = shutil.which(name, path="/usr/sbin:/sbin:/usr/bin")
        assert program is not None
        with open(self.folder / f"{name}-{host.name}.out", "wb") as output:
            command = host.command(program, *words, directory="/")
            environment = {"PATH": os.environ["PATH"], "HOME": "/root", **self.environment}
            self._daemons.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )

    def _wait_for(self, *words: Word) -> None:
        deadline = time.monotonic() + 60
        while (last := self.run(*words)).returncode != 0:
            ended = [daemon for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{words}: {last.stdout}{last.stderr}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        """The logs and the output of the daemons."""
        files = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-2000:]}" for file in files)
