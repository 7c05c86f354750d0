# SPDX-License-Identifier: Apache-2.0
"""Questions about a job reach the ranks of all hosts, and their answers come back."""

import json
import os
import pathlib
import signal

import pytest
from launch import HRUN, job_named_by, quiet, reduce_on
from machines import Cluster, program


@pytest.mark.long
def test_ranks_of_all_hosts_say_how_they_are_and_write_dumps(hosts: Cluster, tmp_path: pathlib.Path):
    here = hosts["a"]
    job = reduce_on(here, 4, "-H", "a:2,b:2", "--verbose", "-x", f"HORA_DUMP_DIR={tmp_path}/dumps")
    number = job_named_by(job.popen)

    status = json.loads(here.run(HRUN, "status", number, "--json").stdout)
    assert [rank["host"] for rank in status["ranks"]] == ["a", "a", "b", "b"]
    assert all(rank["state"] == "running" and rank["operations"] > 0 for rank in status["ranks"]), status

    dumped = here.run(HRUN, "dump", number)
    assert dumped.returncode == 0, dumped.stderr
    assert f"rank 3 on b: {tmp_path}/dumps/rank3.json\n" in dumped.stdout
    analysis = here.run(HRUN, "analyze", f"{tmp_path}/dumps")
    assert analysis.returncode == 0, analysis.stderr
    assert sorted(path.name for path in (tmp_path / "dumps").iterdir()) == [
        f"rank{rank}.json" for rank in range(4)
    ]

    os.kill(program(job.popen), signal.SIGTERM)
    job.end(30)
    quiet(hosts)
