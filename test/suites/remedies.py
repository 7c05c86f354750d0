# SPDX-License-Identifier: Apache-2.0
"""Remedies for a step of the set-up that failed, by its log."""

import re
import shutil

from .shell import LOGS, ROOT, end_of_log

AGAIN = "Then start ./dev again: it goes on after the last step that was done."

# The first pattern that the log has says what was wrong.
REMEDIES = (
    (
        r"No space left on device|[Yy]ou don't have enough free space",
        "The disk was full ({free}). PyTorch and the build take 7 GB.",
    ),
    (
        r"Temporary failure (in name resolution|resolving)|Could not resolve|Name or service not known|Network is unreachable"
        r"|Connection (timed out|refused)|Failed to establish a new connection|Could not connect to|Read timed out|ConnectTimeoutError",
        "The network, or a server in it, cannot be reached. If you need a proxy, set http_proxy and "
        "https_proxy.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verif",
        "The server's certificate is not trusted here. If your network has an authority of its own, name its "
        "file in PIP_CERT, and in apt's Acquire::https::CaInfo.",
    ),
    (
        r"Could not get lock|is another process using it|held by process",
        "Another program is installing packages. Wait until it has finished.",
    ),
    (r"dpkg was interrupted", "An earlier installation was cut off. Run `dpkg --configure -a` as root."),
    (
        r"Unable to locate package|has no installation candidate",
        "A package is not in the lists of apt: ./dev knows Debian 12 and 13 and "
        "Ubuntu 24.04 (with universe).",
    ),
    (
        r"Killed signal terminated program|out of memory|Cannot allocate memory|MemoryError",
        "The memory did not suffice. Compiling takes 2 GB for each core.",
    ),
    (
        r"THESE PACKAGES DO NOT MATCH THE HASHES|IncompleteRead|incomplete-download|Hash Sum mismatch",
        "A download broke off.",
    ),
    (
        r"No matching distribution found",
        "The package index has no build of this package for this Python and this machine.",
    ),
)


def remedy_of(log: str) -> str:
    """A sentence with the remedy; empty if no pattern matches the log."""
    for pattern, words in REMEDIES:
        if re.search(pattern, log):
            free = f"{shutil.disk_usage(ROOT).free >> 20} MiB are free at {ROOT} now"
            return f"{words.format(free=free)} {AGAIN}"
    return ""


def explained(name: str) -> str:
    """Where build/logs/NAME.log is, its last lines (few, if there is a remedy), and the remedy."""
    remedy = remedy_of((LOGS / f"{name}.log").read_text(errors="replace"))
    return f"{end_of_log(name, 3)}\n{remedy}" if remedy else end_of_log(name)
