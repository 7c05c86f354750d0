# SPDX-License-Identifier: Apache-2.0
"""What all ranks have alike: parameters, buffers, state of optimizers. Private."""
