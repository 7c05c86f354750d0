# SPDX-License-Identifier: Apache-2.0
"""Runs programs one after the other. Reads each as a line of JSON on stdin, and answers with a line of JSON."""

import contextlib
import gc
import io
import json
import os
import random
import signal
import sys
import traceback
import types
import warnings

import hora
import numpy as np
import torch
from hora import _job

_environment = dict(os.environ)
_path = list(sys.path)
_on_interrupt = signal.getsignal(signal.SIGINT)


def run(program: str, *arguments: str) -> None:
    """As `python -c` does: the program is the module __main__."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["-c", *arguments]
    with warnings.catch_warnings():
        exec(compile(program, "<string>", "exec"), main.__dict__)


def forget() -> None:
    """Undoes the changes that a program has made in this process."""
    if hora.is_initialized():
        hora.shutdown()
    sys.modules["__main__"] = types.ModuleType("__main__")
    _job._objects.clear()  # as in a new process: names of optimizers begin with 0
    os.environ.clear()
    os.environ.update(_environment)
    sys.path[:] = _path
    signal.signal(signal.SIGINT, _on_interrupt)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    gc.collect()


def serve() -> None:
    for line in sys.stdin:
        printed = io.StringIO()
        error = ""
        try:
            with contextlib.redirect_stdout(printed):
                run(*json.loads(line))
            forget()
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"printed": printed.getvalue(), "error": error}), flush=True)
        if error:
            sys.exit(1)  # other ranks may wait for this one


if __name__ == "__main__":
    serve()
