"""Make the pictures of the gallery and the first screen of the site, from made-up people, by the commands.

    python docs/site/gallery.py FOLDER

Noise is drawn anew each time, so that pictures of releases differ from one build to the next.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

import topdown
from topdown.notebook import Chart

ROOT = Path(__file__).resolve().parents[2]
FIRST_SCREEN = (
    ("topdown", "synth", "--out", "town", "--schema", "toy", "--people", "20000"),
    ("topdown", "generate", "town/run.toml", "--out", "release", "--yes"),
    ("topdown", "verify", "release"),
)
PICTURES = (
    ("topdown", "audit", "release", "--plot", "trade-off.svg"),
    ("topdown", "report", "release", "--out", "report.html"),
    ("topdown", "noise", "--epsilon", "1", "--delta", "1/1000000", "--plot", "noise.svg"),
    ("pgsr", "compare", "--shape", "tiny", "--epsilon", "1/2", "1", "--plot", "group-sizes.svg"),
)
MAP = (
    ("topdown", "synth", "--out", "villages", "--schema", "toy", "--people", "9000"),
    ("topdown", "generate", "villages/run.toml", "--out", "plain", "--yes"),
    ("topdown", "resolve", "plain", "--out", "mapped", "--targets", "tree", "--coverage", "19/20"),
    ("topdown", "report", "mapped", "--out", "mapped.html"),
)
SIZES = (0, 1, 10, 30, 100, 1000)
PEOPLE = (20_000, 200_000, 2_000_000)


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command of ours in a folder; return what it prints.

    Raises:
        CalledProcessError: it failed.
    """
    program, *arguments = command
    started = [sys.executable, "-m", f"{program}.cli", *arguments]
    paths = os.environ | {
        "COLUMNS": "80",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        started, cwd=folder, env=paths, capture_output=True, text=True, encoding="utf-8", check=True
    )
    return done.stdout


def make_gallery(folder: Path) -> str:
    """Write the pictures into an empty folder; return the first screen.

    Args:
        folder: gets trade-off.svg, error-by-size.svg, map.svg, noise.svg, sites.svg, group-sizes.svg, cost.svg and
            report.html.
    """
    screen = "\n".join(f"$ {' '.join(command)}\n{run(command, folder)}" for command in FIRST_SCREEN)
    for command in PICTURES:
        run(command, folder)
    (folder / "error-by-size.svg").write_text(error_by_size(folder), encoding="utf-8")
    for command in MAP:
        run(command, folder)
    map_of(folder / "mapped.html").save(folder / "map.svg")
    (folder / "cost.svg").write_text(cost_by_people(folder / "sizes"), encoding="utf-8")
    subprocess.run(
        [sys.executable, ROOT / "examples" / "field_offices.py", "land"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    (folder / "land" / "offices.svg").rename(folder / "sites.svg")
    return screen.replace(str(folder) + "/", "")


def error_by_size(folder: Path) -> str:
    """Return an SVG of the mean error of the totals of blocks, by true size: possible because nobody is real."""
    release = topdown.Release(folder / "release")
    released = release.table("total", release.levels[-1]).set_index("geocode")["count"]
    people = pd.read_csv(folder / "town" / "persons.csv.gz", dtype={"geocode": str})
    true = people.groupby("geocode")["count"].sum() if "count" in people else people.groupby("geocode").size()
    true = true.reindex(released.index, fill_value=0)
    error = np.abs(released - true)
    rows = []
    for low, end in pairwise(SIZES):
        here = (true >= low) & (true < end)
        if here.any():
            name = str(low) if end == low + 1 else f"{low} to {end - 1}"
            rows.append((f"{name} people, {int(here.sum())} blocks", float(error[here].mean())))
    return bars(rows, "Mean error of the total of a block, in people, by its true size")


def map_of(report: Path) -> Chart:
    """Return the map of a report."""
    (drawn,) = re.findall(
        r'<svg [^>]*aria-labelledby="map-.*?</svg>', report.read_text(encoding="utf-8"), re.DOTALL
    )
    return Chart(drawn, "Map")


def cost_by_people(folder: Path) -> str:
    """Return an SVG of the processor time of `topdown generate`, of one worker, by number of people."""
    rows = []
    for people in PEOPLE:
        town = f"{folder}/{people}"
        run(("topdown", "synth", "--out", town, "--schema", "toy", "--people", str(people)), ROOT)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        asked = (
            "topdown",
            "generate",
            f"{town}/run.toml",
            "--out",
            f"{town}/release",
            "--yes",
            "--workers",
            "1",
        )
        run(asked, ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows.append(
            (f"{people:,} people", after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        )
    return bars(rows, "Processor time of one release of three attributes, in seconds")


def bars(rows: Sequence[tuple[str, float]], title: str) -> str:
    """Return an SVG with one bar a row: name, length."""
    scale = 330 / (max(length for _, length in rows) or 1.0)
    drawn = "".join(
        f'<text x="222" y="{26 * i + 50}" text-anchor="end">{name}</text>'
        f'<rect x="230" y="{26 * i + 38}" width="{scale * length:.1f}" height="16" fill="#1f5a8a"/>'
        f'<text x="{236 + scale * length:.1f}" y="{26 * i + 50}">{length:.1f}</text>'
        for i, (name, length) in enumerate(rows)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {26 * len(rows) + 50}" role="img" font-size="13" '
        f'font-family="sans-serif" fill="#222"><title>{title}</title><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="20" y="22" font-weight="bold">{title}</text>{drawn}</svg>\n'
    )


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True)
    sys.stdout.write(make_gallery(place))
