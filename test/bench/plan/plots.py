# SPDX-License-Identifier: Apache-2.0
"""python -m bench.plan.plots RESULTS FOLDER EXPERIMENT...: draws those of the experiments whose cases are
sizes, into SVG files that have the names of the results and the experiment; prints which, as JSON.

It runs in the benchmark's own environment, which has matplotlib.
"""

import json
import pathlib
import re
import statistics
import sys
from typing import Any

import matplotlib as mpl

from .sizes import named, size_of

FEWEST = 3  # sizes that make a line


def draw(result: dict[str, Any], path: pathlib.Path) -> bool:
    """Bandwidth over size, a line for each contender."""
    import matplotlib.pyplot as plt

    lines: dict[str, list[tuple[int, float]]] = {}
    for case, figures in result["cases"].items():
        size = size_of(case)
        if size is None or named(size) != case:
            return False
        for name, figure in figures.items():
            if figure["blocks"]:
                lines.setdefault(name, []).append((size, size / statistics.median(figure["blocks"]) / 1e3))
    if max((len(line) for line in lines.values()), default=0) < FEWEST:
        return False
    chart, axes = plt.subplots(figsize=(8, 4.5))
    for name, points in sorted(lines.items()):
        style = "--" if name in ("limit", "raw") else "-"
        axes.plot(
            *zip(*sorted(points), strict=True),
            style,
            marker=".",
            linewidth=2.5 if name.startswith("hora") else 1.2,
            label=name,
        )
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="GB/s (bytes / time)", title=result["title"])
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    chart.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(chart)
    return True


def main() -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "hora"  # the same picture for the same figures
    results = pathlib.Path(sys.argv[1])
    saved = json.loads(results.read_text())
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for key in dict.fromkeys(sys.argv[3:]):
        name = re.sub(r"[^\w]+", "-", f"{results.stem}-{key}").strip("-") + ".svg"
        if key in saved["experiments"] and draw(saved["experiments"][key], folder / name):
            drawn[key] = name
    print(json.dumps(drawn))


if __name__ == "__main__":
    main()
