"""Size and CPU seconds of `topdown report` for releases of a nation's shape, and how they grow with its areas.

Run: `python -m bench.bench_report [--leaves 20000 80000 320000] [--release FOLDER ...]`. The nation is made up: 51
states, 3,143 counties, tracts, block groups and blocks in the proportions of 2010, people of two attributes, intervals
in every table. `--release` adds finished releases, such as one of real Rhode Island blocks. Seconds are those of the
command in a process of its own, the least of three; the last column is per thousand leaves beyond the smallest nation,
by which the whole nation's 11 million blocks are extrapolated. CPU seconds survive a busy machine.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import topdown

LEVELS = ("nation", "state", "county", "tract", "block_group", "block")
STATES, COUNTIES, TRACTS, BLOCK_GROUPS, BLOCKS = 51, 3143, 73_057, 217_740, 11_078_297  # 2010


def make_release(folder: Path, n_leaves: int) -> Path:
    """Release made-up people of a nation with so many blocks; return its folder."""
    draw = np.random.default_rng(1)
    parents = [np.arange(n_leaves)]
    for above in (BLOCK_GROUPS, TRACTS):  # as many as their proportion to blocks, but no fewer than counties
        n = max(COUNTIES, n_leaves * above // BLOCKS)
        parents.append(parents[-1] * n // (parents[-1].max() + 1))
    parents.append(parents[-1] * COUNTIES // (parents[-1].max() + 1))
    parents.append(parents[-1] * STATES // COUNTIES)
    columns = {
        level: [f"{level[0]}{code:08d}" for code in at]
        for level, at in zip(LEVELS[:0:-1], parents, strict=True)
    }
    schema = topdown.Schema.from_lists({"sex": ["f", "m"], "age": ["0-17", "18-64", "65+"]})
    people = 3 * n_leaves
    records = pd.DataFrame(
        {
            "geocode": np.array(columns["block"])[draw.integers(0, n_leaves, people)],
            "sex": np.array(["f", "m"])[draw.integers(0, 2, people)],
            "age": np.array(["0-17", "18-64", "65+"])[draw.choice(3, people, p=(0.2, 0.6, 0.2))],
        }
    )
    tree = topdown.Geography.from_table(columns, LEVELS)
    planned = topdown.plan(schema=schema, geography=tree, records=records, rho=1).write(folder / "in")
    topdown.generate(planned, folder / "release")
    return folder / "release"


def report(release: Path, out: Path) -> tuple[float, int]:
    """Return the least CPU seconds of three reports, and the bytes of one."""
    command = [
        str(Path(sys.executable).parent / "topdown"),
        "report",
        str(release),
        "--out",
        str(out),
        "--force",
    ]
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds), out.stat().st_size


def main() -> None:
    """Print a row for every release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, nargs="*", default=[20_000, 80_000, 320_000])
    parser.add_argument("--release", type=Path, nargs="*", default=[])
    asked = parser.parse_args()
    print(f"{'release':>24} {'leaves':>10} {'KiB':>7} {'CPU s':>7} {'more s a thousand leaves':>26}")
    first: tuple[int, float] | None = None
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "report.html"
        for release in asked.release:
            seconds, size = report(release, out)
            n_leaves = topdown.Release(release).plan.levels[-1].n_nodes
            print(f"{release.parent.name[-24:]:>24} {n_leaves:>10,} {size / 1024:>7.0f} {seconds:>7.2f}")
        for n_leaves in asked.leaves:
            with tempfile.TemporaryDirectory() as scratch:
                seconds, size = report(make_release(Path(scratch), n_leaves), out)
            more = "" if first is None else f"{1000 * (seconds - first[1]) / (n_leaves - first[0]):.4f}"
            first = first or (n_leaves, seconds)
            print(
                f"{'nation':>24} {n_leaves:>10,} {size / 1024:>7.0f} {seconds:>7.2f} {more:>26}", flush=True
            )
            if more:
                whole = first[1] + (BLOCKS - first[0]) * (seconds - first[1]) / (n_leaves - first[0])
                print(f"{'extrapolated':>24} {BLOCKS:>10,} {'':>7} {whole:>7.1f}", flush=True)


if __name__ == "__main__":
    main()
