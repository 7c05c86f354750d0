# SPDX-License-Identifier: Apache-2.0
"""Whether Hora can be built on this machine at all."""

import platform
import struct

from .shell import Failed


def check(
    system: str = platform.system(), machine: str = platform.machine(), bits: int = 8 * struct.calcsize("P")
) -> str:
    """A sentence for a machine on which nobody has tried Hora, else nothing. Throws Failed where it cannot
    run."""
    if system != "Linux":
        raise Failed(
            f"Hora needs Linux, and this is {system}. On other systems a container or a virtual machine with "
            "Debian 12 or 13 does it."
        )
    if bits != 64:
        raise Failed(f"Hora and PyTorch need a 64-bit system, and this Python has {bits} bits.")
    if machine != "x86_64":
        return f"Hora has been tried on x86-64 machines alone, and this is {machine}. Nothing in it is known to fail there."
    return ""
