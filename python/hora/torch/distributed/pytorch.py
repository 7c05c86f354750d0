# SPDX-License-Identifier: Apache-2.0
"""PyTorch's classes for backends. Its type stubs lack some of their members, others in each version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.distributed as dist

PyTorchGroup: Any = dist.ProcessGroup
ReduceOp: Any = dist.ReduceOp
Store = Any

if TYPE_CHECKING:
    GradBucket = Any
else:
    GradBucket = dist.GradBucket
