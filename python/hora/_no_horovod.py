# SPDX-License-Identifier: Apache-2.0
"""The message of `import horovod` where Hora is installed, and no horovod is.

`hora_horovod.pth`, next to the package, adds a finder behind all others to each interpreter that starts. It
is asked only where nothing else has found a module, and answers for `horovod` alone; nothing of Hora is
loaded before."""

from __future__ import annotations

import types
from importlib.machinery import ModuleSpec


def explain(asking: types.FrameType) -> ModuleSpec | None:
    """Answers as a finder does: nothing, for what only asks whether there is a module. `asking`: the frame
    that has called the finder.

    Raises:
        ModuleNotFoundError: it is imported. It says how scripts for Horovod start.
    """
    importing = asking.f_back is not None and asking.f_back.f_code.co_name.startswith("_find_and_load")
    if not importing:
        return None
    raise ModuleNotFoundError(
        "No module named 'horovod'. Hora is installed, and runs scripts for Horovod as they "
        "are: start this one with"
        " `hrun --horovod -np 2 python ...`, or put `import hora; "
        "hora.install_as_horovod()` before the import",
        name="horovod",
    )
