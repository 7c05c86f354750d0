# SPDX-License-Identifier: Apache-2.0
"""The collective operations on PyTorch tensors, and messages. Private."""
