# SPDX-License-Identifier: Apache-2.0
from hora.torch import DistributedOptimizer

__all__ = ["DistributedOptimizer"]
