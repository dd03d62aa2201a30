"""The comparison as a static SVG: L1 error per level against claimed epsilon, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from pgsr.compare import MechanismRow
from topdown.errors import ConfigError


def plot_svg(rows: Sequence[MechanismRow], level_names: Sequence[str], path: BinaryIO) -> None:
    """Write one panel a level; mechanisms that are not private as claimed are dashed.

    Args:
        rows: of `compare`.
        level_names: names of the levels, root first.
        path: open file to write.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ConfigError(
            "pictures need matplotlib, which is not installed",
            code="C167",
            fix="pip install 'census-topdown[plot]', or leave out the picture",
        ) from None

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pgsr"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(level_names), 4.2), layout="constrained")
    panels = figure.subplots(1, len(level_names), squeeze=False)[0]
    runs = list(dict.fromkeys((row.mechanism, row.calibration) for row in rows))
    markers = "osD^v<>Xph*"
    for level, (panel, name) in enumerate(zip(panels, level_names, strict=True)):
        for i, run in enumerate(runs):
            points = [row for row in rows if (row.mechanism, row.calibration) == run]
            label = (
                run[0] if points[0].private and run[1] == "correct" and run[0] != "M_c^ch" else " ".join(run)
            )
            panel.plot(
                [float(row.claimed) for row in points],
                [max(row.l1[level], 0.5) for row in points],
                marker=markers[i % len(markers)],
                linestyle="-" if points[0].private else "--",
                label=label if points[0].private else f"{label} (not private)",
            )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(name)
        panel.set_xlabel("claimed epsilon")
    panels[0].set_ylabel("L1 error, groups")
    panels[-1].legend(fontsize="x-small")
    figure.savefig(path, format="svg", metadata={"Date": None})
