"""Drawing all parts of a made-up release here and in forked children: wall and CPU seconds, ratios of both.

Run: `python -m bench.bench_drawing [--millions 3] [--children 2] [--rounds 3]`. Nothing is written or charged. Each
child keys a source of its own, so no two rounds draw the same noise; they draw the same parts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from bench.bench_scale import made_up
from topdown.measure import PartDrawer, Truth, draw_files, load_records, part_size, plan_parts, records_form
from topdown.plan import prepare


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of children that have ended."""
    own, below = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def main() -> None:
    """Draw in turns, and print medians."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--millions", type=float, default=3)
    ask.add_argument("--children", type=int, default=2)
    ask.add_argument("--rounds", type=int, default=3)
    given = ask.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made_up(Path(name), round(given.millions * 1e6), rows=False)
        prepared = prepare(Path(name) / "run.toml")
        context = prepared.context
        truth = Truth(context, load_records(prepared.records_path, context, records_form(prepared.run)))
        plans = plan_parts(context)
        drawer = partial(PartDrawer, context, truth, plans)
        found: dict[int, list[tuple[float, float]]] = {0: [], given.children: []}
        for _ in range(given.rounds):
            for n, times in found.items():
                wall, cpu = time.monotonic(), cpu_seconds()
                n_bytes = sum(len(data) for data in draw_files(drawer, (p.part for p in plans), n))
                times.append((time.monotonic() - wall, cpu_seconds() - cpu))
    n_numbers = sum(part_size(context, plan) for plan in plans)
    print(f"{given.millions:g} million people, {len(plans)} parts, {n_numbers:,} numbers, {n_bytes:,} bytes")
    medians = {
        n: [statistics.median(column) for column in zip(*times, strict=True)] for n, times in found.items()
    }
    for n, (wall, cpu) in medians.items():
        print(f"  {n} children: {wall:.2f} s of wall time, {cpu:.2f} CPU s")
    (wall, cpu), (wall_n, cpu_n) = medians[0], medians[given.children]
    print(f"  ratios: {wall_n / wall:.2f} of wall time, {cpu_n / cpu:.2f} of CPU time")


if __name__ == "__main__":
    main()
