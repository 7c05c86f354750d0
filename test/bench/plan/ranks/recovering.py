# SPDX-License-Identifier: Apache-2.0
"""One rank of a training in which ranks are killed: recovering.py LIBRARY FOLDER MEBIBYTES SECONDS

It writes a line for each step that counts, FOLDER/<pid>: the nanoseconds of the clock that all processes of a
machine share, the number of the step, and the number of ranks. The model has 25 parameters of MEBIBYTES in
all; SECONDS of CPU time stand for its layers. It trains until somebody ends it.
"""

import datetime
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

PARAMETERS = 25
SAMPLES = 1 << 40  # as good as without an end
BATCH = 12


class Model(torch.nn.Module):
    def __init__(self, mebibytes: float, seconds: float) -> None:
        super().__init__()
        size = int(mebibytes * (1 << 20) / 4 / PARAMETERS)
        self.parts = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.zeros(size)) for _ in range(PARAMETERS)]
        )
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass
        return torch.stack([part.sum() for part in self.parts]).sum() * x.mean() * 1e-6


class Ones(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(1)


Count = Callable[[int, int], None]  # a step counts: its number, and the number of ranks
Train = Callable[[Model, torch.optim.Optimizer, pathlib.Path, Count], None]


def hora_training(model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path, count: Count) -> None:
    import hora.torch as hvd

    hvd.init()
    training = hvd.elastic.Training(
        model, optimizer, Ones(), batch=BATCH, microbatch=BATCH // 4, shuffle=False
    )
    for _ in training.epochs(1):
        for x in training.batches():
            training.backward(model(x))
            ranks = hvd.size()
            if training.step():
                count(training.progress.steps, ranks)


def checkpoint_each_step(
    model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path, count: Count
) -> None:
    """DistributedDataParallel over Gloo. torchrun starts all ranks again, which go on from the checkpoint."""
    torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    path = folder / "checkpoint"
    steps = 0
    if path.exists():
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        steps = saved["steps"]
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    x = torch.ones(BATCH // ranks, 1)
    while True:
        optimizer.zero_grad()
        parallel(x).backward()
        optimizer.step()
        steps += 1
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps}
            torch.save(state, path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)
        torch.distributed.barrier()
        count(steps, ranks)


def replica_groups(
    model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path, count: Count
) -> None:
    """torchft: each rank is a replica group of one process. The gradients are reduced without its
    DistributedDataParallel, whose hook fails an assertion after the loss of a rank (0.2.0, PyTorch 2.11)."""
    import torchft

    def load(state: dict[str, dict[str, Any]]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=datetime.timedelta(seconds=10)),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=1,
        timeout=datetime.timedelta(seconds=10),
        replica_id=os.environ["REPLICA_GROUP"],
    )
    managed = torchft.Optimizer(manager, optimizer)
    while True:
        before = manager.current_step()
        managed.zero_grad()
        ranks = manager.num_participants()
        model(torch.ones(BATCH // max(ranks, 1), 1)).backward()
        for work in [manager.allreduce(part.grad) for part in model.parts]:
            work.wait()
        managed.step()
        if manager.current_step() > before:
            count(manager.current_step(), manager.num_participants())


def horovod_elastic(
    model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path, count: Count
) -> None:
    """Horovod commits each step to memory, and all ranks go on from the last one."""
    import horovod.torch as hvd

    hvd.init()
    distributed = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def train(state: Any) -> None:
        while True:
            distributed.zero_grad()
            model(torch.ones(BATCH // hvd.size(), 1)).backward()
            distributed.step()
            state.steps += 1
            state.commit()
            count(state.steps, hvd.size())

    train(hvd.elastic.TorchState(model=model, optimizer=distributed, steps=0))


class Remaining:
    """The ranks that are left, in a group of Gloo that PyTorch reconfigures (2.15).

    PyTorch does not tell who is left: FOLDER/ended<rank> does (trainings.py). Operations with ranks that still
    live end only at their timeout, so each rank looks for those files while it waits.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._first = int(os.environ["RANK"])  # its rank at the start, as those below
        self._left = list(range(int(os.environ["WORLD_SIZE"])))
        self._store = torch.distributed.FileStore(str(folder / "store"), len(self._left))
        self._group: Any = torch.distributed
        self._group.init_process_group(
            "gloo",
            store=self._store,
            rank=self._first,
            world_size=len(self._left),
            timeout=datetime.timedelta(seconds=10),
            enable_reconfigure=True,
        )
        self._meetings = 0
        self._meet()

    def size(self) -> int:
        return len(self._left)

    def sums(self, tensors: list[torch.Tensor]) -> bool:
        """Adds tensors up; False if a rank is lost. No operation is referred to after that: each keeps its
        connections open, and so the other ranks waiting."""
        try:
            for work in [torch.distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
                while not work.is_completed():
                    if self._ended():
                        return False
                    time.sleep(0.001)
                work.wait()
        except RuntimeError:
            return False
        return True

    def leave_out_the_lost(self) -> None:
        while not (ended := self._ended()):
            time.sleep(0.001)
        self._left = [rank for rank in self._left if rank not in ended]
        self._meet()

    def last_step(self, model: Model, steps: int) -> int:
        """The last step that a rank has made; all get its parameters if some have not made it."""
        made = [torch.zeros(1, dtype=torch.int64) for _ in self._left]
        torch.distributed.all_gather(made, torch.tensor([steps]))
        last = max(made)
        if min(made) < last:
            for part in model.parts:
                self._group.broadcast(part.data, group_src=made.index(last))
        return int(last)

    def _ended(self) -> list[int]:
        return [rank for rank in self._left if (self._folder / f"ended{rank}").exists()]

    def _meet(self) -> None:
        self._meetings += 1
        self._store.set(f"{self._meetings} {self._first}", self._group._get_reconfigure_handle())
        handles = [self._store.get(f"{self._meetings} {rank}").decode() for rank in self._left]
        self._group._reconfigure(self._meetings, handles).wait()


def reconfigured_gloo(
    model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path, count: Count
) -> None:
    """The ranks that are left reconfigure their group and go on."""
    remaining = Remaining(folder)
    steps = 0
    while True:
        optimizer.zero_grad()
        ranks = remaining.size()
        (model(torch.ones(BATCH // ranks, 1)) / ranks).backward()
        if remaining.sums([part.grad for part in model.parts]):
            optimizer.step()
            steps += 1
            count(steps, ranks)
        else:
            remaining.leave_out_the_lost()
            steps = remaining.last_step(model, steps)


TRAININGS: dict[str, Train] = {
    "hora": hora_training,
    "checkpoint": checkpoint_each_step,
    "torchft": replica_groups,
    "horovod": horovod_elastic,
    "reconfigured": reconfigured_gloo,
}


def main() -> None:
    library, folder, mebibytes, seconds = sys.argv[1:]
    torch.set_num_threads(1)
    model = Model(float(mebibytes), float(seconds))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    place = pathlib.Path(folder)
    with (place / str(os.getpid())).open("w", buffering=1) as file:

        def count(step: int, ranks: int) -> None:
            print(time.monotonic_ns(), step, ranks, file=file)

        TRAININGS[library](model, optimizer, place, count)


if __name__ == "__main__":
    main()
