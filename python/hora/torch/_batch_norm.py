# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from hora import _job, ops
from hora._errors import HoraArgumentError
from hora.process_sets import ProcessSet, global_process_set
from hora.torch._ops.allgather import allgather
from hora.torch._ops.allreduce import allreduce
from hora.torch._untraced import untraced


def _by_channel(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """[C] as [1, C, 1, ...], to be combined with an input."""
    return tensor.view(1, -1, *[1] * (like.dim() - 2)).to(like.dtype)


class _Normalize(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance of all ranks' batches.

    Forward: each rank tells its count, mean and sum of squared deviations, in float64; all combine them
    alike, in rank order. Backward: the sums over the batch in the gradient of the input are added up over the
    ranks; the gradients of weight and bias stay those of this rank's batch, for the optimizer to reduce.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        eps: float,
        name: str,
        process_set: ProcessSet,
    ) -> tuple[torch.Tensor, ...]:
        wide = x.double() if x.dtype == torch.float64 else x.float()
        over = [d for d in range(x.dim()) if d != 1]
        count = x.numel() // x.shape[1]
        mean = wide.mean(over) if count else wide.new_zeros(x.shape[1])
        squares = (wide - _by_channel(mean, wide)).square().sum(over)
        own = torch.cat(
            [torch.full([1], count, dtype=torch.float64, device=x.device), mean.double(), squares.double()]
        )
        counts, means, deviations = torch.split(
            allgather(own.unsqueeze(0), name=f"{name}.forward", process_set=process_set),
            [1, x.shape[1], x.shape[1]],
            1,
        )
        total = counts.sum()
        whole_mean = (counts * means).sum(0) / total
        variance = (deviations + counts * (means - whole_mean).square()).sum(0) / total
        inverse = (variance + eps).rsqrt()
        normalized = (wide - _by_channel(whole_mean, wide)) * _by_channel(inverse, wide)
        y = normalized
        if weight is not None:
            y = y * _by_channel(weight, wide)
        if bias is not None:
            y = y + _by_channel(bias, wide)
        ctx.save_for_backward(normalized, weight, inverse, total)
        ctx.name = name
        ctx.process_set = process_set
        ctx.has_bias = bias is not None
        ctx.mark_non_differentiable(whole_mean, variance, total)
        return y.to(x.dtype), whole_mean, variance, total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        normalized, weight, inverse, total = ctx.saved_tensors
        dy = gradients[0].to(normalized.dtype)
        over = [d for d in range(dy.dim()) if d != 1]
        sum_dy = dy.sum(over)
        sum_dy_normalized = (dy * normalized).sum(over)
        dx = None
        if ctx.needs_input_grad[0]:
            sums = torch.stack([sum_dy, sum_dy_normalized]).double()
            mean_dy, mean_dy_normalized = (
                allreduce(sums, name=f"{ctx.name}.backward", op=ops.Sum, process_set=ctx.process_set) / total
            )
            scale = inverse if weight is None else inverse * weight.double()
            dx = (
                dy - _by_channel(mean_dy, dy) - normalized * _by_channel(mean_dy_normalized, dy)
            ) * _by_channel(scale, dy)
            dx = dx.to(gradients[0].dtype)
        dweight = (
            sum_dy_normalized.to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        )
        dbias = sum_dy.to(gradients[0].dtype) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return dx, dweight, dbias, None, None, None


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Batch normalisation whose mean and variance are those of all ranks' batches together; values and
    gradients are those of one process with the whole batch.

    Inputs are [N, C, ...], floating-point, on the CPU or a GPU; N and the dimensions after C may differ from
    rank to rank, and N may be 0 on some. In evaluation mode with running statistics nothing is sent. All
    ranks of the process set call it alike; one that has joined counts as an empty batch.

    Args:
        num_features: C.
        eps, affine, track_running_stats: as for torch.nn.BatchNorm*d.
        momentum: as there; None: running statistics are the plain mean of those of all batches.
        process_set: whose batches are normalised together.

    Raises:
        HoraArgumentError (a ValueError): the input has fewer than 2 dimensions, or is not floating-point; or
            this rank is no member of the process set.
        ValueError: there is no more than one value for each channel on all ranks together.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_set = process_set
        self._name = _job.object_name("sync_batch_norm", process_set.process_set_id)

    @classmethod
    def convert(
        cls, module: torch.nn.Module, process_set: ProcessSet = global_process_set
    ) -> torch.nn.Module:
        """The module, with every BatchNorm*d in it replaced by a SyncBatchNorm that has its parameters and
        state."""
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(module, cls):
            synced = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_set=process_set,
            )
            synced.train(module.training)
            for name, tensor in [
                *module.named_parameters(recurse=False),
                *module.named_buffers(recurse=False),
            ]:
                setattr(synced, name, tensor)
            return synced
        for name, child in module.named_children():
            setattr(module, name, cls.convert(child, process_set))
        return module

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2 or not input.is_floating_point():
            raise HoraArgumentError(
                f"'{self._name}': expected floating-point [N, C, ...], not {input.dtype} {list(input.shape)}"
            )

    @untraced
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if self.process_set.size() == 1:
            return super().forward(input)
        tracking = self.training and self.track_running_stats
        if tracking and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if not self.training and self.running_mean is not None:
            return functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        y, mean, variance, total = _Normalize.apply(  # type: ignore[no-untyped-call, unused-ignore]
            input, self.weight, self.bias, self.eps, self._name, self.process_set
        )
        if (
            self.training and input.numel() <= input.shape[1] and total <= 1
        ):  # of its own count the rank knows without the GPU
            raise ValueError(
                f"'{self._name}': expected more than 1 value per channel when training, on "
                f"{self.process_set.size()} ranks together"
            )
        if tracking and self.running_mean is not None and self.running_var is not None:
            factor = (
                1.0 / float(self.num_batches_tracked)
                if self.momentum is None and self.num_batches_tracked is not None
                else self.momentum or 0.0
            )
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                self.running_var.lerp_((variance * total / (total - 1)).to(self.running_var.dtype), factor)
        result: torch.Tensor = y
        return result
