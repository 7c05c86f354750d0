# SPDX-License-Identifier: Apache-2.0
"""Makes the name "hora" known to torch.distributed.

PyTorch loads this by the entry points of the installed package: `torch.backends` with `import torch`, and
`torch.distributed.backends` (from PyTorch 2.14 on) when a program names the backend. It is outside of package
`hora`, and loads that when a group is made: so `import torch` takes no longer.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist


def register() -> None:
    """Registers the backend. Idempotent."""
    if dist.is_available() and not hasattr(dist.Backend, "HORA"):
        dist.Backend.register_backend("hora", _create, extended_api=True, devices=["cpu", "cuda"])
        # PyTorch 2.15 attaches its recorder to all other groups, in C++. Hora's groups are made in Python.
        recorded: set[str] = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
        recorded.add("hora")


def _create(options: Any, _: Any = None) -> Any:
    from hora.torch.distributed import create

    return create(options)
