# SPDX-License-Identifier: Apache-2.0
"""Runs a program as a rank that NCCL takes for one on a host of its own: see gpu.py. And with PyTorch's NCCL,
if there is one.

hrun -np N as_own_host.py PROGRAM ARGUMENTS..."""

import importlib.util
import os
import pathlib
import sys

os.environ["NCCL_HOSTID"] = f"host-of-rank-{os.environ.get('HORA_RANK', '0')}"
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
if "TEST_FAKE_GPU" not in os.environ and "HORA_NCCL_LIBRARY" not in os.environ:
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        library = pathlib.Path(torch.origin).parents[1] / "nvidia/nccl/lib/libnccl.so.2"
        if library.exists():
            os.environ["HORA_NCCL_LIBRARY"] = str(library)
os.execv(sys.argv[1], sys.argv[1:])
