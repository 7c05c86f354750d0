# SPDX-License-Identifier: Apache-2.0
"""How this program ends, and why.

The exit status says whether a program has failed, and the interpreter knows it last: SystemExit has many
forms, and may be caught. C learns the status when the interpreter has ended (`_native.shutdown_at_exit`).
This module knows sooner where that is certain, and knows the words: which exception or which call of sys.exit
it was, and in which line.
"""

from __future__ import annotations

import contextlib
import opcode
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from hora._errors import HoraInternalError
from hora._hook import Hook
from hora._traces import encodable, is_interactive, where

_MOST_CHARACTERS = 2000  # of what is told

# All that the main thread runs is called from its outermost frame, which shows how it ended: where it stands
# then.
_outermost: FrameType | None = None
_exits: dict[int, str] = {}  # calls of sys.exit by the status that they ask for, the last one of each
_last_exit: tuple[int, int] | None = None  # where the outermost frame stood at the last one, and the status


def watch() -> None:
    """Remembers the main thread's outermost frame, and notes calls of sys.exit until `forget`. Called in
    `init`, on any thread."""
    global _outermost
    _hook.install()
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    _outermost = frame


def forget() -> None:
    """Notes no more calls of sys.exit."""
    _hook.remove()


def uncaught() -> str:
    """The exception that nobody caught and that has ended the main thread: "ValueError: bad batch
    (train.py:31)". Empty if there is none. The interpreter sets sys.last_value before it calls
    sys.excepthook, whatever that does. Others set it, too, of exceptions that the outermost frame has not
    seen."""
    value, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
    if is_interactive() or value is None or trace is None or trace.tb_frame is not _outermost:
        return ""
    return described(value) + sayable(where(traceback.walk_tb(trace)))


def comes_from_the_job() -> bool:
    """Whether the uncaught exception is an error that Hora has raised on other ranks, too."""
    return isinstance(getattr(sys, "last_value", None), HoraInternalError)


def ended_in_order() -> bool:
    """Whether the main thread has certainly ended with status 0: its code returned, or called sys.exit(0) and
    did not go on."""
    if is_interactive() or _outermost is None:
        return False
    at = _outermost.f_lasti
    returned = at >= 0 and opcode.opname[_outermost.f_code.co_code[at]].startswith("RETURN_")
    return returned or _last_exit == (at, 0)


def likely_exit() -> str:
    """The call of sys.exit with an error after which the main thread has done nothing more in its outermost
    frame. Something in between may have caught it, and then ended the program otherwise. Empty if there is
    none."""
    if is_interactive() or _outermost is None or _last_exit is None or _last_exit[0] != _outermost.f_lasti:
        return ""
    return _exits.get(_last_exit[1], "")


def others_are_alive() -> bool:
    """Whether there are threads for which the interpreter waits."""
    return any(not each.daemon and each is not threading.main_thread() for each in threading.enumerate())


def reasons() -> dict[int, str]:
    """The reason for each exit status, in words."""
    text = uncaught()
    return {**_exits, 1: text} if text else dict(_exits)


def described(value: BaseException) -> str:
    """ "json.decoder.JSONDecodeError: ...", as in a traceback. An exception may be unable to say what it
    is."""
    kind = type(value)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    try:
        text = str(value)
    except BaseException:  # noqa: BLE001 - whatever a user's __str__ may raise
        text = "<its str() failed>"
    return sayable(f"{module}{kind.__qualname__}: {text}".removesuffix(": "))


def sayable(text: str) -> str:
    """Encodable, and not too long."""
    return encodable(text[:_MOST_CHARACTERS])


def _note_exit(status: Any) -> None:
    global _last_exit
    if threading.current_thread() is not threading.main_thread():
        return
    code = 0 if status is None else int(status) & 0xFF if isinstance(status, int) else 1
    _last_exit = (-1 if _outermost is None else _outermost.f_lasti, code)
    if code != 0:
        outwards = list(traceback.walk_stack(sys._getframe(3)))
        _exits[code] = sayable(f"sys.exit({status!r})") + sayable(where(reversed(outwards)))


# The interpreter forgets the argument and the line of a SystemExit before anybody can ask. So this notes
# them, for words only: `raise SystemExit(3)`, exit(3) and a `sys.exit` that was imported before are told by
# their status.
def _exit(former: Callable[..., Any], status: Any = None, /) -> None:
    with contextlib.suppress(Exception):  # repr() may raise
        _note_exit(status)
    former(status)


_hook = Hook("exit", _exit)
