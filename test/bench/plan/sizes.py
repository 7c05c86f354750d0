# SPDX-License-Identifier: Apache-2.0
"""Sizes in words."""

KIB = 1 << 10
MIB = 1 << 20
UNITS = (("MiB", MIB), ("KiB", KIB), ("B", 1))


def named(size: int) -> str:
    """65536: '64 KiB'"""
    unit, bytes_in_it = next((name, bytes_in_it) for name, bytes_in_it in UNITS if size >= bytes_in_it)
    return f"{size / bytes_in_it:g} {unit}"


def size_of(case: str) -> int | None:
    """'hot, 64 KiB': 65536; None: no size is at its end."""
    words = case.split()
    bytes_in_it = dict(UNITS).get(words[-1]) if words else None
    if bytes_in_it is None or len(words) < 2:
        return None
    return round(float(words[-2]) * bytes_in_it)


def between(least: int, most: int = 1 << 62) -> "_Between":
    return _Between(least, most)


class _Between:
    """Whether a case has a size from `least` to `most`."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def __call__(self, case: str) -> bool:
        size = size_of(case)
        return size is not None and self._least <= size <= self._most
