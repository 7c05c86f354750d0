# SPDX-License-Identifier: Apache-2.0
"""Loads `hora._native`, which is compiled for one version of Python. Imported first: Python's own words for a
missing one speak of a circular import."""

from __future__ import annotations

import importlib.machinery
import pathlib
import re
import sys


def _why_missing(package: pathlib.Path) -> str | None:
    """Why the package has no `_native` that this Python can load; None: it has one, which is broken in
    another way."""
    compiled = [path.name for path in package.glob("_native.*.so")]
    if any(
        name == "_native" + suffix for name in compiled for suffix in importlib.machinery.EXTENSION_SUFFIXES
    ):
        return None
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = sorted(
        {
            (int(match[1]), int(match[2]))
            for name in compiled
            if (match := re.search(r"cpython-(\d)(\d+)", name))
        }
    )
    built_for = " and ".join(f"{major}.{minor}" for major, minor in found)
    if built_for == version:
        return (
            f"this Hora, in {package}, was built for another kind of Python {version} than {sys.executable}: "
            "install Hora with that Python's own pip"
        )
    if built_for:
        return (
            f"this Hora, in {package}, was built for Python {built_for}, and {sys.executable} is Python "
            f"{version}: install Hora with that Python's own pip"
        )
    return (
        f"{package} is Hora's source and not an installed Hora: leave it out of PYTHONPATH and do not start "
        "Python in its folder; "
        "`pip install hora`, or `pip install .` in the source tree, installs one"
    )


try:
    from hora import _native  # noqa: F401
except ImportError as error:
    if why := _why_missing(pathlib.Path(__file__).resolve().parent):
        raise ImportError(why, name="hora._native") from None
    raise error
