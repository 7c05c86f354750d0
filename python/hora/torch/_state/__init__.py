# SPDX-License-Identifier: Apache-2.0
"""State that all ranks have alike: parameters, buffers, optimizers. Private."""
