# SPDX-License-Identifier: Apache-2.0
"""Where this rank's main thread is, for those who wait for it, in frames of Python."""

from __future__ import annotations

import faulthandler

from hora import _native


def tell_frames_of_python() -> None:
    """Puts Python's handler in the place of the runtime's, which knows the frames of native code only.
    It answers whatever the main thread does: a handler needs no interpreter lock."""
    number, pipe = _native.stack_signal()
    if pipe < 0:
        return
    faulthandler.register(number, file=pipe, all_threads=False, chain=False)
    _native.adopt_stack_handler()
