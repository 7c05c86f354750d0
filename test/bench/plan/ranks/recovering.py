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
from collections.abc import Callable, Iterator
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


Train = Callable[[Model, torch.optim.Optimizer, pathlib.Path], Iterator[tuple[int, int]]]


def hora_training(
    model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path
) -> Iterator[tuple[int, int]]:
    import hora.torch as hvd

    hvd.init()
    training = hvd.elastic.Training(
        model, optimizer, Ones(), batch=BATCH, microbatch=BATCH // 4, shuffle=False
    )
    for _ in training.epochs(1):
        for x in training.batches():
            training.backward(model(x))
            if training.step():
                yield training.progress.steps, hvd.size()


def checkpoint_each_step(
    model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path
) -> Iterator[tuple[int, int]]:
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
        yield steps, ranks


def replica_groups(
    model: Model, optimizer: torch.optim.Optimizer, folder: pathlib.Path
) -> Iterator[tuple[int, int]]:
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
            yield manager.current_step(), manager.num_participants()


TRAININGS: dict[str, Train] = {
    "hora": hora_training,
    "checkpoint": checkpoint_each_step,
    "torchft": replica_groups,
}


def main() -> None:
    library, folder, mebibytes, seconds = sys.argv[1:]
    torch.set_num_threads(1)
    model = Model(float(mebibytes), float(seconds))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    place = pathlib.Path(folder)
    with (place / str(os.getpid())).open("w", buffering=1) as file:
        for step, ranks in TRAININGS[library](model, optimizer, place):
            print(time.monotonic_ns(), step, ranks, file=file)


if __name__ == "__main__":
    main()
