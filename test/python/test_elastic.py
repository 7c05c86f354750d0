# SPDX-License-Identifier: Apache-2.0
"""hora.elastic and hora.torch.elastic: state that is taken back, and training that goes on from it."""

import pytest
from ranks import hrun
from ready_ranks import ready_python, run_ready

TRAIN = """
import os, sys, torch, hora.torch as hvd
how = sys.argv[1]
hvd.init()
rank = hvd.rank()
model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.constant_(model.weight, rank + 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5), named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, epoch=0, seen=[])
resets = []
state.register_reset_callbacks([lambda: resets.append(("first", state.epoch)), lambda: resets.append(("second", hvd.size()))])
failures = ["one"]

@hvd.elastic.run
def train(state, epochs):
    while state.epoch < epochs:
        optimizer.zero_grad()
        model(torch.full((1, 2), rank + 1.0)).sum().backward()
        optimizer.step()
        state.seen.append(state.epoch)
        if state.epoch == 2 and failures:
            failures.pop()
            if how == "mismatch":
                hvd.allreduce(torch.ones(3 + rank), name="bad")
            elif rank == 1:
                if how == "own":
                    raise hvd.HoraInternalError("of my own")
                if how == "raise":
                    raise KeyError("no such thing")
                os._exit(3)
            hvd.allreduce(torch.ones(3), name="after")
        state.epoch += 1
        state.commit()
    return "trained"

print(train(state, 5))
"""


@pytest.mark.parametrize("how", ["mismatch", "own"])
def test_training_goes_on_from_the_last_commit_after_an_error_that_all_ranks_meet(how: str):
    lines = run_ready(
        3,
        TRAIN
        + """
assert state.seen == [0, 1, 2, 3, 4], state.seen
assert resets == [("first", 2), ("second", 3)], resets
# One process, the same five steps from rank 0's weights: gradients of x = 1, 2, 3 are averaged.
weight, speed = torch.full((1, 2), 1.0), torch.zeros(1, 2)
for step in range(5):
    speed = speed * 0.5 + 2.0
    weight = weight - 0.5 * speed
assert torch.equal(model.weight, weight), (model.weight, weight)
""",
        how,
    )
    assert lines == [["trained"]] * 3


@pytest.mark.parametrize(
    ("how", "first"), [("die", "it exited with code 3"), ("raise", "KeyError: 'no such thing'")]
)
def test_a_rank_that_is_gone_is_named_and_ends_the_job(how: str, first: str):
    result = hrun("-np", "2", *ready_python(), "-c", TRAIN, how, seconds=60)
    assert result.returncode != 0
    assert first in result.stderr
    assert (
        "[0] hora._errors.HoraInternalError: the job cannot be joined again: rank 1 (process "
        in result.stderr
    ), result.stderr
    assert "trained" not in result.stdout


SURVIVE = """
import os, signal, sys, torch, hora.torch as hvd
lost, ranks = map(int, sys.argv[1:])
hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
dataset = torch.utils.data.TensorDataset(torch.arange(240.0).reshape(60, 4) / 240)
sampler = hvd.elastic.ElasticSampler(dataset)
loader = torch.utils.data.DataLoader(dataset, batch_size=5, sampler=sampler)
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0)
started_as = int(os.environ["HORA_MEMBER_ID"]) - 1

@hvd.elastic.run
def train(state):
    while state.epoch < 4:
        while state.epoch == 2 and hvd.size() < ranks:
            state.commit()
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            if (state.epoch, state.batch, started_as) == (1, 2, lost):
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
            sampler.record_batch(state.batch, 5)
            state.batch += 1
            state.commit()
        state.epoch += 1
        state.batch = 0
        sampler.set_epoch(state.epoch)
        state.commit()

train(state)
assert hvd.size() == ranks, hvd.size()
hvd.check_replicas(model)
weights = hvd.allgather(torch.cat([each.detach().flatten() for each in model.parameters()])[None])
assert torch.equal(weights[0], weights[1])
print("trained", state.epoch)
"""


@pytest.mark.parametrize("lost", [0, 1])
def test_a_process_that_replaces_a_killed_one_joins_at_a_commit(lost: int):
    result = hrun("-np", "2", "--min-np", "1", *ready_python(), "-c", SURVIVE, str(lost), "2", seconds=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("trained 4") == 2
    assert ") has joined; the job goes on with 2 of 2 ranks (generation 3)" in result.stderr


@pytest.mark.parametrize("lost", [0, 2])
def test_training_goes_on_without_a_rank_that_is_killed(lost: int):
    result = hrun(
        "-np",
        "3",
        "--min-np",
        "2",
        "--max-replacements",
        "0",
        *ready_python(),
        "-c",
        SURVIVE,
        str(lost),
        "2",
        seconds=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("trained 4") == 2
    assert f"rank {lost} (pid " in result.stderr
    assert (
        "was killed by signal 9 (Killed); the job goes on with 2 of 3 ranks (generation 2)" in result.stderr
    )


def test_a_program_that_does_not_go_on_is_told_how_to():
    program = """
import os, signal, torch, hora.torch as hvd
hvd.init()
hvd.allreduce(torch.ones(1))
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    hvd.allreduce(torch.ones(1))
"""
    result = hrun(
        "-np", "2", "--min-np", "1", "--max-replacements", "0", *ready_python(), "-c", program, seconds=60
    )
    assert result.returncode != 0
    assert "HoraRanksChangedError: " in result.stderr
    assert "; hora.elastic.run goes on with the other ranks" in result.stderr


@pytest.mark.parametrize("how", ["mismatch", "own"])
def test_an_elastic_job_goes_on_with_all_ranks_after_an_error_that_all_meet(how: str):
    result = hrun(
        "-np", "3", "--min-np", "2", "--max-replacements", "0", *ready_python(), "-c", TRAIN, how, seconds=60
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("trained") == 3


def test_states_hold_what_is_handed_to_them():
    run_ready(
        2,
        """
        import copy, torch, hora, hora.torch as hvd
        from hora.elastic import HostsUpdatedInterrupt, HostUpdateResult, ObjectState, State, notification_manager
        from hora.torch.elastic.state import StateHandler, TorchState, get_handler_registry, set_handler_registry
        hvd.init()
        rank = hvd.rank()

        # Python objects: containers come back as they were saved, and everyone gets rank 0's.
        state = ObjectState(hvd.broadcast_object, hvd.rank, epoch=rank, log={"a": [rank]}, none=None)
        state.log["a"].append(9); state.epoch = 7
        state.restore()
        assert (state.epoch, state.log, state.none) == (rank, {"a": [rank]}, None)
        state.epoch = 10 + rank
        state.sync()
        assert (state.epoch, state.log) == (10, {"a": [0]})

        # Modules, optimizers and samplers; several of a kind; attributes that are assigned anew.
        first, second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
        optimizer = torch.optim.Adam(first.parameters(), lr=0.1 * (rank + 1))
        sampler = hvd.elastic.ElasticSampler(range(10))
        state = TorchState(model=first, optimizer=optimizer, second=second, sampler=sampler, batch=3)
        assert state.model is first and state.second is second and state.sampler is sampler and state.batch == 3
        saved = copy.deepcopy(first.state_dict())
        first(torch.ones(1, 1)).sum().backward(); optimizer.step()
        sampler.record_batch(0, 2); state.batch = 4
        state.restore()
        assert all(torch.equal(first.state_dict()[key], saved[key]) for key in saved)
        assert optimizer.state_dict()["state"] == {} and sampler.processed_num == 0 and state.batch == 3
        sampler.record_batch(0, 1 + rank)
        state.sync()
        weights = hvd.allgather_object((first.weight.item(), second.bias.item(), optimizer.param_groups[0]["lr"], sampler.state_dict()))
        assert weights[0] == weights[1] and weights[0][3] == {"epoch": 0, "processed_num": 2}, weights
        third = torch.nn.Linear(1, 1)
        state.model = third
        assert state.model is third
        with torch.no_grad(): third.weight.zero_()
        state.restore()
        assert third.weight.item() != 0
        try:
            state.nothing
        except AttributeError as error:
            assert "nothing" in str(error)
        else:
            raise AssertionError
        empty = TorchState(epoch=1)
        assert empty.model is None and empty.optimizer is None

        # A handler of one's own.
        class Counter:
            value = 0
        class CounterHandler(StateHandler):
            def save(self): self.saved = self.value.value
            def restore(self): self.value.value = self.saved
            def sync(self): self.value.value = hvd.broadcast_object(self.value.value, 0)
        set_handler_registry([*get_handler_registry(), (Counter, CounterHandler)])
        counter = Counter()
        state = TorchState(counter=counter)
        state.save(); counter.value = 5 + rank; state.sync()
        assert counter.value == 5
        state.restore()
        assert counter.value == 0

        # News of hosts that rank 0 has heard interrupts all; the newest news count, and their kinds together.
        state = ObjectState(hvd.broadcast_object, hvd.rank, epoch=0)
        state.check_host_updates()
        def interrupted(*news):
            for timestamp, kind in news:
                if rank == 0: state.on_hosts_updated(timestamp, kind)
            try:
                state.commit()
            except HostsUpdatedInterrupt as interrupt:
                return interrupt.skip_sync
        assert interrupted((1, HostUpdateResult.removed)) is True
        assert interrupted((1, HostUpdateResult.added)) is None
        assert interrupted((2, HostUpdateResult.removed), (3, HostUpdateResult.added)) is False

        # An interrupted function is called again, in the same job joined anew.
        calls = []
        @hvd.elastic.run
        def work(state, word, *, times):
            calls.append(word * times)
            if len(calls) == 1:
                if rank == 0: notification_manager.notify(4, HostUpdateResult.added)
                state.commit()
            return hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
        assert work(state, "x", times=2) == 2 and calls == ["xx", "xx"]

        # A GPU may write to the state until the job has been joined again: it is taken back after that.
        told = []
        state.restore = lambda: told.append("restore")
        state.on_reset = lambda: told.append("on_reset")
        def fails_once(state):
            if not told: raise hvd.HoraInternalError("an allreduce has failed")
        hora.elastic.run_fn(fails_once, lambda: told.append("reset"))(state)
        assert told == ["reset", "restore", "on_reset"]
    """,
    )


def test_a_sampler_leaves_out_what_was_processed_and_gives_all_ranks_equally_much():
    run_ready(
        3,
        """
        import random, torch, hora.torch as hvd
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        for length in (0, 1, 2, 3, 10, 13):
            for shuffle in (False, True):
                sampler = hvd.elastic.ElasticSampler(range(length), shuffle=shuffle, seed=4)
                order = list(range(length))
                if shuffle: random.Random(4).shuffle(order)
                mine = list(sampler)
                assert len(mine) == len(sampler) == -(-length // size)
                parts = hvd.allgather_object(mine)
                given = [parts[place % size][place // size] for place in range(len(mine) * size)]
                assert given[:length] == order and set(given) == set(order), (length, given)

        sampler = hvd.elastic.ElasticSampler(range(13), seed=4)
        order = list(range(13)); random.Random(4).shuffle(order)
        for number, batch in enumerate(torch.utils.data.DataLoader(list(range(13)), sampler=sampler, batch_size=2)):
            if number == 2: break
            sampler.record_batch(number, len(batch))
        assert sampler.state_dict() == {"epoch": 0, "processed_num": 12}
        again = hvd.elastic.ElasticSampler(range(13), seed=4)
        again.load_state_dict(sampler.state_dict())
        assert again.remaining_indices == order[12:] and list(again) == order[12:]
        again.set_epoch(1)
        order = list(range(13)); random.Random(5).shuffle(order)
        assert again.processed_num == 0 and again.remaining_indices == order and again.epoch == 1
    """,
    )
