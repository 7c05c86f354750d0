# SPDX-License-Identifier: Apache-2.0
"""How the trainings start in which ranks are killed (ranks/recovering.py), one for each library."""

import dataclasses
import os
import pathlib
import subprocess
from collections.abc import Callable, Sequence

from suites import newest
from suites.shell import HRUN, PYTHON

from . import launchers
from .launchers import PEERS, free_port

Command = list[str]
LIGHTHOUSE = PEERS / "bin/torchft_lighthouse"

HRUN_ELASTIC = (str(HRUN), "--min-np", "1", "--blacklist-cooldown-range", "0", "0", "-np")
TORCHRUN = (str(PYTHON), "-m", "torch.distributed.run", "--standalone", "--max-restarts", "10000")
TORCHRUN += ("--monitor-interval", "0.1", "--no-python", "--nproc-per-node")

# torchft needs a server, and a torchrun for each replica group. $0: torchft_lighthouse; $1: the number of
# groups; $2: the address of the server; the rest is torchrun with the program.
TORCHFT = """
groups=$1; address=$2; shift 2; export TORCHFT_LIGHTHOUSE=http://$address
unset TORCH_DISABLE_SHARE_RDZV_TCP_STORE  # its ranks use torchrun's store
"$0" --bind $address --min_replicas 1 --quorum_tick_ms 100 --join_timeout_ms 10000 & started=$!
for group in $(seq $groups); do REPLICA_GROUP=group_$group "$@" & started="$started $!"; done
trap 'kill $started; wait; exit' INT
wait
"""

# Horovod uses a host no more on which a rank has failed, so each rank has a host of its own. The hosts are
# names: what stands in for ssh runs everything here. Survivors whose neighbours in the ring live notice the
# loss by the timeout; it is 30 s if it is not set, and ranks that start must meet within it.
HOROVODRUN = (str(PEERS / "bin/horovodrun"), "--gloo", "--network-interface", "lo", "--min-np", "1")
HOROVODRUN += ("--gloo-timeout-seconds", "2", "-np")
SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
shift
exec bash -c "$*"  # which becomes the rank, so that signals reach it
"""

# PyTorch's reconfiguration brings no launcher. $1: the folder, in which a file says that a rank has ended; $2:
# the number of ranks; the rest is the program.
RANKS = """
folder=$1; export WORLD_SIZE=$2; shift 2
for rank in $(seq 0 $((WORLD_SIZE - 1))); do (RANK=$rank "$@"; : >$folder/ended$rank) & done
trap 'kill 0' INT
wait
"""


def _hora(ranks: int, folder: pathlib.Path, program: Sequence[str]) -> Command:
    return [*HRUN_ELASTIC, str(ranks), *program]


def _checkpoint(ranks: int, folder: pathlib.Path, program: Sequence[str]) -> Command:
    return [*TORCHRUN, str(ranks), *program]


def _torchft(ranks: int, folder: pathlib.Path, program: Sequence[str]) -> Command:
    address = f"127.0.0.1:{free_port()}"
    return ["sh", "-c", TORCHFT, str(LIGHTHOUSE), str(ranks), address, *TORCHRUN, "1", *program]


def _horovod(ranks: int, folder: pathlib.Path, program: Sequence[str]) -> Command:
    ssh, hosts = folder / "ssh", folder / "hosts"
    ssh.write_text(SSH)
    hosts.write_text(f"#!/bin/sh\nseq -f host%g:1 {ranks}\n")
    for script in (ssh, hosts):
        script.chmod(0o755)
    path = f"PATH={folder}:{PEERS / 'bin'}:{os.environ['PATH']}"
    discovery = ["--max-np", str(ranks), "--host-discovery-script", str(hosts)]
    return ["env", path, *HOROVODRUN, str(ranks), *discovery, *program]


def _reconfigured(ranks: int, folder: pathlib.Path, program: Sequence[str]) -> Command:
    return ["sh", "-c", RANKS, "sh", str(folder), str(ranks), *program]


def _nothing() -> None:
    return None


def _no_torchft() -> str | None:
    return None if LIGHTHOUSE.exists() else "torchft is not in build/bench/peers"


def _no_reconfiguration() -> str | None:
    look = [str(newest.PYTHON), "-c", "import torch.distributed; torch.distributed._reconfigure"]
    there = newest.PYTHON.exists() and subprocess.run(look, capture_output=True, check=False).returncode == 0
    return (
        None
        if there
        else "build/newest has no PyTorch that can reconfigure Gloo (2.15); ./dev newest makes it"
    )


@dataclasses.dataclass(frozen=True)
class Training:
    """A library that a training goes on with."""

    command: Callable[[int, pathlib.Path, Sequence[str]], Command]  # the number of ranks, the job's folder
    python: pathlib.Path = PYTHON
    missing: Callable[[], str | None] = _nothing  # why it cannot be used here
    replaces: bool = True  # whether a killed rank is started again


TRAININGS = {
    "hora": Training(_hora),
    "checkpoint": Training(_checkpoint),
    "torchft": Training(_torchft, PEERS / "bin/python", _no_torchft),
    "horovod": Training(_horovod, PEERS / "bin/python", launchers.horovodrun.missing, replaces=False),
    "reconfigured": Training(_reconfigured, newest.PYTHON, _no_reconfiguration, replaces=False),
}
