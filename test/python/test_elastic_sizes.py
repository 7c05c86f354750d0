# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs that grow and shrink: hrun resize and drain, a script that lists the hosts, spares."""

import pathlib
import re

import pytest
from ranks import HRUN, hrun
from ready_ranks import ready_python
from test_elastic_training import check_audit, results

# Arguments: the folder of the audit; then "STEPS:RANKS:COMMAND" of sh: after so many steps rank 0 runs the command,
# and the ranks wait until they are as many as that.
TRAIN = """
import os, subprocess, sys, torch, hora, hora.torch as hvd
folder, *orders = sys.argv[1:]
hvd.init()
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
model.double()
x = torch.randn(150, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
samples = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
training = hvd.elastic.Training(model, optimizer, samples, batch=32, microbatch=8, audit=folder)
waits = 0
for epoch in training.epochs(3):
    for inputs, targets in training.batches():
        training.backward((model(inputs) - targets).square().mean())
        if not training.step():
            continue
        for order in orders:
            steps, ranks, command = order.split(":", 2)
            if training.progress.steps == int(steps):
                if hvd.rank() == 0:
                    subprocess.run(["sh", "-c", command], check=True)
                waits = int(ranks)
        while waits and hvd.size() != waits and not hora._job.runtime().change_is_due:
            training.retry(lambda: None)
        waits = 0
hvd.check_replicas(model)
print("result", training.progress.steps, float(model[0].weight.sum()), float(model[1].running_var.sum()), hvd.size())
"""


def changes(errors: str) -> list[str]:
    """The changes of the ranks, as hrun has told them, without processes."""
    lines = [re.sub(r" \(pid \d+\)", "", line) for line in errors.splitlines()]
    return [line.removeprefix("hrun: ") for line in lines if "; the job goes on" in line]


def alone(folder: pathlib.Path) -> list[float]:
    return results(hrun("-np", "1", *ready_python(), "-c", TRAIN, str(folder)), 1)


@pytest.mark.long
def test_a_job_has_as_many_ranks_as_the_user_wants(tmp_path: pathlib.Path):
    whole = alone(tmp_path / "alone")
    resize = f"{HRUN} resize %d $(ls $XDG_RUNTIME_DIR/hora | cut -c1-8)"
    orders = [
        f"2:2:{resize % 2}",
        f"6:4:{resize % 4}",
        f"9:3:{resize % 3}",
        f"10:3:{resize % 9} && exit 1 || true",
    ]
    words = ("-np", "2", "--max-np", "4", "-H", "localhost:4", *ready_python(), "-c", TRAIN)
    finished = hrun(*words, str(tmp_path / "job"), *orders, environment={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert results(finished, 3)[:3] == pytest.approx(whole[:3], rel=1e-12), finished.stderr
    check_audit(tmp_path / "job")
    down, *ups, last = changes(finished.stderr)
    assert down == "rank 2 has left; rank 3 has left; the job goes on with 2 of 2 ranks (generation 2)"
    assert {word for up in ups for word in up.split("; ") if " has " in word} == {
        "rank 2 has joined",
        "rank 3 has joined",
    }
    assert "; the job goes on with 4 of 4 ranks" in ups[-1]
    assert last.startswith("rank 3 has left; the job goes on with 3 of 3 ranks (generation ")
    assert "the job can have 2 to 4 ranks (--min-np, --max-np), so not 9" in finished.stdout + finished.stderr


def test_a_job_uses_the_hosts_that_a_script_lists(tmp_path: pathlib.Path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:2")
    orders = [f"3:3:echo localhost:3 > {hosts}", f"8:2:echo localhost:2 > {hosts}"]
    words = ("-np", "2", "--host-discovery-script", f"cat {hosts}", *ready_python(), "-c", TRAIN)
    finished = hrun(*words, str(tmp_path / "job"), *orders)
    assert results(finished, 2)[0] == 15, finished.stderr
    check_audit(tmp_path / "job")
    up, down = changes(finished.stderr)
    assert "rank 2 has joined; the job goes on with 3 ranks (generation 2)" in up
    assert "rank 2 has left; the job goes on with 2 ranks (generation 3)" in down
    for slots in (3, 2):
        assert f"hrun: host localhost has {slots} slots" in finished.stderr


def test_a_spare_takes_the_place_of_a_lost_rank(tmp_path: pathlib.Path):
    program = TRAIN.replace("waits = 0\n", "waits = 0; started_as = int(os.environ['HORA_RANK'])\n", 1)
    program = program.replace(
        "        if not training.step():",
        "        if started_as == 1 and training.progress.steps == 4 and hvd.size() == 3:\n"
        "            os._exit(3)\n        if not training.step():",
    )
    words = (
        "-np",
        "3",
        "--min-np",
        "1",
        "--spares",
        "1",
        "--max-replacements",
        "0",
        *ready_python(),
        "-c",
        program,
    )
    finished = hrun(*words, str(tmp_path / "job"), "6:3:true")
    assert results(finished, 3)[0] == 15, finished.stderr
    check_audit(tmp_path / "job")
    lost, joined = changes(finished.stderr)
    assert "rank 1 exited with code 3; the job goes on with 2 of 3 ranks (generation 2)" in lost
    assert "rank 3 has joined; the job goes on with 3 of 3 ranks (generation 3)" in joined


def test_a_hot_spare_trains_from_the_next_step_on(tmp_path: pathlib.Path):
    program = TRAIN.replace("waits = 0\n", "waits = 0; started_as = int(os.environ['HORA_RANK'])\n", 1)
    program = program.replace(
        "        if not training.step():",
        "        if started_as == 1 and training.progress.steps == 4 and hvd.size() == 4:\n"
        "            os._exit(3)\n        if not training.step():",
    )
    elastic = ("-np", "3", "--min-np", "1", "--spares", "1:hot", "--max-replacements", "0")
    finished = hrun(*elastic, *ready_python(), "-c", program, str(tmp_path / "job"), "3:4:true")
    assert results(finished, 3)[0] == 15, finished.stderr
    check_audit(tmp_path / "job")
    joined, lost = changes(finished.stderr)
    assert "rank 3 has joined; the job goes on with 3 of 3 ranks and 1 hot spare (generation 2)" in joined
    assert "rank 1 exited with code 3; the job goes on with 3 of 3 ranks (generation 3)" in lost
