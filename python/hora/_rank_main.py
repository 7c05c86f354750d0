# SPDX-License-Identifier: Apache-2.0
"""The program of a rank of `hora.run`: `python -m hora._rank_main DIRECTORY`."""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from typing import Any

from hora import _pickles
from hora._folder import PrivateFolder
from hora._launch import CALL, Failure, result_name


def _leave(folder: PrivateFolder, result: bytes | Failure) -> None:
    """Leaves the rank's result for the caller, whole or not at all."""
    folder.write(result_name(int(os.environ["HORA_RANK"])), pickle.dumps(result))


def _folder_of_the_call(directory: str) -> PrivateFolder:
    """Other users of this host see the directory's name in this process's arguments. Where the caller's
    directory is on another host they could make one of that name here, with a function of theirs in it."""
    try:
        return PrivateFolder(directory)
    except FileNotFoundError:
        sys.exit(
            f"hora.run: {directory} is not on this host: set TMPDIR to a directory that all hosts share, for "
            "the function and its results"
        )
    except PermissionError as error:
        sys.exit(
            f"hora.run: {error}: no function is taken from there; set TMPDIR to a directory of this user's "
            "that all hosts share"
        )


def _failure(error: BaseException) -> Failure:
    trace = error.__traceback__
    while (
        trace is not None and trace.tb_frame.f_code.co_filename == __file__
    ):  # the user's own frames are of use
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    try:
        copy = _pickles.dumps(error)
        pickle.loads(copy)
    except Exception:  # noqa: BLE001 - exceptions fail in their own ways; the text is there
        copy = None
    return Failure(int(os.environ["HORA_RANK"]), time.monotonic(), text, copy)


def call(content: bytes) -> bytes:
    """The pickled result of a pickled call."""
    func, args, kwargs = pickle.loads(content)
    result: Any = func(*args, **kwargs)
    return _pickles.dumps(result)


def _leaves_in_order(error: BaseException) -> bool:
    """Whether this process leaves an elastic job that goes on, as it was asked to."""
    return isinstance(error, SystemExit) and not error.code and "HORA_MEMBER_ID" in os.environ


def main(directory: str) -> None:
    folder = _folder_of_the_call(directory)
    path, content = pickle.loads(folder.read(CALL))
    sys.path.extend(each for each in path if each not in sys.path)
    try:
        result = call(content)
    except BaseException as error:
        if not _leaves_in_order(error):
            _leave(folder, _failure(error))
        raise
    _leave(folder, result)


if __name__ == "__main__":
    main(sys.argv[1])
