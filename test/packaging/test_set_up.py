# SPDX-License-Identifier: Apache-2.0
"""The set-up of ./dev: packages, what is shown while steps run, and what a user reads when one fails."""

import gzip
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request

import pexpect
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test"))

from suites import machine, packages, progress  # noqa: E402
from suites.remedies import REMEDIES, remedy_of  # noqa: E402
from suites.shell import Failed  # noqa: E402

ALL_PACKAGES = packages.listed(packages.FOR_HORA) + packages.listed(packages.FOR_TESTS)
NOBLE = "http://archive.ubuntu.com/ubuntu/dists/{suite}/{component}/binary-amd64/Packages.gz"


def test_no_package_is_listed_twice():
    assert len(ALL_PACKAGES) == len(set(ALL_PACKAGES))
    assert set(packages.SERVICES) <= set(ALL_PACKAGES)


def test_users_who_have_a_look_get_no_package_that_starts_something():
    assert not set(packages.SERVICES) & set(packages.listed(packages.FOR_HORA))


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="needs apt")
def test_every_package_is_known_to_this_distribution():
    known = subprocess.run(
        ["apt-cache", "show", "--no-all-versions", *ALL_PACKAGES], capture_output=True, text=True, check=False
    )
    assert known.returncode == 0, known.stderr


@pytest.mark.long
def test_every_package_is_known_to_ubuntu_24_04():
    known = set()
    for suite in ("noble", "noble-updates"):
        for component in ("main", "universe"):
            address = NOBLE.format(suite=suite, component=component)
            try:
                with urllib.request.urlopen(address, timeout=20) as answer:
                    index = gzip.decompress(answer.read()).decode()
            except OSError as error:
                pytest.skip(
                    "the list of packages of Ubuntu 24.04 cannot be had here, so its names are not "
                    f"compared: {error}"
                )
            known |= {
                line.removeprefix("Package: ") for line in index.splitlines() if line.startswith("Package: ")
            }
    assert not set(ALL_PACKAGES) - known


APT = 'echo "$1 $(/usr/sbin/policy-rc.d; echo $?)" >> {log}'  # which command it is, and what policy-rc.d says to it


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a /usr/sbin of its own")
@pytest.mark.parametrize(
    ("how", "before", "apt", "status", "after"),
    [
        ("undone afterwards", "", "", 0, "absent"),
        ("undone after a failure", "", "[ $1 = update ]", 1, "absent"),
        ("undone after an interrupt", "", "kill -INT $PPID; sleep 0.1", 130, "absent"),
        (
            "left as it was",
            "printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d",
            "",
            0,
            "there",
        ),
    ],
)
def test_installing_starts_no_service(
    how: str, before: str, apt: str, status: int, after: str, tmp_path: pathlib.Path
):
    log = tmp_path / "log"
    for name, lines in {
        "apt-get": f"{APT.format(log=log)}\n{apt}",
        "systemctl": f'echo "$@" >> {log}',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "install").write_text(packages.script(["cmake", "munge"]))
    around = f"mount -t tmpfs none /usr/sbin\n{before}\nsh {tmp_path}/install\necho $?\n[ -e /usr/sbin/policy-rc.d ] && echo there || echo absent"
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", around], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == [str(status), after], how + ran.stderr
    said = log.read_text().splitlines()
    assert said[0] == "update 101"
    if status == 0:
        assert said[1:] == ["install 101", "disable munge.service"]


def shown(tmp_path: pathlib.Path, program: str, reader: progress.Reader | None = None) -> str:
    """The output of one step where it goes to no terminal."""
    stream = io.StringIO()
    with progress.Progress({"step": 3, "other": 1}, stream) as steps:
        steps.run("step", "test-step", ["sh", "-c", program], reader=reader)
    return stream.getvalue()


def test_a_step_that_is_done_counts_by_its_usual_time(tmp_path: pathlib.Path):
    assert shown(tmp_path, "true") == " 0:00  75% step: done in 0 s\n"


def test_a_terminal_has_one_line_that_fits_and_is_written_anew():
    program = f"""
        import sys; sys.path.insert(0, {str(ROOT / "test")!r})
        from suites.progress import Progress, of_ninja
        with Progress({{"compiling": 3, "another": 1}}) as steps:
            steps.run("compiling", "test-step", ["sh", "-c", "echo '[100/200]'; echo '[200/200]'"], reader=of_ninja)
    """
    terminal = pexpect.spawn(
        sys.executable, ["-c", textwrap.dedent(program)], dimensions=(10, 30), encoding="utf-8"
    )
    terminal.expect(pexpect.EOF)
    lines = terminal.before.replace("\r\x1b[K", "\n").replace("\r\n", "\n").split("\n")
    assert [line for line in lines if line] == [
        " 0:00   0% compiling",
        " 0:00  37% compiling: 100 of ",  # as much of it as fits
        " 0:00  75% compiling: 200 of ",
        " 0:00  75% compiling: done in 0 s",
    ]


def test_a_step_that_fails_shows_the_end_of_its_log_and_the_remedy(tmp_path: pathlib.Path):
    with pytest.raises(
        Failed,
        match="(?s)step failed.*build/logs/test-step.log.*No space left on device.*The disk was full .[0-9]+ MiB are free at .*goes on after the last",
    ):
        shown(tmp_path, "echo 'cp: No space left on device'; exit 1")


def test_an_interrupt_ends_what_a_step_has_started(tmp_path: pathlib.Path):
    program = f"""
        import sys; sys.path.insert(0, {str(ROOT / "test")!r})
        from suites.progress import Progress
        with Progress({{"step": 1}}) as steps:
            steps.run("step", "test-interrupt", ["sh", "-c", "sleep 600 & echo $! > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; wait"])
    """
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (tmp_path / "pid").exists():
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) != 0
    sleeper = pathlib.Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    while sleeper.exists() and sleeper.read_text().split()[2] != "Z":
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("reader", "line", "found"),
    [
        (progress.of_apt, "dlstatus:4:50.0:Retrieving file 4 of 8", (0.15, "50% downloaded")),
        (
            progress.of_apt,
            "pmstatus:cmake:40.5:Unpacking cmake (amd64)",
            (0.3 + 0.7 * 0.405, "40% installed"),
        ),
        (progress.of_apt, "Setting up cmake (3.25.1-1) ...", None),
        (progress.of_ninja, "      [3/20] Building CXX object core/base.o", (0.15, "3 of 20")),
        (progress.of_ninja, "-- Found hwloc", None),
    ],
)
def test_how_far_a_step_is_comes_from_its_output(
    reader: progress.Reader, line: str, found: tuple[float, str] | None
):
    assert reader(line) == (found and (pytest.approx(found[0]), found[1]))


def test_how_far_pip_is_comes_from_its_output():
    read = progress.of_pip(usual=2)
    assert read("Collecting torch==2.11.0") is None
    assert read("  Downloading torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)") is None
    assert read("  Downloading torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl (530.6 MB)") == (
        0.3,
        "torch",
    )
    assert read("Progress 262144000 of 524288000") == (0.15, "torch 250 of 500 MiB")
    assert read("  Using cached nvidia_cudnn_cu13-9.26.0.51-py3-none-manylinux_2_27_x86_64.whl (500 MB)") == (
        0.6,
        "nvidia-cudnn-cu13",
    )
    assert read("Installing collected packages: nvidia-cudnn-cu13, torch") == (0.6, "unpacking 2 packages")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "disk was full"),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "disk was full",
        ),
        (
            "W: Failed to fetch http://deb.debian.org/  Temporary failure resolving 'deb.debian.org'\nE: "
            "Unable to locate package cmake",
            "cannot be reached",
        ),
        (
            "NewConnectionError('Failed to establish a new connection: [Errno -3] Temporary failure in name "
            "resolution')",
            "cannot be reached",
        ),
        (
            "SSLError(SSLCertVerificationError(1, '[SSL: "
            "CERTIFICATE_VERIFY_FAILED] certificate verify failed'))",
            "not trusted",
        ),
        (
            "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 123 (apt)",
            "Another program is installing",
        ),
        (
            "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.",
            "dpkg --configure -a",
        ),
        ("E: Unable to locate package libhwy-dev", "universe"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "memory"),
        ("ERROR: No matching distribution found for torch==2.11.0", "this Python and this machine"),
        ("error: incomplete-download", "broke off"),
    ],
)
def test_a_failure_has_a_remedy(log: str, words: str):
    assert words in remedy_of(f"some lines\n{log}\nmore lines")


def test_a_failure_that_is_not_known_gets_no_guess():
    assert remedy_of("core/base/text.cc:12:3: error: expected ';'") == ""
    assert len({words for _, words in REMEDIES}) == len(REMEDIES)


@pytest.mark.parametrize(
    ("described", "words"),
    [
        (("Darwin", "arm64", 64), "needs Linux, and this is Darwin"),
        (("Linux", "i686", 32), "need a 64-bit system, and this Python has 32 bits"),
    ],
)
def test_a_machine_that_cannot_run_hora_is_refused(described: tuple[str, str, int], words: str):
    with pytest.raises(Failed, match=words):
        machine.check(*described)


def test_a_machine_that_nobody_has_tried_is_told_so():
    assert machine.check("Linux", "x86_64", 64) == ""
    assert "this is aarch64" in machine.check("Linux", "aarch64", 64)


@pytest.mark.skipif(shutil.which("ccache") is None, reason="needs ccache")
def test_a_changed_comment_of_a_precompiled_header_breaks_no_build_with_ccache(tmp_path: pathlib.Path):
    """GCC refuses `#pragma once` where a header differs from the precompiled one in any byte."""
    preset = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"][0]["environment"]
    environment = (
        os.environ | preset | {"CCACHE_BASEDIR": str(tmp_path), "CCACHE_DIR": str(tmp_path / "cache")}
    )
    header = tmp_path / "thing.h"
    (tmp_path / "all.h.cc").write_text('#include "thing.h"\n')
    text = "#pragma once\n// {}\nstruct Thing {{}};\n"

    def build(comment: str) -> None:
        header.write_text(text.format(comment))
        (tmp_path / "use.cc").write_text(f'#include "thing.h"\nint {comment}(Thing) {{ return 0; }}\n')
        (tmp_path / "all.h.gch").unlink(missing_ok=True)
        for words in (
            ["-x", "c++-header", "-o", "all.h.gch", "-c", "all.h.cc"],
            ["-include", "all.h", "-c", "use.cc"],
        ):
            compiled = subprocess.run(
                ["ccache", "c++", *words],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert compiled.returncode == 0, f"with the comment {comment!r}: {compiled.stderr}"

    build("one")
    build("two")
