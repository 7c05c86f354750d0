# SPDX-License-Identifier: Apache-2.0
"""`DistributedOptimizer`, which reduces gradients while `backward()` runs. Private."""
