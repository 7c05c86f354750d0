# SPDX-License-Identifier: Apache-2.0
"""Builds docker/cpu.Dockerfile without Docker: each of its instructions in a root directory, by chroot.

    python test/docker/image.py BASE TARGET [ARGUMENT=VALUE ...]

BASE is a root directory in place of the image that FROM names, e.g. made by `debootstrap --variant=minbase
--include=ca-certificates bookworm BASE`; TARGET must not be there, and becomes the last stage. As root. Knows
the instructions that the file uses, in the forms in which it uses them, and refuses all others.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "docker/cpu.Dockerfile"
LENT = [
    "/etc/resolv.conf",
    "/etc/ssl/certs/ca-certificates.crt",
]  # what lets a root directory reach what this machine reaches
PASSED_ON = re.compile(r"PIP_.*|SSL_CERT_FILE|.*_proxy", re.IGNORECASE)

Instruction = tuple[str, str]  # its name, and what follows


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile: comments gone, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in joined.splitlines()]


class Stage:
    """A root directory in the making."""

    def __init__(self, directory: pathlib.Path, arguments: dict[str, str]) -> None:
        self.directory = directory
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
        }
        self.work = "/"
        self._given = arguments

    def inside(self, path: str) -> pathlib.Path:
        return pathlib.Path(f"{self.directory}{pathlib.PurePosixPath(self.work, path)}")

    def arg(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.environment[name] = self._given.get(name, value)

    def env(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.environment[name] = value

    def workdir(self, rest: str) -> None:
        self.work = rest
        self.inside(".").mkdir(parents=True, exist_ok=True)

    def copy(self, rest: str, sources: pathlib.Path, files: list[str] | None) -> None:
        """Copies from `sources`; if `files` are given, only those."""
        source, target = rest.split()
        if files is None:
            shutil.copytree(f"{sources}{source}", self.inside(target), symlinks=True, dirs_exist_ok=True)
            return
        for file in files:
            if source in (".", file):
                goal = self.inside(target) / file if source == "." else self.inside(target)
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(sources / file, goal)

    def run(self, command: str) -> None:
        enter = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" sh -c "cd $1 && $2"'
        passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
        environment = {**passed_on, **self.environment}
        words = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            enter,
            str(self.directory),
            self.work,
            'eval "$COMMAND"',
        ]
        subprocess.run(words, env={**environment, "COMMAND": command}, stdin=subprocess.DEVNULL, check=True)


def lend(root: pathlib.Path) -> None:
    for path in LENT:
        if pathlib.Path(path).exists():
            shutil.copy(path, f"{root}{path}")


def build(base: pathlib.Path, target: pathlib.Path, arguments: dict[str, str]) -> None:
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    steps = instructions(DOCKERFILE.read_text())
    stages: dict[str, Stage] = {}
    last = sum(name == "FROM" for name, _ in steps)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for name, rest in steps:
            print(f"{name} {rest[:150]}", flush=True)
            if name == "FROM":
                directory = target if len(stages) + 1 == last else pathlib.Path(folder) / str(len(stages))
                subprocess.run(["cp", "--archive", "--reflink=auto", base, directory], check=True)
                lend(directory)
                stage = stages[rest.partition(" AS ")[2] or str(len(stages))] = Stage(directory, arguments)
            elif name == "COPY" and rest.startswith("--from="):
                source, _, paths = rest.removeprefix("--from=").partition(" ")
                stage.copy(paths, stages[source].directory, None)
            elif name == "COPY":
                stage.copy(rest, ROOT, files)
            elif name in ("ARG", "ENV", "WORKDIR", "RUN"):
                getattr(stage, name.lower())(rest)
            elif name != "CMD":
                raise ValueError(f"{name} is not understood")


if __name__ == "__main__":
    build(
        pathlib.Path(sys.argv[1]),
        pathlib.Path(sys.argv[2]),
        dict(word.split("=", 1) for word in sys.argv[3:]),
    )
