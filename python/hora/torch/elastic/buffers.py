# SPDX-License-Identifier: Apache-2.0
"""The buffers of a model, such as the running statistics of batch normalisation, which forward passes
change."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from hora import _job, ops
from hora.torch._ops.allreduce import allreduce, allreduce_async_


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, where complex numbers are pairs of real ones."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _statistics(model: torch.nn.Module) -> list[str]:
    """The names of buffers that normalisation layers change without telling autograd."""
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _NormBase)]
    return [
        f"{name}.{buffer}" if name else buffer
        for name, layer in layers
        for buffer, _ in layer.named_buffers(recurse=False)
    ]


def _sum_dtype(like: torch.Tensor) -> torch.dtype:
    """The dtype in which changes are added up."""
    if not like.is_floating_point():
        return torch.int64
    return torch.float64 if like.dtype == torch.float64 else torch.float32


class Buffers:
    """The buffers of a model during a step of several microbatches, on several ranks.

    Every microbatch begins with the values from before the step. A floating-point buffer then changes by the
    mean of the changes over all samples of the step; any other buffer changes as in the first microbatch. So
    the values do not depend on the number of ranks, and are the same on all of them. A buffer that a forward
    pass has made or reshaped keeps what that pass has put there.

    Only buffers that change are sent: those of normalisation layers, and those that any rank has seen change.
    The ranks exchange which these are when `others` is not 0 on one of them.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._statistics = frozenset(_statistics(model))
        self._before: dict[str, torch.Tensor] = {}  # the values from before the step
        self._versions: dict[str, tuple[int, int]] = {}  # of the buffers while they have these values
        self._changes: dict[str, torch.Tensor] = {}  # that this rank has made in the step
        self._pending: list[int] = []  # the handles of what is being reduced
        self._sums: list[Any] = []  # of the changes of all ranks, each a tensor
        self.begin_generation()

    def begin_generation(self) -> None:
        """Forgets what the ranks of the former generation have agreed on, and what they were sending."""
        self._sent = sorted(self._statistics)
        self._pending = []

    def begin_step(self) -> None:
        """Notes the values."""
        self._changes = {}
        buffers = self._all()
        for name in self._before.keys() - buffers.keys():
            del self._before[name]
        for name, buffer in buffers.items():
            if not self._is_known(name, buffer):
                self._before[name] = torch.empty_like(buffer, requires_grad=False)
                self._versions.pop(name, None)
        self._copy(self._changed(), back=False)

    def restore(self) -> None:
        """Brings the values back from before the step."""
        self._copy(self._changed(), back=True)

    def add(self, weight: float, is_first: bool) -> None:
        """Takes in the changes of a microbatch, whose part of the step's samples is `weight`. `is_first`: it
        is the first microbatch of the step. `restore` is to follow, once backward() needs them no more."""
        changed = self._changed()
        real = [name for name, buffer in changed.items() if buffer.is_floating_point()]
        self._add(real, changed, weight)
        if is_first:
            self._add([name for name in changed if name not in real], changed, 1)

    def others(self) -> int:
        """The number of buffers that have changed here and that the ranks do not send."""
        return len(self._changes.keys() - set(self._sent))

    def start(self) -> None:
        """Begins to add up the changes of all ranks. All ranks call it in each step."""
        for place, names in self._places().items():
            flat = torch.cat([self._change(name).flatten() for name in names])
            self._pending.append(allreduce_async_(flat, name=f"elastic.buffers.{place}", op=ops.Sum))

    def finish(self, others: bool) -> None:
        """Waits for the changes of all ranks. All ranks call it in each step. `others`: some rank has seen
        others change than those that are sent."""
        self._sums = [_job.synchronize(handle) for handle in self._pending]
        self._pending = []
        if others:
            self._agree()
            self.start()
            self.finish(False)

    def make(self) -> None:
        """Makes the buffers what they are after the step, which counts."""
        for names, changes in zip(self._places().values(), self._sums, strict=True):
            sizes = [self._before[name].numel() for name in names]
            for name, change in zip(names, changes.split(sizes), strict=True):
                before = self._before[name]
                before.copy_(before.to(change.dtype) + change.view(before.shape))
        buffers = self._buffers()
        self._copy({name: buffers[name] for name in self._sent if name in buffers}, back=True)

    def _agree(self) -> None:
        """Finds out which buffers have changed on any rank."""
        names = sorted(self._before)
        seen = torch.tensor([name in self._sent or name in self._changes for name in names])
        changed = allreduce(seen.to(torch.uint8), name="elastic.buffers.changed", op=ops.Max)
        self._sent = [name for name, each in zip(names, changed.tolist(), strict=True) if each]

    def _places(self) -> dict[str, list[str]]:
        """The buffers that are sent together, by device and dtype: the same on all ranks."""
        places: dict[str, list[str]] = {}
        for name in self._sent:
            like = self._before[name]
            place = f"{like.device.type}.{str(_sum_dtype(like)).removeprefix('torch.')}"
            places.setdefault(place, []).append(name)
        return places

    def _change(self, name: str) -> torch.Tensor:
        change = self._changes.get(name)
        if change is not None:
            return change
        return torch.zeros_like(self._before[name], dtype=_sum_dtype(self._before[name]))

    def _add(self, names: list[str], buffers: dict[str, torch.Tensor], weight: float) -> None:
        """Adds the changes of these buffers."""
        if not names:
            return
        kept = [self._change(name) for name in names]
        now = [buffers[name].to(each.dtype) for name, each in zip(names, kept, strict=True)]
        before = [self._before[name].to(each.dtype) for name, each in zip(names, kept, strict=True)]
        with torch.no_grad():
            torch._foreach_add_(kept, torch._foreach_sub(now, before), alpha=weight)
        self._changes.update(zip(names, kept, strict=True))

    def _is_known(self, name: str, buffer: torch.Tensor) -> bool:
        known = self._before.get(name)
        return known is not None and known.shape == buffer.shape and known.dtype == buffer.dtype

    def _all(self) -> dict[str, torch.Tensor]:
        """The buffers as they are."""
        return {name: as_real(buffer) for name, buffer in self._model.named_buffers()}

    def _buffers(self) -> dict[str, torch.Tensor]:
        """The buffers that were there before the step, as they are."""
        return {name: buffer for name, buffer in self._all().items() if self._is_known(name, buffer)}

    def _changed(self) -> dict[str, torch.Tensor]:
        """The buffers that may not have the values from before the step."""
        return {
            name: buffer
            for name, buffer in self._buffers().items()
            if name in self._statistics or self._versions.get(name) != (buffer.data_ptr(), buffer._version)
        }

    def _copy(self, buffers: dict[str, torch.Tensor], back: bool) -> None:
        """Copies these buffers to the values from before the step, or `back` from there."""
        if not buffers:
            return
        now, before = list(buffers.values()), [self._before[name] for name in buffers]
        with torch.no_grad():
            torch._foreach_copy_(*((now, before) if back else (before, now)))
        self._versions.update(
            {name: (buffer.data_ptr(), buffer._version) for name, buffer in buffers.items()}
        )
