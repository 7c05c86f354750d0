# SPDX-License-Identifier: Apache-2.0
"""SIGTERM, by which schedulers say that a process is going to end."""

from __future__ import annotations

from hora import _job, _native


def leave_on_sigterm() -> None:
    """From here on SIGTERM makes this process leave the job before the next step, without any loss of work;
    also while it waits for other ranks. A second one ends it at once. Nothing changes in a job that is not
    elastic, or if the program handles SIGTERM itself."""
    if _job.runtime().is_elastic:
        _native.leave_on_sigterm(_job.runtime())
