# SPDX-License-Identifier: Apache-2.0
"""The libraries that are compared from Python, behind one face."""

import abc
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Finish = Callable[[], None]


class Library(abc.ABC):
    """A job's ranks, connected. Sums in place of float32 tensors on the CPU."""

    rank: int
    size: int

    def __init__(self) -> None:
        torch.set_num_threads(1)

    @abc.abstractmethod
    def barrier(self) -> None: ...

    @abc.abstractmethod
    def start(self, name: str, tensor: torch.Tensor) -> Finish:
        """Begins a sum; the returned function waits for its end."""

    @abc.abstractmethod
    def reduce_halves(self, name: str, tensor: torch.Tensor) -> None:
        """A sum for which float16 travels."""

    def reduce_blocks(self, name: str, tensor: torch.Tensor) -> None:
        """A sum for which block-scaled floats of 8 bits travel, where there are any."""
        raise NotImplementedError

    @abc.abstractmethod
    def broadcast(self, model: nn.Module) -> None:
        """Gives all ranks the parameters of rank 0."""

    @abc.abstractmethod
    def wrapped(self, model: nn.Module, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer, Finish]:
        """The model to call, the optimizer to step with, and what waits for the gradients after
        backward()."""

    def lists(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Tensors as large as these, where this library reduces them fastest."""
        return tensors

    @abc.abstractmethod
    def close(self) -> None: ...

    def reduce(self, name: str, tensor: torch.Tensor) -> None:
        self.start(name, tensor)()


def plain_sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-3)


class Alone(Library):
    """Ranks that do not know of each other: the cost of computing by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.rank, self.size = int(os.environ["RANK"]), 1

    def barrier(self) -> None:
        pass

    def start(self, name: str, tensor: torch.Tensor) -> Finish:
        return lambda: None

    def reduce_halves(self, name: str, tensor: torch.Tensor) -> None:
        pass

    def broadcast(self, model: nn.Module) -> None:
        pass

    def wrapped(self, model: nn.Module, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer, Finish]:
        return model, plain_sgd(model), lambda: None

    def close(self) -> None:
        pass


class Horovod(Library):
    """Horovod, or what has its names."""

    def __init__(self) -> None:
        super().__init__()
        self._hvd = self.module()
        self._hvd.init()
        self.rank, self.size = self._hvd.rank(), self._hvd.size()

    def module(self) -> Any:
        import horovod.torch

        return horovod.torch

    def barrier(self) -> None:
        self._hvd.barrier()

    def start(self, name: str, tensor: torch.Tensor) -> Finish:
        handle = self._hvd.allreduce_async_(tensor, name=name, op=self._hvd.Sum)
        return lambda: self._hvd.synchronize(handle)

    def reduce_halves(self, name: str, tensor: torch.Tensor) -> None:
        tensor.copy_(
            self._hvd.allreduce(tensor, name=name, op=self._hvd.Sum, compression=self._hvd.Compression.fp16)
        )

    def broadcast(self, model: nn.Module) -> None:
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    def wrapped(self, model: nn.Module, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer, Finish]:
        optimizer = self._hvd.DistributedOptimizer(
            plain_sgd(model), named_parameters=model.named_parameters()
        )
        return model, optimizer, optimizer.synchronize

    def close(self) -> None:
        self._hvd.shutdown()


class Hora(Horovod):
    def module(self) -> Any:
        import hora.torch

        return hora.torch

    def reduce_halves(self, name: str, tensor: torch.Tensor) -> None:
        handle = self._hvd.allreduce_async_(
            tensor, name=name, op=self._hvd.Sum, compression=self._hvd.Compression.fp16
        )
        self._hvd.synchronize(handle)

    def reduce_blocks(self, name: str, tensor: torch.Tensor) -> None:
        import hora.torch

        handle = hora.torch.allreduce_async_(
            tensor, name=name, op=hora.torch.Sum, compression=hora.torch.Compression.mxfp8_e4m3
        )
        hora.torch.synchronize(handle)

    def lists(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Where DistributedOptimizer puts gradients."""
        from hora import _job

        memories = [_job.runtime().allocate(tensor.nbytes, None) for tensor in tensors]
        return [torch.frombuffer(memory, dtype=torch.float32) for memory in memories]


class Gloo(Library):
    """A backend of torch.distributed."""

    def __init__(self, backend: str = "gloo") -> None:
        super().__init__()
        import torch.distributed

        self._dist = torch.distributed
        self._dist.init_process_group(backend)
        self.rank, self.size = self._dist.get_rank(), self._dist.get_world_size()

    def barrier(self) -> None:
        self._dist.barrier()

    def start(self, name: str, tensor: torch.Tensor) -> Finish:
        under_way = self._dist.all_reduce(tensor, async_op=True)
        return under_way.wait  # type: ignore[no-any-return]

    def reduce(self, name: str, tensor: torch.Tensor) -> None:
        self._dist.all_reduce(tensor)

    def reduce_halves(self, name: str, tensor: torch.Tensor) -> None:
        """Reduces as DDP's hook for float16 does."""
        halves = tensor.to(torch.float16)
        self._dist.all_reduce(halves)
        tensor.copy_(halves)

    def broadcast(self, model: nn.Module) -> None:
        """The broadcast that DistributedDataParallel begins with."""
        nn.parallel.DistributedDataParallel(model)

    def wrapped(self, model: nn.Module, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer, Finish]:
        if options.pop("fully_shard", False):
            self._shard(model)
            return model, plain_sgd(model), lambda: None
        hook = options.pop("hook", False)
        parallel = nn.parallel.DistributedDataParallel(model, **options)
        if hook:
            from hora.torch.distributed import ddp_hook

            parallel.register_comm_hook(parallel, ddp_hook)
        return parallel, plain_sgd(model), lambda: None

    def _shard(self, model: nn.Module) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (self.size,))
        for layer in model.children():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)

    def close(self) -> None:
        self._dist.destroy_process_group()


class HoraInTorch(Gloo):
    """Hora as a backend of torch.distributed."""

    def __init__(self) -> None:
        import hora.torch.distributed  # noqa: F401 - registers the backend

        super().__init__("hora")


LIBRARIES: dict[str, Callable[[], Library]] = {
    "none": Alone,
    "hora": Hora,
    "hora c10d": HoraInTorch,
    "horovod": Horovod,
    "gloo": Gloo,
}
