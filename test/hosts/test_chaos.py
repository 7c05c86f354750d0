# SPDX-License-Identifier: Apache-2.0
"""Ranks are killed and stopped, and hosts cut off, one after the other."""

import pathlib

import pytest
from chaos import Chaos
from machines import Cluster

FAULTS_PER_MINUTE = 62 / 30


@pytest.mark.long
def test_every_step_counts_once_whatever_breaks(
    own_hosts: Cluster, tmp_path: pathlib.Path, pytestconfig: pytest.Config
):
    """For as many minutes as --chaos says; else a few things break in a short time."""
    minutes = pytestconfig.getoption("chaos")
    folder = tmp_path / "steps"
    folder.mkdir()
    chaos = Chaos(own_hosts, folder, seed=1)
    if minutes is None:
        outcome = chaos.run(faults=6, seconds=18)
    else:
        outcome = chaos.run(faults=round(FAULTS_PER_MINUTE * minutes), seconds=60 * minutes)
    print(outcome)
    assert not outcome.wrong, chaos.log()
