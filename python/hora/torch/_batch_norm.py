# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.nn import functional

from hora import _job, ops
from hora._errors import HoraArgumentError
from hora.torch._ops import allgather, allreduce

_numbers = itertools.count()


def _by_channel(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """[C] as [1, C, 1, ...], to be combined with an input."""
    return tensor.view(1, -1, *[1] * (like.dim() - 2)).to(like.dtype)


class _Normalize(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance of all ranks' batches.

    Forward: each rank tells its count, mean and sum of squared deviations, in float64; all combine them alike, in rank
    order. Backward: the sums over the batch in the gradient of the input are added up over the ranks; the gradients of
    weight and bias stay those of this rank's batch, for the optimizer to reduce.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float, name: str) -> tuple[torch.Tensor, ...]:
        wide = x.double() if x.dtype == torch.float64 else x.float()
        over = [d for d in range(x.dim()) if d != 1]
        count = x.numel() // x.shape[1]
        mean = wide.mean(over) if count else wide.new_zeros(x.shape[1])
        squares = (wide - _by_channel(mean, wide)).square().sum(over)
        own = torch.cat([torch.tensor([count], dtype=torch.float64), mean.double(), squares.double()])
        counts, means, deviations = torch.split(allgather(own.unsqueeze(0), name=f"{name}.forward"), [1, x.shape[1], x.shape[1]], 1)
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
            mean_dy, mean_dy_normalized = allreduce(sums, name=f"{ctx.name}.backward", op=ops.Sum) / total
            scale = inverse if weight is None else inverse * weight.double()
            dx = (dy - _by_channel(mean_dy, dy) - normalized * _by_channel(mean_dy_normalized, dy)) * _by_channel(scale, dy)
            dx = dx.to(gradients[0].dtype)
        dweight = sum_dy_normalized.to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        dbias = sum_dy.to(gradients[0].dtype) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return dx, dweight, dbias, None, None


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Batch normalisation whose mean and variance are those of all ranks' batches together; values and gradients are
    those of one process with the whole batch. Arguments and state are those of torch.nn.BatchNorm*d.

    Inputs are [N, C, ...], floating-point, on the CPU; N and the dimensions after C may differ from rank to rank, and N
    may be 0 on some. In evaluation mode with running statistics nothing is sent. All ranks call it alike.

    Raises:
        HoraArgumentError (a ValueError): the input has fewer than 2 dimensions, or is not floating-point.
        ValueError: there is no more than one value for each channel on all ranks together.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = f"sync_batch_norm.{next(_numbers)}"

    @classmethod
    def convert(cls, module: torch.nn.Module) -> torch.nn.Module:
        """The module, with every BatchNorm*d in it replaced by a SyncBatchNorm that has its parameters and state."""
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(module, cls):
            synced = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats)
            synced.train(module.training)
            for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
                setattr(synced, name, tensor)
            return synced
        for name, child in module.named_children():
            setattr(module, name, cls.convert(child))
        return module

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2 or not input.is_floating_point():
            raise HoraArgumentError(f"'{self._name}': expected floating-point [N, C, ...], not {input.dtype} {list(input.shape)}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        tracking = self.training and self.track_running_stats
        if tracking and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if not self.training and self.running_mean is not None:
            return functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        y, mean, variance, total = _Normalize.apply(input, self.weight, self.bias, self.eps, self._name)  # type: ignore[no-untyped-call]
        if total <= 1 and self.training:
            raise ValueError(f"'{self._name}': expected more than 1 value per channel when training, on {_job.size()} ranks together")
        if tracking and self.running_mean is not None and self.running_var is not None:
            factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None and self.num_batches_tracked is not None else self.momentum or 0.0
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                self.running_var.lerp_((variance * total / (total - 1)).to(self.running_var.dtype), factor)
        result: torch.Tensor = y
        return result
