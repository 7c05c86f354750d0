# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs on several hosts."""

import pathlib

import pytest
from launch import BUILD, job_named_by, lines, quiet
from machines import Cluster
from ranks import HRUN


@pytest.mark.long
def test_a_host_that_another_one_cannot_reach_is_left_out(own_hosts: Cluster, tmp_path: pathlib.Path):
    """hrun reaches both, so no process dies. The host whose ranks come later goes."""
    worker = [BUILD / "test/elastic_worker", "3000", "0.1", "1000", tmp_path]
    started = own_hosts["a"].start(
        HRUN, "-np", "4", "--min-np", "2", "--max-replacements", "0", "-H", "b:2,c:2", *worker
    )
    assert started.stdout is not None
    assert all(" trains " in started.stdout.readline() for _ in range(4))
    own_hosts["b"].isolate()
    own_hosts["c"].isolate()
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert [line for line in lines(out) if "model" in line] == [
        f"[{rank}] model 4.5015e+06 on rank {rank} of 2 in generation 3" for rank in (0, 1)
    ]
    assert err.count("on c) is left out: it cannot reach all other members") == 2, err


@pytest.mark.long
def test_a_process_on_another_host_is_replaced_there(hosts: Cluster, tmp_path: pathlib.Path):
    worker = [BUILD / "test/elastic_worker", "3000", "0.1", "1000", tmp_path]
    started = hosts["a"].start(HRUN, "-np", "4", "--min-np", "2", "-H", "a:2,b:2", *worker)
    assert started.stdout is not None
    pids = [started.stdout.readline().split() for _ in range(4)]
    [killed] = [int(pid) for label, _, pid in pids if label == "[3]"]
    hosts["b"].run("kill", "-KILL", killed)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert sorted(line for line in lines(out) if "model" in line) == [
        f"[{rank}] model 4.5015e+06 on rank {rank} of 4 in generation 3" for rank in range(4)
    ]
    killed_line, joined_line, summary = (line for line in err.splitlines() if line.startswith("hrun: "))
    assert (
        f"rank 3 (pid {killed} on b) was killed by signal 9 (Killed); the job goes on with 3" in killed_line
    )
    assert "on b) has joined; the job goes on with 4 of 4 ranks (generation 3)" in joined_line
    assert "1 process was lost, and 1 replaced: rank 3 after" in summary
    quiet(hosts)


@pytest.mark.long
def test_ranks_leave_a_host_that_is_drained_and_a_spare_of_another_one_joins(
    hosts: Cluster, tmp_path: pathlib.Path
):
    """Host c has no rank at the start, and is connected for the spare."""
    worker = [BUILD / "test/elastic_worker", "3000", "0.1", "1000", tmp_path]
    options = ["--verbose", "-np", "4", "--min-np", "2", "--spares", "1", "-H", "a:2,b:2,c:1"]
    started = hosts["a"].start(HRUN, *options, *worker)
    assert started.stdout is not None
    assert all(" trains " in started.stdout.readline() for _ in range(4))
    drained = hosts["a"].run(HRUN, "drain", "b", job_named_by(started))
    assert drained.stdout == "the ranks of host b leave before the next step\n", drained.stderr
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    model = [line for line in lines(out) if "model" in line]
    assert [line.split(" in ")[0] for line in model] == [
        f"[{label}] model 4.5015e+06 on rank {rank} of 3" for rank, label in enumerate((0, 1, 4))
    ], out + err
    assert "hrun: host b is drained: its ranks leave\n" in err
    assert all(f"rank {rank} (pid " in err for rank in (2, 3)) and err.count(" on b) has left") == 2
    assert " on c) has joined; the job goes on with 3 of 4 ranks" in err
    assert "lost" not in err
    quiet(hosts)


@pytest.mark.long
def test_a_job_goes_on_without_a_host_that_is_cut_off(own_hosts: Cluster, tmp_path: pathlib.Path):
    worker = f"exec {BUILD}/test/elastic_worker 300 0.1 10000 {tmp_path}"
    started = own_hosts["a"].start(
        HRUN, "-np", "4", "--min-np", "2", "--max-replacements", "0", "-H", "b:2,c:2", "sh", "-c", worker
    )
    assert started.stdout is not None
    assert all(" trains " in started.stdout.readline() for _ in range(4))
    own_hosts["c"].cut()
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert [line for line in lines(out) if "model" in line] == [
        f"[{rank}] model 45150 on rank {rank} of 2 in generation 2" for rank in (0, 1)
    ]
    assert "host c is lost: no word from it for 1 s; the job goes on with 2 of 4 ranks (generation 2)" in err
