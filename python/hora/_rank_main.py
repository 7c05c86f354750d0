# SPDX-License-Identifier: Apache-2.0
"""What a rank of `hora.run` runs: `python -m hora._rank_main DIRECTORY`."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import sys
import threading
import time
import traceback
from typing import Any

import cloudpickle

from hora._launch import CALL, Failure, result_name


def _leave(directory: pathlib.Path, result: bytes | Failure) -> None:
    """Leaves the rank's result for the caller, whole or not at all."""
    place = directory / result_name(int(os.environ["HORA_RANK"]))
    unfinished = place.with_name(f"{place.name}.part")
    unfinished.write_bytes(pickle.dumps(result))
    unfinished.rename(place)


def _end_with_the_caller() -> None:
    """Ends the job when the process that called `hora.run` ends, however that may be: it holds the other end of what
    this rank reads, wherever the rank runs."""
    caller = os.dup(0)
    with open(os.devnull, "rb") as nothing:  # the function has no input
        os.dup2(nothing.fileno(), 0)

    def watch() -> None:
        while os.read(caller, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _failure(error: BaseException) -> Failure:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:  # the user's own frames are of use
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    try:
        copy = cloudpickle.dumps(error)
        pickle.loads(copy)
    except Exception:  # noqa: BLE001 - exceptions fail in their own ways; the text is there
        copy = None
    return Failure(int(os.environ["HORA_RANK"]), time.monotonic(), text, copy)


def call(content: bytes) -> bytes:
    """The pickled result of a pickled call."""
    func, args, kwargs = pickle.loads(content)
    result: Any = func(*args, **kwargs)
    pickled: bytes = cloudpickle.dumps(result)
    return pickled


def main(directory: pathlib.Path) -> None:
    if os.environ["HORA_RANK"] == "0":
        _end_with_the_caller()
    if not directory.is_dir():
        sys.exit(f"hora.run: {directory} is not on this host: set TMPDIR to a directory that all hosts share, for the function and its results")
    path, content = pickle.loads((directory / CALL).read_bytes())
    sys.path.extend(folder for folder in path if folder not in sys.path)
    try:
        result = call(content)
    except BaseException as error:
        _leave(directory, _failure(error))
        raise
    _leave(directory, result)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
