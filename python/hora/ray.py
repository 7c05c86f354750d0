# SPDX-License-Identifier: Apache-2.0
"""A backend of Ray Train: its workers are the ranks of a job.

    from hora.ray import HoraConfig
    from ray.train.data_parallel_trainer import DataParallelTrainer

    DataParallelTrainer(train, backend_config=HoraConfig(), scaling_config=ScalingConfig(num_workers=4)).fit()

In `train` the functions of `hora`, `hora.torch` and others work as under hrun. For DDP and other programs of
torch.distributed there is Ray's own `TorchConfig(backend="hora")`. It needs the package `ray[train]`.
"""

from __future__ import annotations

import types
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from hora import _membership
from hora._native import JobListener

__all__ = ["HoraConfig"]


class HoraConfig(BackendConfig):  # type: ignore[misc]
    """Makes the workers of a trainer the ranks of a job, before the training function begins.

    If a worker dies, the operations of all others fail, and the text says which one has. If the training
    function raises an exception on one worker, they fail with that exception's text, and do not wait for Ray
    to end them. With GPUs, each worker sees all of those that the job has on its host:
    `torch.cuda.set_device(hora.local_rank())`.

    Raises, when the training begins:
        HoraTimeoutError: workers did not come within HORA_START_TIMEOUT seconds; it names them.
    """

    @property
    def backend_cls(self) -> type[Backend]:
        """Ray asks for it."""
        return _HoraBackend

    @property
    def train_func_context(self) -> type[_Training]:
        """Ray calls the training function within it."""
        return _Training


class _HoraBackend(Backend):  # type: ignore[misc]
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: HoraConfig) -> None:
        """Ray has started the workers."""
        coordinator, secret = worker_group.execute_single(0, _listen)
        size = len(worker_group)
        joining = [
            worker_group.execute_single_async(rank, _join, rank, size, coordinator, secret)
            for rank in range(size)
        ]
        ray.get(joining)

    def on_shutdown(self, worker_group: Any, backend_config: HoraConfig) -> None:
        """Ray ends the workers."""
        worker_group.execute(_membership.shutdown)


class _Training:
    """The training function runs within it."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if kind is not None:
            _membership.leave(f"{kind.__name__}: {error}")


_listeners: list[JobListener] = []  # of the worker with rank 0, until it joins


def _listen() -> tuple[str, bytes]:
    _listeners[:] = [JobListener()]
    return _listeners[0].coordinator, _listeners[0].secret


def _join(rank: int, size: int, coordinator: str, secret: bytes) -> None:
    if rank == 0:
        _membership.init(rank=rank, size=size, listener=_listeners.pop())
    else:
        _membership.init(rank=rank, size=size, coordinator=coordinator, secret=secret)
