# SPDX-License-Identifier: Apache-2.0
from hora.torch import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
