"""The comparison as a static SVG: errors per level against claimed epsilon, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from pgsr.compare import MechanismRow
from topdown.errors import ConfigError

MEASURES = ("L1 error, groups", "EMD, persons")
LEAST = 0.5


def refuse_without_plotting() -> None:
    """Refuse before anything is computed if pictures cannot be drawn (ConfigError C167)."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ConfigError(
            "pictures need matplotlib, which is not installed",
            code="C167",
            fix="pip install 'census-topdown[plot]', or leave out the picture; nothing was computed",
        ) from None
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pgsr"


def plot_svg(rows: Sequence[MechanismRow], level_names: Sequence[str], stamp: str, file: BinaryIO) -> None:
    """Write one panel a level and measure; mechanisms that are not private as claimed are dashed, and said to be.

    Args:
        rows: of `compare`.
        level_names: names of the levels, root first.
        stamp: what the data are, written above the panels.
        file: open file to write.
    """
    refuse_without_plotting()
    from matplotlib.figure import Figure

    n_levels = len(level_names)
    figure = Figure(figsize=(3.6 * n_levels + 3.4, 7.2), layout="constrained")
    panels = figure.subplots(len(MEASURES), n_levels, squeeze=False, sharex=True)
    runs = list(dict.fromkeys(row.run for row in rows))
    handles = {}
    for i, run in enumerate(runs):
        points = [row for row in rows if row.run == run]
        label = run.label if points[0].private else f"{run.label} (not private)"
        for level in range(n_levels):
            for measure in range(len(MEASURES)):
                (handles[label],) = panels[measure, level].plot(
                    [float(row.claimed) * 1.03 ** (i - len(runs) / 2) for row in points],
                    [max((row.l1, row.emd)[measure][level], LEAST) for row in points],
                    marker="osD^v<>Xph*8P"[i % 13],
                    color=f"C{i % 10}",
                    linestyle="-" if points[0].private else "--",
                    markersize=5,
                    linewidth=1.1,
                )
    for level, name in enumerate(level_names):
        panels[0, level].set_title(name)
        panels[-1, level].set_xlabel("claimed epsilon, points set apart")
        for panel in panels[:, level]:
            panel.set_xscale("log")
            panel.set_yscale("log")
    for measure, words in enumerate(MEASURES):
        panels[measure, 0].set_ylabel(words)
    figure.suptitle(stamp)
    figure.legend(
        handles.values(), handles.keys(), loc="outside right center", fontsize="small", frameon=False
    )
    figure.savefig(file, format="svg", metadata={"Date": None})
