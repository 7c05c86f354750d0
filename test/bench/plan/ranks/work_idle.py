# SPDX-License-Identifier: Apache-2.0
"""The cost of a rank's process while its program does nothing: how often its threads wake up, and the CPU
time that they take."""

import pathlib
import re
import time
from typing import Any

import torch

from .libraries import Library


def switches() -> int:
    """How often threads of this process have gone to sleep so far."""
    total = 0
    for status in pathlib.Path("/proc/self/task").glob("*/status"):
        found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.MULTILINE)
        total += int(found[1]) if found else 0
    return total


def work(library: Library, seconds: float) -> dict[str, Any]:
    library.reduce("first", torch.zeros(1))
    library.barrier()
    time.sleep(0.5)
    before, used, begin = switches(), time.process_time(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begin
    used = time.process_time() - used
    woken = switches() - before - 1  # this thread's own sleep
    return {"idle: wake-ups/s": {"value": woken / passed}, "idle: % of a CPU": {"value": 100 * used / passed}}
