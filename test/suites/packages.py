# SPDX-License-Identifier: Apache-2.0
"""The system packages: which of them are missing, and how they are installed without starting a service."""

import os
import pathlib
import shutil
import subprocess

from .progress import Progress, of_apt
from .shell import ROOT, Failed

FOR_HORA = ROOT / "docker/packages.txt"
FOR_TESTS = ROOT / "test/packages.txt"
LABEL = "system packages"

# Units that these packages would start now, and at every boot.
SERVICES = {
    "openssh-server": ("ssh.service", "ssh.socket"),
    "munge": ("munge.service",),
    "slurm-wlm": ("slurmd.service", "slurmctld.service"),
}

# A script: apt asks policy-rc.d whether it may start a service. It is there while packages are installed, if
# none was before.
INSTALL = """
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM HUP
  printf '#!/bin/sh\\nexit 101\\n' > "$policy" && chmod 755 "$policy" || exit 1
fi
apt-get update || exit 1
apt-get install -y --no-install-recommends -o APT::Status-Fd=1 {packages} || exit 1
if command -v systemctl > /dev/null && [ -n "{services}" ]; then systemctl disable {services} || true; fi
"""


def listed(path: pathlib.Path) -> list[str]:
    """The names in such a file."""
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    return [line for line in lines if line]


def missing(*paths: pathlib.Path) -> list[str]:
    """The packages of these files that are not installed."""
    if shutil.which("dpkg-query") is None:
        names = " and ".join(str(path.relative_to(ROOT)) for path in paths)
        raise Failed(
            f"this machine is neither Debian nor Ubuntu: install what {names} lists by its own means, then "
            "run pip install . (docs/install.md)"
        )
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"],
        capture_output=True,
        text=True,
        check=False,
    )
    installed = {line.split()[0] for line in asked.stdout.splitlines() if line.endswith(" installed")}
    return [name for path in paths for name in listed(path) if name not in installed]


def script(packages: list[str]) -> str:
    services = " ".join(service for package in packages for service in SERVICES.get(package, ()))
    return INSTALL.format(packages=" ".join(packages), services=services)


def install(packages: list[str], progress: Progress) -> None:
    """Installs these as root. Throws Failed if this user cannot become root, and names the command."""
    if not packages:
        progress.skip(LABEL)
        return
    as_root = os.geteuid() == 0
    if not as_root and not can_sudo():
        command = f"apt-get update && apt-get install -y --no-install-recommends {' '.join(packages)}"
        raise Failed(
            f"these system packages are missing: {' '.join(packages)}\nInstall them as root, then start "
            f"./dev again:\n  {command}"
        )
    prefix = [] if as_root else ["sudo", "-n"]
    progress.run(
        LABEL,
        "apt",
        [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "sh", "-c", script(packages)],
        reader=of_apt,
    )


def can_sudo() -> bool:
    return (
        shutil.which("sudo") is not None
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    )
