# SPDX-License-Identifier: Apache-2.0
"""Ray Train on Hora: the workers of a TorchTrainer are the ranks of a job.

    from hora.ray import HoraConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(train, torch_config=HoraConfig(), scaling_config=ScalingConfig(num_workers=4)).fit()

In `train`, the functions of `hora` and `hora.torch` work as under hrun. So do torch.distributed and DDP,
whose process group is of the backend "hora". It needs the package `ray[train]`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import ray
from ray.train.torch import TorchConfig
from ray.train.torch.config import _TorchBackend

from hora import _membership
from hora._ending import described
from hora._native import JobListener
from hora.torch.distributed import meeting

__all__ = ["HoraConfig"]


@dataclasses.dataclass
class HoraConfig(TorchConfig):  # type: ignore[misc]
    """Makes the workers of a TorchTrainer the ranks of a job, before the training function begins.

    These differ from `TorchConfig(backend="hora")`:

    - If the training function raises an exception on a worker, the operations of all others fail at once, and
      the text says which worker and which exception. They do not wait until Ray ends them.
    - Ray itself brings the secret of the job to the workers. PyTorch's store, which others can read, does
      not have it.

    Args:
        backend: "hora".
        init_method, timeout_s: as TorchConfig has them.

    Raises, by `fit`:
        ray.train.ControllerError: workers did not come within HORA_START_TIMEOUT seconds; it names them.
    """

    backend: str = "hora"

    @property
    def backend_cls(self) -> type[_HoraBackend]:
        """Ray asks for it."""
        return _HoraBackend

    @property
    def train_func_context(self) -> Callable[[], contextlib.AbstractContextManager[None]]:
        """Ray calls the training function within it."""
        around: Callable[[], contextlib.AbstractContextManager[None]] = super().train_func_context

        @contextlib.contextmanager
        def training() -> Iterator[None]:
            with around():
                try:
                    yield
                except BaseException as error:
                    _membership.leave(described(error))
                    raise

        return training


class _HoraBackend(_TorchBackend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: HoraConfig) -> None:
        """Ray has started the workers."""
        address = worker_group.execute_single(0, _listen)
        size = len(worker_group)
        joining = [
            worker_group.execute_single_async(rank, _join, rank, size, address) for rank in range(size)
        ]
        ray.get(joining)
        super().on_start(worker_group, backend_config)

    def on_shutdown(self, worker_group: Any, backend_config: HoraConfig) -> None:
        """Ray ends the workers."""
        super().on_shutdown(worker_group, backend_config)
        with contextlib.suppress(ray.exceptions.GetTimeoutError):  # Ray ends those that stand still
            ray.get(worker_group.execute_async(_membership.shutdown), timeout=_LONGEST_END)


_LONGEST_END = 10  # seconds

_listeners: list[JobListener] = []  # of the worker with rank 0, until it joins


def _listen() -> str:
    _listeners[:] = [JobListener()]
    return meeting.address_of(_listeners[0])


def _join(rank: int, size: int, address: str) -> None:
    meeting.enter(rank, size, _listeners.pop() if rank == 0 else None, address)
