# SPDX-License-Identifier: Apache-2.0
"""Calls of functions when operations have ended, on a thread of Python's that waits for nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import select
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from hora import _native


class Watched(Protocol):
    """An operation under way."""

    def watch(self, queue: _native.CompletionQueue, token: int) -> None:
        """Puts the token into the queue when it has ended, on a GPU, too."""


@dataclasses.dataclass(slots=True)
class _Call:
    left: int  # how many operations have not ended
    function: Callable[[], object]


class _Completions:
    """The queue of the operations that are watched, and the thread that takes from it. The thread is a
    daemon: where it waits, it holds nothing that the end of the interpreter needs."""

    def __init__(self) -> None:
        self._queue = _native.CompletionQueue()
        self._tokens = itertools.count(1)  # taking the next one is atomic
        self._calls: dict[int, _Call] = {}  # adding and removing one are atomic
        threading.Thread(target=self._run, name="hora callbacks", daemon=True).start()

    def call(self, handles: Sequence[Watched], function: Callable[[], object]) -> None:
        token = next(self._tokens)
        self._calls[token] = _Call(len(handles), function)
        for each in handles:
            each.watch(self._queue, token)

    def _run(self) -> None:
        tokens = select.poll()
        tokens.register(self._queue.fd, select.POLLIN)
        while True:
            tokens.poll()
            for token in self._queue.take():
                call = self._calls[token]
                call.left -= 1
                if call.left == 0:
                    del self._calls[token]
                    _run_one(call.function)
                    del call  # with what the function holds


def _run_one(function: Callable[[], object]) -> None:
    try:
        function()
    except BaseException:  # nothing ends the thread: others wait for it
        with contextlib.suppress(BaseException):
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


_lock = threading.Lock()
_completions: _Completions | None = None  # made by the first call


def _forget_in_child() -> None:
    global _completions, _lock
    _completions = None  # its thread is not here
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_in_child)


def call(handles: Sequence[Watched], function: Callable[[], object]) -> None:
    """Calls the function on the thread for that, when all these operations have ended."""
    global _completions
    with _lock:
        if _completions is None:
            _completions = _Completions()
        completions = _completions
    completions.call(handles, function)


def awaited(handles: Sequence[Watched]) -> Generator[Any, None, None]:
    """For `__await__`: goes on when all these operations have ended."""
    import asyncio  # not before: it takes a fifth of the time in which hora is imported

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def set_ended() -> None:
        if not ended.done():  # else the coroutine was cancelled
            ended.set_result(None)

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(set_ended)

    call(handles, tell)
    yield from ended
