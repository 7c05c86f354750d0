# SPDX-License-Identifier: Apache-2.0
"""hora.torch.elastic.Training: no step and no sample is lost or repeated, and the result does not depend on
the ranks that were lost."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import textwrap
from typing import Any

import pytest
from ranks import HRUN, ROOT, environment_with, hrun
from ready_ranks import ready_python, run_ready

SAMPLES = 150  # in 3 epochs of 5 steps, of which the last has 22 samples
STEPS = 15

# Arguments: the kind of data, the ranks to be killed as "RANK:STEPS:PLACE", the folder of the audit, and after
# how many steps the ranks wait until a process is there that wants to join.
TRAIN = """
import os, signal, sys, torch, hora, hora.torch as hvd
kind, deaths, folder, *waits = sys.argv[1:]
hvd.init()
started_as = int(os.environ["HORA_RANK"])
torch.manual_seed(7 + started_as)  # the model of rank 0 counts

class Buffers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(2, dtype=torch.complex64), persistent=False)
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("made", None)

    def forward(self, x):
        if not hasattr(self, "late"):
            self.register_buffer("late", torch.ones(3))
        if self.made is None or len(self.made) < 8:
            self.made = torch.ones(4 if self.made is None else 8)
        if self.training:
            self.seen = self.seen * 0.5 + x.detach().mean()
        return x * (1 + 0.1 * self.table.real.mean())

layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), Buffers(), torch.nn.Linear(8, 1100)]
layers += [torch.nn.Tanh(), torch.nn.Linear(1100, 1)]  # with tensors that are sent while the ranks compute
model = torch.nn.Sequential(*layers).double()
generator = torch.Generator().manual_seed(1)
x = torch.randn(150, 4, generator=generator, dtype=torch.float64)
samples = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())

class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return (samples[index] for index in torch.randperm(150))

data = {
    "data set": lambda: samples,
    "loader": lambda: torch.utils.data.DataLoader(samples, batch_size=8, shuffle=True, num_workers=2),
    "stream": Stream,
    "loader of a stream": lambda: torch.utils.data.DataLoader(Stream(), batch_size=8),
}[kind]()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
training = hvd.elastic.Training(
    model, optimizer, data, batch=32, microbatch=8, clip_norm=0.5, audit=folder or None,
    scaler=torch.amp.GradScaler("cpu", init_scale=4.0), scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 4))

def add_noise(optimizer, *_):
    for parameter in model.parameters():
        parameter.grad += 0.01 * torch.randn_like(parameter)

optimizer.register_step_pre_hook(add_noise)

def die(place):
    if f"{started_as}:{training.progress.steps}:{place}" in deaths.split(","):
        os.kill(os.getpid(), signal.SIGKILL)

def evaluate():
    die("evaluate")
    return hvd.allreduce(model[0].weight.detach().sum(), name="total")

for epoch in training.epochs(3):
    for inputs, targets in training.batches():
        loss = (model(inputs) - targets).square().mean()
        die("forward")
        training.backward(loss)
        die("backward")
        if training.step():
            optimizer.param_groups[0]["weight_decay"] = 0.001 * training.progress.steps
            if str(training.progress.steps) in waits:
                while hvd.size() < 4 and not hora._job.runtime().change_is_due:
                    training.retry(lambda: None)
        die("step")
    total = training.retry(evaluate)
    die("epoch")
hvd.check_replicas(model)
numbers = [total, model[1].running_var.sum(), model[1].num_batches_tracked, optimizer.param_groups[0]["lr"]]
numbers += [model[3].seen, model[3].table.real.sum(), torch.randn(1)]
print("result", training.progress.steps, *(float(number) for number in numbers))
"""


def printed(finished: subprocess.CompletedProcess[str], ranks: int, word: str) -> str:
    """The text behind this word, which all ranks have printed alike."""
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = [line.split(f"{word} ")[1] for line in finished.stdout.splitlines() if f"{word} " in line]
    assert len(lines) == ranks and len(set(lines)) == 1, finished.stdout
    return lines[0]


def results(finished: subprocess.CompletedProcess[str], ranks: int) -> list[float]:
    """The numbers that all ranks have printed."""
    return [float(number) for number in printed(finished, ranks, "result").split()]


def audit_lines(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The lines of all processes."""
    return [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]


def check_audit(folder: pathlib.Path) -> None:
    """Every sample of every epoch was taken exactly once, as far as the ranks that have lived can tell."""
    steps = collections.defaultdict(list)
    for written in audit_lines(folder):
        steps[written["step"]].append(written)
    place = 0
    for number in range(1, STEPS + 1):
        made_by = steps[number][0]["ranks"]
        first, last = steps[number][0]["first"], steps[number][0]["last"]
        assert {(line["first"], line["last"], line["ranks"]) for line in steps[number]} == {
            (first, last, made_by)
        }
        assert first == place % SAMPLES
        place += last - first
        if len(steps[number]) == made_by:
            taken = [sample for line in steps[number] for piece in line["pieces"] for sample in range(*piece)]
            assert sorted(taken) == list(range(first, last))
    assert place == 3 * SAMPLES


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "deaths", "lost"),
    [
        ("data set", "0:0:forward,2:3:backward,1:9:step", 3),
        ("loader", "3:4:epoch,3:5:epoch,0:12:forward", 2),
        ("stream", "1:0:backward,0:5:epoch", 2),
        ("loader of a stream", "2:14:forward", 1),
    ],
)
def test_training_ends_as_if_no_rank_had_been_lost(kind: str, deaths: str, lost: int, tmp_path: pathlib.Path):
    alone = hrun("-np", "1", *ready_python(), "-c", TRAIN, kind, "", "")
    words = (
        "-np",
        "4",
        "--min-np",
        "1",
        "--max-replacements",
        "0",
        *ready_python(),
        "-c",
        TRAIN,
        kind,
        deaths,
        str(tmp_path),
    )
    survivors = hrun(*words)
    assert survivors.stderr.count("was killed by signal 9 (Killed); the job goes on") == lost
    assert results(survivors, 4 - lost) == pytest.approx(results(alone, 1), rel=1e-9)
    check_audit(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "deaths", "waits"),
    [
        ("data set", "0:0:forward,1:1:backward,2:6:backward", ["1", "4", "9"]),
        ("loader", "3:5:epoch,0:12:forward", ["6", "14"]),
        pytest.param("stream", "1:0:backward,0:5:epoch", ["2", "7"], marks=pytest.mark.long),
    ],
)
def test_processes_that_replace_lost_ones_change_no_result(
    kind: str, deaths: str, waits: list[str], tmp_path: pathlib.Path
):
    alone = hrun("-np", "1", *ready_python(), "-c", TRAIN, kind, "", "")
    words = ("-np", "4", "--min-np", "1", *ready_python(), "-c", TRAIN, kind, deaths, str(tmp_path), *waits)
    replaced = hrun(*words)
    assert replaced.stderr.count("was killed by signal 9 (Killed)") == deaths.count(":") // 2
    assert replaced.stderr.count(" has joined; the job goes on with 4 of 4 ranks") == len(waits)
    assert results(replaced, 4) == pytest.approx(results(alone, 1), rel=1e-9)
    check_audit(tmp_path)


@pytest.mark.long
def test_a_rank_that_dies_in_an_evaluation_is_replaced_before_the_next_step(tmp_path: pathlib.Path):
    """Without it there are too few ranks. The evaluation ends before the job pauses."""
    alone = hrun("-np", "1", *ready_python(), "-c", TRAIN, "data set", "", "")
    words = (
        "-np",
        "2",
        "--min-np",
        "2",
        *ready_python(),
        "-c",
        TRAIN,
        "data set",
        "1:5:evaluate",
        str(tmp_path),
    )
    replaced = hrun(*words, seconds=60)
    assert results(replaced, 2) == pytest.approx(results(alone, 1), rel=1e-9)
    check_audit(tmp_path)


# A library of the newest PyTorch says so at the end of a process of `ready_python`, which keeps all modules.
LEAKS = re.compile(r"\[\d\] (nanobind: | - (leaked|\.\.\.) |See https://nanobind\.)")

LEAVE = """
import os, signal, sys, torch, hora.torch as hvd
hvd.init()
started_as = int(os.environ["HORA_RANK"])
model = torch.nn.Linear(4, 1)
data = torch.utils.data.TensorDataset(torch.ones(64, 4))
training = hvd.elastic.Training(model, torch.optim.SGD(model.parameters(), lr=0.1), data, batch=16, microbatch=4)
made = 0
for epoch in training.epochs(3):
    for x, in training.batches():
        if started_as == 1 and training.progress.steps == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        training.backward(model(x).square().mean())
        made += training.step()
        if started_as != 1 and training.progress.steps == 7 and hvd.size() == 3:
            training.retry(lambda: None)  # it has heard of the wish by then
print("done", made, hvd.size())
"""


def test_a_process_that_gets_sigterm_leaves_before_the_next_step():
    finished = hrun("-np", "3", "--min-np", "1", *ready_python(), "-c", LEAVE)
    assert finished.returncode == 0, finished.stderr
    assert sorted(finished.stdout.splitlines()) == ["[0] done 12 2", "[2] done 12 2"], finished.stderr
    said = [line for line in finished.stderr.splitlines() if not LEAKS.match(line)]
    assert len(said) == 1, finished.stderr
    assert said[0].startswith("hrun: rank 1 (pid ") and said[0].endswith(
        ") has left; the job goes on with 2 of 3 ranks (generation 2)"
    )


@pytest.mark.long
def test_a_process_that_gets_sigterm_leaves_also_while_the_job_pauses():
    program = LEAVE.replace("== 5", "== -5").replace(
        "        made +=",
        "        if started_as == 1 and training.progress.steps == 2:\n"
        "            os._exit(3)\n"
        "        made +=",
    )
    program = "import os; print('started', os.environ['HORA_RANK'], os.getpid(), flush=True)\n" + program
    words = ("-np", "3", "--min-np", "3", "--max-replacements", "0", "--elastic-timeout", "3")
    job = subprocess.Popen(
        [HRUN, *words, *ready_python(), "-c", program],
        env=environment_with({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None and job.stderr is not None
    started = [job.stdout.readline().split() for _ in range(3)]
    [pid] = [int(words[3]) for words in started if words[2] == "2"]
    assert "; the job goes on with 2 of 3 ranks" in job.stderr.readline(), "the last step is still made"
    assert "; the job pauses with 2 of 3 ranks" in job.stderr.readline()
    os.kill(pid, signal.SIGTERM)
    assert ") has left; the job pauses with 1 of 3 ranks" in job.stderr.readline()
    [pid] = [int(words[3]) for words in started if words[2] == "0"]
    os.kill(pid, signal.SIGTERM)
    assert " asks to leave, and stays, as no other rank could go on: a second signal ends it" in (
        job.stderr.readline()
    )
    job.communicate(timeout=30)
    assert job.returncode == 75


def test_ranks_that_would_leave_on_sigterm_end_when_hrun_ends_the_job():
    program = LEAVE.replace("epochs(3)", "epochs(10**9)").replace("== 5", "== -5")
    words = ("-np", "3", "--min-np", "1", "--timeout", "2", "--grace", "60", *ready_python())
    assert hrun(*words, "-c", program, seconds=30).returncode == 124


def test_a_process_that_would_train_something_else_does_not_join(tmp_path: pathlib.Path):
    program = """
        import os, pathlib, sys, torch, hora, hora.torch as hvd
        hvd.init()
        late = "HORA_JOINS_LATE" in os.environ
        joins = pathlib.Path(sys.argv[1])
        if late:
            joins.write_text(str(os.getpid()))
        model = torch.nn.Linear(4, 2 if late else 1)
        data = torch.utils.data.TensorDataset(torch.ones(64, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = hvd.elastic.Training(model, optimizer, data, batch=8 if late else 16, microbatch=4)
        for epoch in training.epochs(2):
            for x, in training.batches():
                if hvd.rank() == 1 and training.progress.steps == 1 and hvd.size() == 3:
                    os._exit(3)
                training.backward(model(x).square().mean())
                if not training.step():
                    continue
                job = hora._job.runtime()
                if training.progress.steps == 3:
                    while job.generation < 4 and not job.change_is_due:  # in 3 it joins, in 4 it has left
                        training.retry(lambda: None)
                if training.progress.steps == 6 and job.generation == 4:
                    lives = lambda: hvd.broadcast_object(os.path.exists(f"/proc/{joins.read_text()}"), 0)
                    while training.retry(lives):  # until hrun has heard of its end
                        pass
        print("done", training.progress.steps)
    """
    words = ("-np", "3", "--min-np", "2", *ready_python(), "-c", textwrap.dedent(program))
    finished = hrun(*words, str(tmp_path / "joins"))
    assert finished.returncode == 0, finished.stderr
    assert sorted(finished.stdout.splitlines()) == ["[0] done 8", "[2] done 8"]
    assert (
        "HoraInternalError: this process cannot join the job, which trains something else:" in finished.stderr
    )
    for difference in (
        "'batch' is 8, and 16 on rank 0",
        "'model.weight' is float32[2,4], and float32[1,4] on",
    ):
        assert difference in finished.stderr
    assert "hrun: rank 1 fails again and again: its next process is started in 10 s" in finished.stderr


@pytest.mark.parametrize(
    ("change", "joins"), [("clamp_(-0.01, 0.01)", True), ("mul_(0.99)", False)], ids=["equally", "by place"]
)
def test_a_process_joins_only_with_the_parameters_of_the_others(
    change: str, joins: bool, tmp_path: pathlib.Path
):
    program = """
        import os, pathlib, sys, torch, hora, hora.torch as hvd
        hvd.init()
        torch.manual_seed(1)
        model = torch.nn.Linear(200, 200)
        data = torch.utils.data.TensorDataset(torch.ones(96, 200))
        training = hvd.elastic.Training(
            model, torch.optim.SGD(model.parameters(), lr=0.1), data, batch=24, microbatch=4)
        for epoch in training.epochs(2):
            for x, in training.batches():
                if hvd.rank() == 1 and training.progress.steps == 1 and hvd.size() == 3:
                    os._exit(3)
                training.backward(model(x).square().mean())
                if "HORA_JOINS_LATE" in os.environ:
                    pathlib.Path(sys.argv[1]).touch()
                while hora._job.runtime().generation == 3 and not pathlib.Path(sys.argv[1]).exists():
                    pass  # it gets the parameters from before the step
                model.weight.data.CHANGE  # also within a step
                if training.step() and training.progress.steps == 3:
                    job = hora._job.runtime()
                    while job.generation < GENERATION and not job.change_is_due:
                        training.retry(lambda: None)
        hvd.check_replicas(model)
        print("done", training.progress.steps)
    """
    program = program.replace("CHANGE", change).replace("GENERATION", "3" if joins else "4")
    words = ("-np", "3", "--min-np", "2", *ready_python(), "-c", textwrap.dedent(program))
    finished = hrun(*words, str(tmp_path / "has joined"))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("done 8") == (3 if joins else 2)
    refused = "HoraInternalError: this process cannot join the job: it has another state than rank 0"
    assert (refused in finished.stderr) != joins


def test_a_process_that_joins_has_the_whole_state_from_the_first_epoch_on():
    """Also tensors that share memory, and states of an optimizer that load_state_dict casts."""
    program = """
        import os, torch, hora, hora.torch as hvd
        hvd.init()

        class Sums(torch.optim.Optimizer):
            def __init__(self, parameters):
                super().__init__(parameters, {"lr": 0.125})

            @torch.no_grad()
            def step(self, closure=None):
                for each in self.param_groups[0]["params"]:
                    if each.grad is not None:
                        state = self.state.setdefault(each, {})
                        state["sum"] = state.get("sum", torch.zeros_like(each).float()) + each.grad.float()
                        each -= self.param_groups[0]["lr"] * each.grad

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(300, 200, dtype=torch.bfloat16))
                self.same = torch.nn.Parameter(self.weight.data.view(-1), requires_grad=False)
                self.other = torch.nn.Parameter(torch.zeros(300, 200, dtype=torch.bfloat16).t())
                self.third = torch.nn.Parameter(torch.zeros(300, 200, dtype=torch.bfloat16))

            def forward(self, x):
                return (self.weight.sum() + self.other.sum() + self.third.sum()) * x.mean()

        model = Model()
        data = torch.utils.data.TensorDataset(torch.ones(96))
        training = hvd.elastic.Training(model, Sums(model.parameters()), data, batch=16, microbatch=8)

        def check():
            steps = training.progress.steps
            for each in model.parameters():
                assert (each == -0.125 * steps).all(), (steps, each)
            for each in training.state_dict()["optimizers"][0]["state"].values():
                assert (each["sum"] == steps).all()

        for epoch in training.epochs(2):
            check()
            for x, in training.batches():
                if hvd.rank() == 1 and training.progress.steps == 1 and hvd.size() == 3:
                    os._exit(3)
                training.backward(model(x))
                if training.step() and training.progress.steps == 3:
                    while hvd.size() < 3 and not hora._job.runtime().change_is_due:
                        training.retry(lambda: None)
        check()
        print("done", training.progress.steps)
    """
    finished = hrun("-np", "3", "--min-np", "2", *ready_python(), "-c", textwrap.dedent(program))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("done 12") == 3, finished.stderr


def test_two_trainings_by_turns_refuse_a_process_that_joins():
    program = """
        import os, signal, torch, hora, hora.torch as hvd
        hvd.init()
        started_as, job = int(os.environ["HORA_MEMBER_ID"]), hora._job.runtime()
        def make():
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            return model, hvd.elastic.Training(model, optimizer, torch.ones(16, 2), batch=4, microbatch=1)
        both = [make(), make()]
        for epoch in range(4):
            for model, training in both:
                for x in training.batches():
                    training.backward(model(x).square().mean())
                    if training.step() and started_as == 2 and training.progress.steps == 2:
                        os.kill(os.getpid(), signal.SIGKILL)
                    waits = training is both[0][1] and training.progress.steps == 7
                    while waits and hvd.size() < 2 and not job.change_is_due:
                        training.retry(lambda: None)
        print("done", training.progress.steps)
    """
    words = ("-np", "2", "--min-np", "1", "--max-replacements", "1")
    finished = hrun(*words, *ready_python(), "-c", textwrap.dedent(program))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "[0] done 16\n"
    assert (
        "HoraUsageError: this process has joined the job while another Training trained, and has no state of this one"
        in finished.stderr
    ), finished.stderr


def test_a_program_that_goes_on_from_a_checkpoint_may_be_started_while_the_job_runs(tmp_path: pathlib.Path):
    program = f"""
        import os, signal, torch, hora, hora.torch as hvd
        hvd.init()
        device = hvd.local_rank()
        hvd.barrier()
        model = torch.nn.Linear(4, 1)
        hvd.broadcast_parameters(model.state_dict(), 0)
        some = hvd.add_process_set([0, 2])
        data = torch.utils.data.TensorDataset(torch.ones(64, 4))
        training = hvd.elastic.Training(model, torch.optim.SGD(model.parameters(), lr=0.1), data, batch=16, microbatch=4)
        path = {str(tmp_path / "checkpoint")!r}
        if os.path.exists(path):
            training.load_state_dict(torch.load(path))
        seen = training.retry(lambda: hvd.size())
        for epoch in training.epochs(3):
            for x, in training.batches():
                if device == 1 and training.progress.steps == 6 and hvd.size() == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
                training.backward(model(x).square().mean())
                if training.step() and training.progress.steps == 7:
                    while hvd.size() < 3 and not hora._job.runtime().change_is_due:
                        training.retry(lambda: None)
            if hvd.rank() == 0:
                torch.save(training.state_dict(), path + ".new")
                os.replace(path + ".new", path)
            training.retry(lambda: hvd.allreduce(torch.ones(1), process_set=some) if some.included() else None)
        hvd.check_replicas(model)
        print("done", training.progress.steps, hvd.rank(), hvd.size(), device, some.ranks, seen)
    """
    finished = hrun("-np", "3", "--min-np", "2", *ready_python(), "-c", textwrap.dedent(program))
    assert finished.returncode == 0, finished.stderr
    assert sorted(finished.stdout.splitlines()) == [
        "[0] done 12 0 3 0 [0, 2] 3",
        "[1] done 12 1 3 1 [0, 2] 1",
        "[2] done 12 2 3 2 [0, 2] 3",
    ]


# As if another rank had died before its vote.
VOTED_DOWN = """
import hora._membership as membership, hora.torch.elastic.members as members
votes = losses = 0

def vote(make=lambda: None, has_state=True, commit=membership.commit):
    global votes, losses
    votes += 1
    losses += votes in (8, 13)
    return votes not in (8, 13) and commit(make, has_state)

membership.commit = vote
members.who = lambda: losses
"""


def test_a_step_that_is_voted_down_changes_nothing():
    made = hrun("-np", "2", *ready_python(), "-c", TRAIN, "data set", "", "")
    again = hrun("-np", "2", *ready_python(), "-c", VOTED_DOWN + TRAIN, "data set", "", "")
    assert results(again, 2) == results(made, 2)


def test_the_program_of_the_page_learns_to_its_end(tmp_path: pathlib.Path):
    page = (ROOT / "docs/elastic.md").read_text()
    program = (
        page.partition("```python\n")[2].partition("```")[0].replace("model.pt", str(tmp_path / "model.pt"))
    )
    finished = hrun("-np", "2", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", program)
    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "model.pt").exists()


COPIES = """
import os, signal, sys, torch, hora, hora.torch as hvd
kind, deaths = sys.argv[1:]
hvd.init()
started_as = hvd.rank()
x = torch.arange(200.0, dtype=torch.float64).reshape(50, 4) / 200
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
SGD = torch.optim.SGD
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
optimizers = {
    "several optimizers": lambda: [SGD(model[0].parameters(), lr=0.05), SGD(model[2].parameters(), lr=0.1)],
    "LBFGS": lambda: [torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)],
    "Adasum": lambda: [hvd.DistributedOptimizer(SGD(model.parameters(), lr=0.05), model.named_parameters(), op=hvd.Adasum)],
    "process set": lambda: [hvd.DistributedOptimizer(SGD(model.parameters(), lr=0.05), model.named_parameters(), process_set=hvd.add_process_set([0, 1]))],
}[kind]()
training = hvd.elastic.Training(model, optimizers, data, batch=16, microbatch=16, scaler=scaler)
taken = []

def loss():
    for optimizer in optimizers:
        optimizer.zero_grad()
    error = (model(inputs) - targets).square().mean()
    (scaler.scale(error) if kind == "several optimizers" else error).backward()
    return error

for epoch in training.epochs(2):
    for inputs, targets in training.batches():
        with training.attempt() as attempt:
            if kind == "LBFGS":
                optimizers[0].step(loss)
            elif kind == "several optimizers":
                loss()
                scaler.step(optimizers[0])
            else:
                loss()
                optimizers[0].step()
            if f"{started_as}:{training.progress.steps}" in deaths.split(","):
                os.kill(os.getpid(), signal.SIGKILL)
            for optimizer in optimizers[1:]:
                scaler.step(optimizer)
                scaler.update()
        if attempt.counts:
            taken.append(len(inputs))
# 3 steps in an epoch, as the rest of 2 samples is fewer than 3 ranks: the last one has 18.
shares = hvd.allgather_object(taken)
if kind != "process set":
    hvd.check_replicas(model)
print("result", training.progress.steps, sum(map(sum, shares)) if not deaths else 100)
"""


@pytest.mark.parametrize("kind", ["several optimizers", "LBFGS", "Adasum", "process set"])
def test_a_step_of_the_programs_own_is_taken_back_when_a_rank_is_lost(kind: str):
    words = ("-np", "3", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", COPIES, kind)
    assert results(hrun(*words, ""), 3) == [6, 100]
    survivors = hrun(*words, "2:2,0:4")
    assert results(survivors, 1)[0] >= 6
    assert survivors.stderr.count("hora: Training copies model and optimizers before each step, as ") == 1


def test_a_process_that_joins_belongs_to_no_process_set_of_the_others():
    program = COPIES.replace(
        "        if attempt.counts:\n",
        "        while training.progress.steps == 4 and hvd.size() < 3 and not hora._job.runtime().change_is_due:\n"
        "            training.retry(lambda: None)\n"
        "        if attempt.counts:\n",
    )
    replaced = hrun(
        "-np", "3", "--min-np", "1", *ready_python(), "-c", program, "process set", "2:2", seconds=60
    )
    assert results(replaced, 3)[0] == 6, replaced.stderr


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_ended():
    run_ready(
        3,
        """
        import torch, hora.torch as hvd
        hvd.init()
        def made():
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)).double()
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            data = [(torch.tensor([n * 0.1, 1.0 / (n + 1)], dtype=torch.float64), n * 0.01) for n in range(100)]
            return model, hvd.elastic.Training(model, optimizer, data, batch=24, microbatch=8)
        def train(model, training, steps):
            for epoch in training.epochs(3):
                for x, y in training.batches():
                    training.backward((model(x).squeeze(1) - y).square().mean())
                    if training.step() and training.progress.steps == steps:
                        return
        whole, training = made()
        train(whole, training, 13)
        part, training = made()
        train(part, training, 7)
        saved = training.state_dict()
        assert saved["progress"] == {"epoch": 1, "place": 48, "steps": 7}, saved["progress"]
        rest, training = made()
        training.load_state_dict(saved)
        train(rest, training, 13)
        for name, value in whole.state_dict().items():
            assert torch.equal(value, rest.state_dict()[name]), name
        """,
    )


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_without_samples_and_steps_that_are_left_do_no_harm(ranks: int):
    """With 2 ranks, all leave the second step of the first epoch. With 3, rank 2 gets samples of rank 0."""
    run_ready(
        ranks,
        """
        import torch, hora.torch as hvd
        hvd.init()
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        data = [torch.full((1,), float(n)) for n in range(8)]
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        training = hvd.elastic.Training(model, optimizer, data, batch=4, microbatch=2, shuffle=False)
        seen = []
        for epoch in training.epochs(2):
            for x in training.batches():
                if hvd.size() == 2 and training.progress.steps == 1 and epoch == 0:
                    break
                seen.append(x.flatten().tolist())
                training.backward(model(x).mean())
                training.step()
        left = hvd.size() == 2
        assert training.progress == hvd.elastic.Progress(epoch=2, place=0, steps=4 - left), training.progress
        means = [1.5, 1.5, 5.5] if left else [1.5, 5.5, 1.5, 5.5]
        assert model.weight.item() == -sum(means), model.weight
        first = {1.5: [0, 1], 5.5: [4, 5]}
        second = {1.5: [2, 3], 5.5: [6, 7]}
        of_ranks = [first, second, first]
        assert seen == [of_ranks[hvd.rank()][mean] for mean in means], seen
        """,
    )


def test_ranks_that_leave_the_loop_after_different_steps_are_told():
    program = """
import torch, hora.torch as hvd
hvd.init()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
training = hvd.elastic.Training(model, optimizer, torch.ones(24, 1), batch=12, microbatch=4)
for epoch in training.epochs(2):
    for number, x in enumerate(training.batches()):
        if number == 2:
            break
        training.backward(model(x).mean())
        training.step()
"""
    finished = hrun("-np", "2", *ready_python(), "-c", program)
    said = "the ranks make different steps: up to sample 24 of epoch 0 and up to sample 12 of epoch 1. All ranks leave"
    assert said in finished.stderr


def test_ranks_with_data_of_their_own_are_told():
    program = """
import torch, hora.torch as hvd
hvd.init()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hvd.elastic.Training(model, optimizer, torch.ones(24 + hvd.rank(), 1), batch=12, microbatch=4)
"""
    finished = hrun("-np", "2", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", program)
    assert "the arguments of Training" in finished.stderr and "24 samples, shuffled" in finished.stderr
    assert finished.returncode != 0


def test_training_goes_back_to_a_checkpoint_within_the_loop():
    run_ready(
        2,
        """
        import copy, torch, hora.torch as hvd
        hvd.init()
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = hvd.elastic.Training(model, optimizer, torch.ones(24, 1), batch=8, microbatch=2)
        saved, steps = [], []
        for epoch in training.epochs(2):
            for x in training.batches():
                training.backward(model(x).mean())
                if training.step():
                    steps.append((training.progress.epoch, training.progress.place))
                    if len(steps) == 2:
                        saved.append(copy.deepcopy(training.state_dict()))
                    if len(steps) in (3, 6):
                        training.load_state_dict(saved[0])
        assert steps == [(0, 8), (0, 16), (0, 24), (0, 24), (1, 8), (1, 16), (0, 24), (1, 8), (1, 16), (1, 24)], steps
        """,
    )


def test_an_exception_in_backward_costs_only_the_rank_that_has_it():
    program = """
import torch, hora.torch as hvd
hvd.init()
first = hvd.rank()

class Fails(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()
    @staticmethod
    def backward(context, gradient):
        if first == 1 and training.progress.steps == 3:
            raise MemoryError("out of memory")
        return gradient

model = torch.nn.Linear(1, 1)
training = hvd.elastic.Training(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(48, 1), batch=6, microbatch=2)
for epoch in training.epochs(1):
    for x in training.batches():
        training.backward(Fails.apply(model(x)).mean())
        training.step()
print("result", training.progress.steps, hvd.size())
"""
    finished = hrun("-np", "3", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", program)
    assert results(finished, 2) == [8, 2]
    assert "MemoryError: out of memory" in finished.stderr


def test_mistakes_are_named_with_their_remedy():
    run_ready(
        1,
        """
        import torch, hora.torch as hvd
        from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
        hvd.init()
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = [torch.ones(1)] * 10

        def error_of(kind, make):
            try:
                make()
            except kind as error:
                return str(error)
            raise AssertionError("no error")

        def training(model=model, optimizer=optimizer, data=data, **more):
            return hvd.elastic.Training(model, optimizer, data, **{"batch": 4, "microbatch": 2, **more})

        sampled = DataLoader(data, sampler=DistributedSampler(data, 1, 0))
        part = DataLoader(data, sampler=RandomSampler(data, num_samples=3))
        lbfgs = torch.optim.LBFGS(model.parameters())
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        again = DataLoader(data, sampler=RandomSampler(data, replacement=True))
        synced = torch.nn.Sequential(torch.nn.Linear(1, 1), hvd.SyncBatchNorm(1))
        passes = hvd.DistributedOptimizer(torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1), backward_passes_per_step=2)
        for kind, arguments, said in [
            (hvd.HoraArgumentError, {"model": optimizer}, "model must be a torch.nn.Module, not SGD"),
            (hvd.HoraArgumentError, {"optimizer": model}, "expected an optimizer"),
            (hvd.HoraArgumentError, {"batch": 0}, "batch must be a number of samples from 1 up, not 0"),
            (hvd.HoraArgumentError, {"microbatch": 2.5}, "microbatch must be a number of samples from 1 up, not 2.5"),
            (hvd.HoraArgumentError, {"microbatch": None}, "microbatch= is missing"),
            (hvd.HoraArgumentError, {"data": []}, "data has no samples"),
            (hvd.HoraArgumentError, {"data": 3}, "data must be a data set, a DataLoader, or something to iterate over, not int"),
            (hvd.HoraUnsupportedError, {"data": sampled}, "a DistributedSampler of its own, and"),
            (hvd.HoraUnsupportedError, {"data": again}, "a RandomSampler of its own, and"),
            (hvd.HoraUnsupportedError, {"data": part}, "a RandomSampler of its own, and"),
            (hvd.HoraArgumentError, {"clip_norm": "a"}, "clip_norm must be a positive number, not 'a'"),
            (hvd.HoraArgumentError, {"optimizer": lbfgs, "clip_norm": 1.0}, "clip_norm= has no effect, as LBFGS changes"),
            (hvd.HoraArgumentError, {"scheduler": plateau}, "ReduceLROnPlateau needs a loss"),
            (hvd.HoraUnsupportedError, {"model": synced}, "'1' is a SyncBatchNorm"),
            (hvd.HoraArgumentError, {"optimizer": passes}, "backward_passes_per_step=2: leave it out"),
        ]:
            text = error_of(kind, lambda: training(**arguments))
            assert said in text, text

        def loop(training, body):
            for epoch in training.epochs(2):
                for x in training.batches():
                    body(training, x)

        both = "Each microbatch needs training.backward(loss), and then training.step()"
        once = "is called once for each microbatch of training.batches()"
        for body, said in [
            (lambda training, x: None, both),
            (lambda training, x: training.step(), both),
            (lambda training, x: [training.backward(model(x).sum()) for _ in range(2)], "backward() was called twice"),
            (lambda training, x: (training.backward(model(x).sum()), training.step(), training.step()), "step() " + once),
            (lambda training, x: training.retry(list), "retry() was called within a step"),
            (lambda training, x: training.attempt().__enter__(), "attempt() is for several optimizers"),
        ]:
            text = error_of(hvd.HoraUsageError, lambda: loop(training(), body))
            assert said in text, text
        text = error_of(hvd.HoraUsageError, lambda: training().step())
        assert "step() " + once in text, text
        text = error_of(hvd.HoraUsageError, lambda: loop(training(optimizer=lbfgs), lambda training, x: training.backward(model(x).sum())))
        assert "Each microbatch needs `with training.attempt():`" in text, text
        text = error_of(hvd.HoraArgumentError, lambda: loop(training(data=(each for each in data)), lambda training, x: (training.backward(model(x).sum()), training.step())))
        assert "data gave no samples in epoch 1: a generator can be read only once" in text, text
        few = DataLoader(data, batch_size=4, drop_last=True)
        text = error_of(hvd.HoraArgumentError, lambda: loop(training(data=few, batch=11), None))
        assert "epoch 0 has no step: data has fewer than 11 samples" in text, text
        with_scaler = training(scaler=torch.amp.GradScaler("cpu"))
        text = error_of(hvd.HoraArgumentError, lambda: with_scaler.load_state_dict(training().state_dict()))
        assert "the state has no scaler: Training was made with other arguments then" in text, text
        text = error_of(hvd.HoraArgumentError, lambda: training().load_state_dict(with_scaler.state_dict()))
        assert "the state has a scaler, and this Training has none: give it scaler=" in text, text
        """,
    )


def test_process_sets_lose_the_ranks_that_are_lost():
    program = """
import os, signal, torch, hora.torch as hvd
hvd.init()
first = hvd.rank()
three, one, two = (hvd.add_process_set(ranks) for ranks in ([0, 1, 3], [2], [1, 2, 3]))
state = hvd.elastic.TorchState(steps=0)

@hvd.elastic.run
def train(state):
    while state.steps < 4:
        if (first, state.steps) == (2, 2):
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(1), name="step")
        state.steps += 1
        state.commit()

train(state)
assert (three.ranks, one.ranks, two.ranks) == ([0, 1, 2], [], [1, 2]), (three, one, two)
assert one.size() is None and hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=three).item() == 3
if two.included():
    assert hvd.allreduce(torch.full((1,), float(first)), op=hvd.Sum, process_set=two).item() == 1 + 3
print("result", 1)
"""
    finished = hrun("-np", "4", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", program)
    assert results(finished, 3) == [1]


def test_process_sets_have_the_same_ranks_after_a_second_loss_within_the_first_change():
    """Rank 3 dies when its sets are registered. Rank 1 behaves as if it had not heard that of its own."""
    program = """
import os, signal, torch, hora.torch as hvd
from hora import process_sets as sets
hvd.init()
first = hvd.rank()
even, odd = hvd.add_process_set([0, 2]), hvd.add_process_set([1, 3])
follow, calls = sets.follow, []

def follow_and_fail(*arguments):
    follow(*arguments)
    calls.append(1)
    if len(calls) == 1 and first == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if len(calls) == 1 and first == 1:
        while True:
            hvd.allreduce(torch.ones(1), name="rank 3 does not come")

sets.follow = follow_and_fail
model = torch.nn.Linear(1, 1)
training = hvd.elastic.Training(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(64, 1), batch=8, microbatch=2)
for epoch in training.epochs(1):
    for x in training.batches():
        if first == 0 and training.progress.steps == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        training.backward(model(x).mean())
        training.step()
print("result", training.progress.steps, *even.ranks, *odd.ranks)
"""
    finished = hrun("-np", "4", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", program)
    assert results(finished, 2) == [8, 1, 0]


def test_a_backward_pass_ends_when_the_ranks_change():
    """Nobody computes gradients for a step that cannot count."""
    program = """
import os, signal, time, torch, hora, hora.torch as hvd
hvd.init()
first = hvd.rank()
pids = hvd.allgather_object(os.getpid())
called = []

class Marked(torch.autograd.Function):
    @staticmethod
    def forward(context, x, name):
        context.name = name
        return x.clone()
    @staticmethod
    def backward(context, gradient):
        called.append(context.name)
        if context.name == "last" and training.progress.steps == 1 and hvd.size() == 2:
            if first == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            while not hora._job.runtime().generation_has_ended:
                time.sleep(0.001)
        return gradient, None

layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
training = hvd.elastic.Training(layers, torch.optim.SGD(layers.parameters(), lr=0.1), torch.ones(12, 4), batch=4, microbatch=2)
for epoch in training.epochs(1):
    for x in training.batches():
        y = Marked.apply(layers[0](x), "first")
        training.backward(Marked.apply(layers[1](y), "last").square().mean())
        training.step()
print("called", training.progress.steps, *called)
"""
    finished = hrun("-np", "2", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", program)
    expected = ["last", "first", "last", *["last", "first"] * 4]
    assert finished.stdout.split("called ")[1].split() == ["3", *expected], finished.stderr


def test_ranks_keep_the_kinds_of_gradients_and_tell_those_that_join():
    """The first step of a generation reduces gradients as any other one does."""
    program = """
import os, signal, torch, hora, hora.torch as hvd
from hora.torch._optimizer import reducer
exchanges = []

class Counted(reducer.KindExchange):
    def __init__(self, slots, *rest):
        exchanges.append(len(slots))
        super().__init__(slots, *rest)

reducer.KindExchange = Counted
hvd.init()
started_as, late = hvd.rank(), hora._job.is_alone()
model = torch.nn.Sequential(torch.nn.Embedding(8, 4, sparse=True), torch.nn.Linear(4, 1))
training = hvd.elastic.Training(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.arange(64) % 8, batch=8, microbatch=4)
for epoch in training.epochs(1):
    for x in training.batches():
        training.backward(model(x).square().mean())
        if training.step() and training.progress.steps == 2 and started_as == 1 and not late:
            os.kill(os.getpid(), signal.SIGKILL)
        while training.progress.steps == 4 and hvd.size() == 1 and not hora._job.runtime().change_is_due:
            training.retry(lambda: None)
print("result", training.progress.steps, hvd.size(), sum(exchanges) - 3 * (not late))
"""
    finished = hrun("-np", "2", "--min-np", "1", *ready_python(), "-c", program)
    assert results(finished, 2) == [8, 2, 0]
