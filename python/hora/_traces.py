# SPDX-License-Identifier: Apache-2.0
"""The text that is printed of an exception that nobody caught.

Nothing is done to the exception: debuggers, logging, pytest and other hooks see its whole traceback. Only the
printing at the end of the program is another one, and only where Python itself would print: a hook of the
program's, or of a library such as rich, is called as ever. So frames are folded there, and not cut off where
Hora raises.

hrun gets the same text in place of stderr, if stderr is its pipe. It shows a trace that several ranks have
once, whole and in one piece, where lines of ranks that fail at once would mix; and it tells in its summary
who else had it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

from hora import _native
from hora._errors import HoraError
from hora._hook import Hook

_OWN_FOLDER = os.path.dirname(__file__) + os.sep
_LIBRARIES = (
    "<frozen ",
    _OWN_FOLDER,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_MOST_PLACES = 6

Frames = Iterable[tuple[FrameType, int]]


def is_interactive() -> bool:
    """A session, or a program that becomes one: exceptions do not end it."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def encodable(text: str) -> str:
    """Text with lone surrogates escaped, which no UTF-8 has. The name of a file that cannot be decoded has
    them."""
    return text.encode("utf-8", "backslashreplace").decode()


def own_frames(frames: Frames) -> list[tuple[FrameType, int]]:
    """Those that belong to no library; all, if there are no others."""
    listed = list(frames)
    return [each for each in listed if not each[0].f_code.co_filename.startswith(_LIBRARIES)] or listed


def where(frames: Frames) -> str:
    """ " (train.py:31)": the innermost of the program's own lines; empty if there are no frames."""
    own = own_frames(frames)
    return f" ({_line(*own[-1])})" if own else ""


def _line(frame: FrameType, line: int) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{line}"


def _places(trace: TracebackType | None) -> str:
    """ "train.py:31 in step, train.py:40 in main": the program's own lines, the innermost first."""
    own = own_frames(traceback.walk_tb(trace))[::-1]
    names = [frame.f_code.co_name for frame, _ in own]
    places = [
        _line(*each) + ("" if name == "<module>" else f" in {name}")
        for each, name in zip(own, names, strict=True)
    ]
    return ", ".join(places[:_MOST_PLACES] + (["..."] if len(places) > _MOST_PLACES else []))


def _chain(value: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it came from, as Python prints them."""
    seen: set[int] = set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        yield value
        value = value.__cause__ or (None if value.__suppress_context__ else value.__context__)


def _comes_from_hora(value: BaseException) -> bool:
    """Whether Hora raised it, or it passed through Hora's frames."""
    return any(isinstance(each, HoraError) or _passed_through_hora(each) for each in _chain(value))


def _passed_through_hora(value: BaseException) -> bool:
    return any(
        frame.f_code.co_filename.startswith(_OWN_FOLDER)
        for frame, _ in traceback.walk_tb(value.__traceback__)
    )


def _in_words(value: BaseException) -> str:
    """ "ValueError: bad batch", and after another one Hora's error that it came from."""
    told = next((each for each in _chain(value) if isinstance(each, HoraError)), value)
    all_told = [value] if told is value else [value, told]
    return "\nafter ".join(
        _without_module(traceback.TracebackException(type(each), each, None)) for each in all_told
    )


def _without_module(described: traceback.TracebackException) -> str:
    return "".join(described.format_exception_only()).rstrip().removeprefix("hora._errors.")


class _Folded(traceback.StackSummary):
    """Two lines for each frame but those of Hora and torch, of which there is one for all that follow each
    other."""

    def format(self, **options: Any) -> list[str]:
        folders = (_OWN_FOLDER, *(_folder_of("torch")))
        lines: list[str] = []
        kept: list[traceback.FrameSummary] = []
        folded = 0
        for frame in [*self, None]:
            library = frame is not None and frame.filename.startswith(folders)
            if folded and not library:
                lines.append(
                    f"  ({folded} {'frame' if folded == 1 else 'frames'} of hora and torch; "
                    "HORA_FULL_TRACES=1 shows them)\n"
                )
                folded = 0
            if kept and (library or frame is None):
                lines += traceback.StackSummary.from_list(kept).format(**options)
                kept = []
            if library:
                folded += 1
            elif frame is not None:
                kept.append(
                    traceback.FrameSummary(
                        frame.filename, frame.lineno, frame.name, lookup_line=False, line=frame.line
                    )
                )
        return lines


def _folder_of(package: str) -> list[str]:
    file = getattr(sys.modules.get(package), "__file__", None)
    return [os.path.dirname(file) + os.sep] if file else []


def folded(value: BaseException) -> str:
    """As Python prints an exception, with the frames of libraries folded."""
    described = traceback.TracebackException(type(value), value, value.__traceback__)
    pending, seen = [described], set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.stack = _Folded(each.stack)
        pending += [
            other
            for other in (each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ()))
            if other is not None
        ]
    return "".join(described.format())


def _hrun_reads_stderr() -> bool:
    """Whether what is printed here goes to the pipe of hrun's that this rank was started with, and to nothing
    else."""
    stream = sys.__stderr__
    if stream is None or sys.stderr is not stream:
        return False
    try:
        stream.flush()
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return f"{found.st_dev}:{found.st_ino}" == os.environ.get("HORA_STDERR")


def _told(error: str, places: str, trace: str) -> bool:
    """Whether hrun shows the trace."""
    return _native.report_end(*(encodable(text) for text in (error, places, trace)))


def _show(value: BaseException, trace: TracebackType | None, is_pythons: bool) -> bool:
    """Shows an exception in its own way; False if it is to be shown as ever. `is_pythons`: no other hook was
    there before."""
    ends = not is_interactive() and threading.current_thread() is threading.main_thread()
    folds = (
        is_pythons
        and os.environ.get("HORA_FULL_TRACES") != "1"
        and trace is value.__traceback__
        and _comes_from_hora(value)
    )
    text = folded(value) if folds else ""
    handed = text if ends and _hrun_reads_stderr() else ""
    told = ends and _told(_in_words(value), _places(trace), handed)
    if not text or sys.stderr is None:
        return False
    if told and handed:
        return True
    sys.stderr.write(text)
    sys.stderr.flush()
    return True


def _print_uncaught(
    former: Callable[..., Any], kind: type[BaseException], value: BaseException, trace: TracebackType | None
) -> None:
    try:
        shown = _show(value, trace, former is sys.__excepthook__)
    except Exception:  # noqa: BLE001 - whatever is wrong with an exception or with stderr, Python's own way is left
        shown = False
    if not shown:
        former(kind, value, trace)


HOOK = Hook(
    "excepthook", _print_uncaught
)  # the way in which uncaught exceptions are printed while it is installed
