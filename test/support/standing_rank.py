# SPDX-License-Identifier: Apache-2.0
"""A rank that runs one program after the other, as standing_ranks.py sends them: a line of JSON each, and one for each answer."""

import contextlib
import gc
import io
import json
import os
import random
import sys
import traceback
import types
import warnings

import hora
import numpy as np
import torch


def forget(environment: dict[str, str]) -> None:
    """Undoes what a program has left behind in this process."""
    if hora.is_initialized():
        hora.shutdown()
    os.environ.clear()
    os.environ.update(environment)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    warnings.resetwarnings()
    gc.collect()


def run(program: str, *arguments: str) -> None:
    """As `python -c` does: the program is the module __main__."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["-c", *arguments]
    with warnings.catch_warnings():
        exec(compile(program, "<string>", "exec"), main.__dict__)  # noqa: S102


def serve() -> None:
    environment = dict(os.environ)
    answers = sys.stdout
    for line in sys.stdin:
        printed = io.StringIO()
        error = ""
        try:
            with contextlib.redirect_stdout(printed):
                run(*json.loads(line))
        except BaseException:  # noqa: BLE001 - SystemExit, too, is an answer
            error = traceback.format_exc()
        print(json.dumps({"printed": printed.getvalue(), "error": error}), file=answers, flush=True)
        if error:
            return  # others may wait for this rank
        forget(environment)


if __name__ == "__main__":
    serve()
