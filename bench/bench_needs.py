"""What `topdown plan` says a run needs, beside what it took: CPU seconds and memory of one worker, on several shapes.

Run: `python -m bench.bench_needs` (all shapes) or with names of shapes. Rhode Island needs ../shared beside the
checkout. Seconds are CPU seconds of the whole run, memory is the largest resident size.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.helpers.country import LEVELS, write_country
from tests.helpers.used import used

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "rhode_island_2010"


def topdown(folder: Path, *arguments: str) -> str:
    """Run the command in a folder; return what it printed."""
    command = [sys.executable, "-m", "topdown.cli", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def made_up(people: int, *more: str) -> Callable[[Path], None]:
    """Return a shape of made-up people."""

    def write(folder: Path) -> None:
        topdown(folder, "synth", "--out", "in", "--people", str(people), *more)
        (folder / "run.toml").symlink_to("in/run.toml")

    return write


def tree_of(people: int) -> Callable[[Path], None]:
    """Return a shape of made-up people, fitted to the estimate of the whole tree."""

    def write(folder: Path) -> None:
        made_up(people)(folder)
        run = folder / "in" / "run.toml"
        text = run.read_text()
        estimates = '[estimates]\ntargets = "tree"\ncoverage = "19/20"\n\n'
        run.write_text(text.replace("[ledger]\n", estimates + "[ledger]\n", 1))

    return write


def rhode_island(settings: str) -> Callable[[Path], None]:
    """Return real blocks under some settings."""

    def write(folder: Path) -> None:
        run = folder / "in" / "run.toml"
        run.parent.mkdir()
        tables = "--records", str(DATA / "persons.csv.gz"), "--leaves", str(DATA / "blocks.csv.gz")
        topdown(
            folder, "init", "--settings", settings, *tables, "--out", str(run), "--registry", str(run.parent)
        )

    return write


def country(ages: int, targets: str) -> Callable[[Path], None]:
    """Return a made-up country of 96 times so many cells, drafted, whose areas are fitted to the tree or not."""

    def write(folder: Path) -> None:
        draft_country(folder, ages)
        run = folder / "in" / "run.toml"
        run.write_text(run.read_text().replace('targets = "tree"', f'targets = "{targets}"'))

    return write


def draft_country(folder: Path, ages: int) -> None:
    """Write the tables of a made-up country, and draft its run."""
    inside = folder / "in"
    write_country(inside, 425_000, 900, ages=ages)
    tables = ("--records", "people.csv", "--leaves", "places.csv", "--no-count")
    topdown(
        inside, "init", "--codes", "codes.csv", "--levels", ",".join(LEVELS), *tables, "--out", "run.toml"
    )


SHAPES: dict[str, Callable[[Path], None]] = {
    "toy, 2,000": made_up(2_000, "--schema", "toy"),
    "pl94, 20,000": made_up(20_000),
    "pl94 tree, 20,000": tree_of(20_000),
    "pl94, 1,000,000": made_up(1_000_000),
    "pl94 tree, 1,000,000": tree_of(1_000_000),
    "Rhode Island": rhode_island("pl94_2020"),
    "Rhode Island, tree": rhode_island("pl94_2020_tree"),
    "960 cells": country(10, "own"),
    "960 cells, tree": country(10, "tree"),
    "9,600 cells": country(100, "own"),
    "9,600 cells, tree": country(100, "tree"),
}


def main() -> None:
    """Print both for every shape that was named, or all."""
    print(
        f"{'shape':24s} {'numbers':>12s} {'solves':>9s} {'CPU s':>14s} {'ratio':>6s} {'GB':>12s} {'ratio':>6s}"
    )
    for name in sys.argv[1:] or SHAPES:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            SHAPES[name](folder)
            plan = json.loads(topdown(folder, "plan", "in/run.toml", "--json"))
            seconds, memory = used(
                folder, "generate", "in/run.toml", "--out", "release", "--yes", "--workers", "1"
            )
            needs = plan["needs"]
            numbers = sum(level["n_numbers"] for level in plan["levels"])
            solves = sum(level["n_solves"] for level in plan["levels"])
            print(
                f"{name:24s} {numbers:12,} {solves:9,} "
                f"{needs['seconds']:6.1f}:{seconds:7.1f} {needs['seconds'] / seconds:6.2f} "
                f"{needs['memory_bytes'] / 1e9:5.2f}:{memory / 1e9:6.2f} {needs['memory_bytes'] / memory:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
