# SPDX-License-Identifier: Apache-2.0
"""SIGTERM, by which schedulers say that a process is going to end."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from hora import _job


def leave_on_sigterm() -> None:
    """From here on SIGTERM makes this process leave the job before the next step, without any loss of work.
    A second one ends it at once. Nothing changes in a job that is not elastic, outside the main thread, and
    if the program handles SIGTERM itself."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _job.runtime().is_elastic and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        owner = os.getpid()

        def leave(number: int, _: FrameType | None) -> None:
            signal.signal(number, signal.SIG_DFL)
            if os.getpid() == owner and _job.is_initialized():
                _job.runtime().ask_to_leave()
            else:  # a forked child, or the job is over
                os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, leave)
