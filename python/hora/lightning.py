# SPDX-License-Identifier: Apache-2.0
"""A strategy of Lightning's Trainer: `DistributedOptimizer` in the place of DDP.

    from hora.lightning import HoraStrategy

    trainer = lightning.Trainer(accelerator="cpu", devices=4, strategy=HoraStrategy())

It needs the package `lightning`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel

import hora.torch as hvd
from hora._errors import HoraArgumentError
from hora.torch._optimizer.parameters import Groups

__all__ = ["HoraStrategy"]


class HoraStrategy(DDPStrategy):  # type: ignore[misc]
    """Trains on several ranks as DDPStrategy does, with torch.distributed on Hora.

    With automatic optimization `hora.torch.DistributedOptimizer` reduces the gradients, and no
    DistributedDataParallel is around the module. With manual optimization DistributedDataParallel is.

    Gradient clipping, accumulation, precision, schedulers, checkpoints and all else are the Trainer's, as
    with DDPStrategy. These differ with automatic optimization:

    - A parameter that is not used needs no flag. It counts as zeros, or, if no rank uses it, has no gradient.
    - A parameter that is not in the optimizer gets the gradient of its own rank.
    - Buffers, such as the statistics of BatchNorm, are those of each rank while it trains. All ranks get
      those of rank 0 before validation and at the end, and checkpoints have those of rank 0.

    Args:
        compression: one of `hora.torch.Compression`: what gradients look like on the wire.
        groups: gradients that are reduced together, as for DistributedOptimizer.
        sparse_as_dense: whether sparse gradients are made dense to be reduced.
        options: the arguments of DDPStrategy. Those for DistributedDataParallel count with manual
            optimization alone.

    Raises:
        HoraArgumentError (a ValueError): `process_group_backend` is not "hora"; or, when a fit begins, as
            DistributedOptimizer.
        HoraInternalError (a RuntimeError), when a fit begins: the ranks' parameters differ in number, name,
            shape or dtype.
        RuntimeError, in a step: a rank has died, or the ranks disagree; the text says which and how.
    """

    optimizers: list[Any]  # Lightning's

    def __init__(
        self,
        *,
        compression: Any = hvd.Compression.none,
        groups: Groups = None,
        sparse_as_dense: bool = False,
        **options: Any,
    ) -> None:
        backend = options.setdefault("process_group_backend", "hora")
        if backend != "hora":
            raise HoraArgumentError(
                f"HoraStrategy: process_group_backend must be 'hora', not {backend!r}; use "
                "DDPStrategy for others"
            )
        super().__init__(**options)
        self._made: list[Any] = []  # of optimizers, those that reduce
        self._apart = contextlib.ExitStack()  # left by nobody
        self._optimizer_options = {
            "compression": compression,
            "groups": groups,
            "sparse_as_dense": sparse_as_dense,
        }

    def setup_environment(self) -> None:
        """Lightning calls it to make the process group."""
        super().setup_environment()
        if (backend := dist.get_backend()) != "hora":
            raise HoraArgumentError(
                f"HoraStrategy: there is a process group of the backend '{backend}' already; make it "
                "of 'hora', or leave it to the strategy"
            )

    def configure_ddp(self) -> None:
        """Lightning calls it before the optimizers are made. All ranks get the parameters of rank 0."""
        if self.lightning_module.automatic_optimization:
            model = self.lightning_module
            hvd.broadcast_parameters([*model.named_parameters(), *model.named_buffers()], 0)
        else:
            super().configure_ddp()

    def setup_optimizers(self, trainer: Any) -> None:
        """Lightning calls it to make the optimizers."""
        super().setup_optimizers(trainer)
        if self.lightning_module.automatic_optimization:
            self._made = []
            self.optimizers = [self._distributed(optimizer) for optimizer in self.optimizers]

    def _distributed(self, optimizer: Any) -> Any:
        own = {id(parameter) for parameter in self.lightning_module.parameters()}
        if not any(id(each) in own for group in optimizer.param_groups for each in group["params"]):
            return optimizer  # Lightning's stand-in for none
        made = hvd.DistributedOptimizer(
            optimizer,
            named_parameters=self.lightning_module.named_parameters(),
            **self._optimizer_options,
        )
        self._made.append(made)
        return made

    def teardown(self) -> None:
        """Lightning calls it at the end. From now on no backward() on one rank waits for others."""
        for optimizer in self._made:
            self._apart.enter_context(optimizer.no_sync())
        super().teardown()

    @contextlib.contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Within it, gradients add up on this rank: Lightning accumulates them so."""
        with contextlib.ExitStack() as stack:
            if isinstance(self.model, DistributedDataParallel):
                stack.enter_context(self.model.no_sync())
            else:
                for optimizer in self._made:
                    stack.enter_context(optimizer.no_sync())
            yield

    def on_validation_start(self) -> None:
        """All ranks get the buffers of rank 0."""
        super().on_validation_start()
        self._share_buffers()

    def on_train_end(self) -> None:
        """All ranks get the buffers of rank 0."""
        super().on_train_end()
        self._share_buffers()

    def _share_buffers(self) -> None:
        if not isinstance(self.model, DistributedDataParallel):
            hvd.broadcast_parameters(list(self.lightning_module.named_buffers()), 0)
