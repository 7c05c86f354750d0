# SPDX-License-Identifier: Apache-2.0
"""hora.torch.elastic.Training: a rank that joins gets a large state in parts, during several steps."""

import subprocess

import pytest
from ranks import hrun
from ready_ranks import ready_python

# Arguments: what happens while rank 1, which is lost after step 2, gets the state.
TRAIN = """
import os, signal, sys, torch, hora, hora.torch as hvd
what, ranks = sys.argv[1], int(sys.argv[2])
hvd.init()
rank = int(os.environ["HORA_RANK"])
torch.manual_seed(rank)  # the model of rank 0 counts

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.average = torch.nn.Parameter(torch.zeros(900, 900), requires_grad=False)
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(900, 900) for _ in range(12 if what.startswith("the optimizer") else 5)])
        self.norm = torch.nn.BatchNorm1d(900)

    def forward(self, x):
        return self.norm(self.layers(x))

model = Model()
data = torch.utils.data.TensorDataset(torch.randn(800, 900, generator=torch.Generator().manual_seed(1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001, weight_decay=0.01)
training = hvd.elastic.Training(model, optimizer, data, batch=8, microbatch=2, clip_norm=1.0)
job = hora._job.runtime()
begun = -1  # after how many steps the state came in the first of several parts

def follows():
    handover = training._members._handover
    return handover is not None and not handover.has_last_part

def value():
    return float(model(torch.ones(2, 900)).square().mean())

def evaluate():
    model.eval()
    own = value()
    model.train()
    assert hvd.allreduce(torch.tensor(own, dtype=torch.float64)).item() == own, "all have the same model"

def train():
    global begun
    for epoch in training.epochs(1):
        for x, in training.batches():
            if follows():
                begun = training.progress.steps if begun < 0 else begun
            elif begun == training.progress.steps - 1 >= 0 and what == f"rank {rank} is lost":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "the optimizer has no state yet" and rank == 1 and job.generation == 1:
                os._exit(3)
            training.backward(model(x).square().mean() + model.layers[0].weight.square().sum())
            if not training.step():
                continue
            if "a parameter follows others" in what:
                model.average.data.lerp_(model.layers[4].weight.data, 0.5)
            if "all evaluate" in what and begun >= 0:
                training.retry(evaluate)
            if training.progress.steps == 2 and rank == 1 and job.generation == 1:
                os._exit(3)
            if training.progress.steps == 4:
                while job.generation < 3 and not job.change_is_due:
                    training.retry(lambda: None)
            if begun >= 0 and (what == "the loop ends" or training.progress.steps > 12):
                break

train()
hvd.check_replicas(model)
for state in training.state_dict()["optimizers"][0]["state"].values():
    for each in state.values():
        assert torch.equal(hvd.allreduce(each, op=hvd.Max), hvd.allreduce(each, op=hvd.Min))
print("done", "in parts" if begun >= 0 else "at once", hvd.size())
"""


def train(what: str, ranks: int, *words: str, least: int = 1) -> subprocess.CompletedProcess[str]:
    words = ("-np", f"{ranks}", "--min-np", f"{least}", *words, *ready_python())
    return hrun(*words, "-c", TRAIN, what, f"{ranks}")


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    [
        "nothing",
        "a parameter follows others",
        "all evaluate, and a parameter follows others",
        "all evaluate",
        "the loop ends",
    ],
)
def test_a_rank_takes_part_in_steps_while_it_gets_the_state(what: str):
    finished = train(what, 3)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("done in parts 3") == 3, finished.stdout + finished.stderr
    assert "1 process was lost, and 1 replaced" in finished.stderr


@pytest.mark.long
def test_a_state_that_the_first_step_makes_comes_too():
    finished = train("the optimizer has no state yet", 3, least=3)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("done in parts 3") == 3, finished.stdout + finished.stderr


@pytest.mark.long
def test_a_rank_begins_anew_if_another_is_lost_while_it_gets_the_state():
    finished = train("rank 2 is lost", 3, "--max-replacements", "1")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("done in parts 2") == 2, finished.stdout + finished.stderr


def test_a_job_ends_if_its_state_is_lost_while_a_rank_gets_it():
    finished = train("rank 0 is lost", 2)
    assert finished.returncode == 74, finished.stdout + finished.stderr
    assert "state" in finished.stderr
