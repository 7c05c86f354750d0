# SPDX-License-Identifier: Apache-2.0
"""Another user of a host harms no job: `pytest -s` prints the table of what was tried."""

import os
import pathlib
import subprocess
import sys

import pytest

OWN_TMP_AND_NETWORK = 'mount -t tmpfs -o mode=1777 none /tmp && ip link set lo up && exec "$@"'


@pytest.mark.long
def test_another_user_of_the_host_is_refused_everywhere():
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    program = [sys.executable, pathlib.Path(__file__).with_name("second_user.py")]
    words = [
        "unshare",
        "--mount",
        "--net",
        "--propagation",
        "private",
        "sh",
        "-c",
        OWN_TMP_AND_NETWORK,
        "sh",
        *program,
    ]
    ended = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
