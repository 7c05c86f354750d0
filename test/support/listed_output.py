# SPDX-License-Identifier: Apache-2.0
"""The expected output of an example, from its first lines."""

import pathlib
import re


def expected_lines(path: pathlib.Path) -> list[str]:
    """The indented lines under "Expected output" in the first comment."""
    lines = []
    listing = False
    for line in path.read_text().splitlines():
        text = line.removeprefix("//").removeprefix("!")
        if listing and not text.startswith("   "):
            break
        if listing:
            lines.append(text.strip())
        listing = listing or text.strip().startswith("Expected output")
    return lines


def check_output(path: pathlib.Path, output: str) -> None:
    """Fails if one of the lines is missing; "..." in it is any text."""
    expected = expected_lines(path)
    assert expected, f"{path.name} does not say what it prints"
    for line in expected:
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        assert re.search(f"^{pattern}$", output, re.MULTILINE), f"{line!r} is not in\n{output}"
