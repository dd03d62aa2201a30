"""Hunt for splits that are hard to solve: steps, CPU seconds and distance to the optimum, the tail and the median.

Run: `python -m bench.bench_hard_splits 200` or `... 200 --first 0 --before CHECKOUT --at-most 40`. Made-up states of
four levels whose tracts are of very unequal sizes and compositions, some with no one but in facilities; splits of the
state and of its three first counties. With a checkout the same problems, kept as files, are solved by it too, each as
often. A split is solved from the same numbers at least three times and for a twentieth of a second, and its seconds are
the least: other programs only add, and of a split of one millisecond a median of three still measures them. One thread
of BLAS; the twentieth draws solve the root too.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from topdown.measure import load_records
from topdown.model import Histogram
from topdown.plan import PublicContext, prepare
from topdown.practice.synth import synth
from topdown.solve import Node, Tally, make_top_down_solver
from topdown.solve.least_squares import TARGET_PERSONS, Problem, solve

LEVELS = ("state", "county", "tract", "block_group")
SETTINGS = (
    "pl94_2020",
    "pl94_2020_marginal_first",
    "pl94_2020",
    "pl94_2020_tree",
)  # of one draw after the other
PEOPLE = (150_000, 400_000, 700_000, 1_000_000)
MANY = 600_000  # people, from which on most live in the first of at least three counties
EMPTIED = 0.04  # share of tracts that lose everybody outside facilities
ROOT_EVERY = 20
TIMES, SECONDS = 3, 0.05  # each problem is solved at least, and until so many have gone into it
CLASSES = tuple(125 * 2**i for i in range(10))  # open entries of a split below which it counts as of one size


@dataclass(frozen=True)
class Line:
    """One split: its draw, level, open entries, steps, CPU seconds (`least_seconds`) and residual."""

    draw: int
    level: str
    entries: int
    steps: int
    seconds: float
    residual_persons: float

    @property
    def is_tree(self) -> bool:
        """Whether its targets are those of the tree estimate, whose steps cost more."""
        return SETTINGS[self.draw % len(SETTINGS)] == "pl94_2020_tree"


class Answers:
    """True answers of every area plus rounded normal noise (ordinary, seeded: nothing is released)."""

    def __init__(self, context: PublicContext, tables: list[Histogram], rng: np.random.Generator) -> None:
        self.inhabited, self.noisy = context.rules.inhabited, []
        for level, table in zip(context.plan.levels, tables, strict=True):
            parts = []
            for m, query in zip(level.measurements, context.queries(level.name), strict=True):
                answers = table.answers(query)
                parts.append(answers + np.rint(rng.normal(size=answers.shape) * float(m.variance) ** 0.5))
            self.noisy.append(np.concatenate(parts, axis=1))

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inhabited areas and their answers."""
        nodes = first_node + np.flatnonzero(self.inhabited[level_index][first_node:last_node])
        return nodes, self.noisy[level_index][nodes]


def skewed(leaves: Histogram, context: PublicContext, rng: np.random.Generator) -> Histogram:
    """Return the people with those outside facilities multiplied by tract and by tract and race, at random."""
    schema, tree = context.plan.schema, context.geography
    by_name = dict(zip((a.name for a in schema.attributes), schema.coordinates(leaves.cell), strict=True))
    tract = tree.levels[-1].parent[leaves.node]
    n, races = len(tree.levels[-2].codes), int(by_name["cenrace"].max()) + 1
    sizes, mixture = rng.uniform(0, 1.5, 2)
    factor = np.exp(sizes * rng.normal(size=(n, 1))) * np.exp(mixture * rng.normal(size=(n, races)))
    factor[rng.random(n) < EMPTIED] = 0.0
    grown = np.rint(leaves.count * factor[tract, by_name["cenrace"]]).astype(np.int64)
    count = np.where(by_name["hhgq"] == 0, grown, leaves.count)
    return Histogram.build(leaves.n_nodes, leaves.n_cells, leaves.node, leaves.cell, count)


def solve_draw(draw: int, keep: Path | None) -> list[Line]:
    """Make up a state and solve its splits; the problems of each are kept as a file if there is a folder."""
    rng = np.random.default_rng(draw)
    people = int(rng.choice(PEOPLE))
    first = f"county:{int(people * rng.uniform(0.4, 0.85))}" if people >= MANY else "county"
    settings = SETTINGS[draw % len(SETTINGS)]
    with tempfile.TemporaryDirectory() as name:
        levels = (LEVELS[0], first, *LEVELS[2:])
        made = synth(Path(name), people=people, seed=draw, settings=settings, levels=levels)
        context = prepare(made.run_file).context
        leaves = skewed(load_records(made.records, context).open_counts().whole(), context, rng)
    tables = leaves.at_every_level(context.geography)
    solver = make_top_down_solver(context, Answers(context, tables, rng), {LEVELS[0]: tables[0].totals()})
    lines: list[Line] = []
    problems: list[bytes] = []  # before they were solved, without what a solve keeps
    entries: list[int] = []

    def timed(problem: Problem) -> Any:
        problems.append(pickle.dumps(problem))
        entries.append(int(problem.allowed.sum()))
        found = solve(problem)
        done.append((least_seconds(problems[-1]), found[0].iterations, found[1]))
        return found

    def note(level: str) -> None:
        seconds, steps, residuals = zip(*done, strict=True)
        lines.append(Line(draw, level, max(entries), sum(steps), sum(seconds), max(residuals)))
        if keep is not None:
            path = keep / f"{draw:04d}-{len(lines)}.pickle"
            path.write_bytes(pickle.dumps((lines[-1], problems)))
        problems.clear()
        entries.clear()
        done.clear()

    done: list[tuple[float, int, float]] = []
    with patch("topdown.solve.split_estimate.solve", timed), threadpool_limits(limits=1):
        if draw % ROOT_EVERY == ROOT_EVERY - 1:
            solver.root(Tally())
            note("root")
        counties = solver.children(0, Node(0, tables[0].cell, tables[0].count), Tally())
        if done:
            note("counties")
        for county in counties[:3]:
            solver.children(1, county, Tally())
            if done:
                note("tracts")
    return lines


def least_seconds(problem: bytes) -> float:
    """Return the least CPU seconds of solves of a pickled problem, none of which knows of the others."""
    taken: list[float] = []
    while len(taken) < TIMES or sum(taken) < SECONDS:
        loaded = pickle.loads(problem)  # noqa: S301 (written by this program)
        start = time.process_time()
        solve(loaded)
        taken.append(time.process_time() - start)
    return min(taken)


def solve_kept(folder: Path, at_most: int) -> None:
    """Solve kept problems of so many draws with the package that is imported, and print their lines."""
    for path in sorted(folder.glob("*.pickle")):
        line, problems = pickle.loads(path.read_bytes())  # noqa: S301 (written by this program)
        if line.draw >= at_most:
            break
        with threadpool_limits(limits=1):
            found = [solve(pickle.loads(problem)) for problem in problems]  # noqa: S301
            seconds = sum(map(least_seconds, problems))
        steps, worst = sum(s.iterations for s, _ in found), max(r for _, r in found)
        print(line.draw, line.level, line.entries, steps, seconds, worst, flush=True)


def before(checkout: str, folder: Path, at_most: int) -> list[Line]:
    """Let a checkout solve the kept problems."""
    command = [sys.executable, __file__, "--solve", str(folder), "--at-most", str(at_most)]
    environment = os.environ | {"PYTHONPATH": checkout}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=checkout, env=environment)
    rows = [row.split() for row in done.stdout.splitlines()]
    return [Line(int(d), level, int(n), int(k), float(s), float(r)) for d, level, n, k, s, r in rows]


def tell(name: str, lines: list[Line]) -> None:
    """Print the tail of steps, and median and worst by size."""
    steps, bad = (
        sorted(line.steps for line in lines),
        [x for x in lines if x.residual_persons > TARGET_PERSONS],
    )
    tail = "  ".join(
        f"{q} % {steps[min(int(len(steps) * q / 100), len(steps) - 1)]:,}" for q in (50, 90, 99, 100)
    )
    worst = max(line.residual_persons for line in lines)
    total = sum(line.seconds for line in lines)
    print(
        f"{name}: {len(lines)} splits, {len(bad)} unconverged, at most {worst:.1e} persons from the optimum,",
        end="",
    )
    print(f" {total:.1f} CPU s; steps: {tail}")
    for tree in (False, True):
        of_kind = [x for x in lines if x.is_tree == tree and x.level != "root"]
        for low, high in zip((0, *CLASSES), (*CLASSES, 10**9), strict=True):
            some = [x for x in of_kind if low <= x.entries < high]
            if some:
                slowest = max(some, key=lambda x: x.seconds)
                middle = statistics.median(x.seconds for x in some)
                print(
                    f"  {'tree ' if tree else 'plain'} from {low:>6,} entries: {len(some):>4} splits, median "
                    f"{middle * 1e3:8.1f} ms, slowest {slowest.seconds * 1e3:8.1f} ms = "
                    f"{slowest.seconds / middle:5.1f} x (draw {slowest.draw}, {slowest.steps:,} steps)"
                )


def main() -> None:
    """Hunt, and compare with a checkout if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("draws", type=int, nargs="?", default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--before", metavar="CHECKOUT")
    parser.add_argument("--at-most", type=int, default=10**9, help="draws below this number for the checkout")
    parser.add_argument("--solve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.solve:
        solve_kept(given.solve, given.at_most)
        return
    with tempfile.TemporaryDirectory() as name:
        keep = Path(name) if given.before else None
        lines = []
        for draw in range(given.first, given.first + given.draws):
            lines += solve_draw(draw, keep if draw < given.at_most else None)
            print(
                f"draw {draw}: {[line for line in lines if line.draw == draw]}", file=sys.stderr, flush=True
            )
        tell("now", lines)
        if given.before:
            old = before(given.before, Path(name), given.at_most)
            tell("before", old)
            pairs = [x for x in lines if x.draw < given.at_most]
            ratio = sum(x.seconds for x in pairs) / sum(x.seconds for x in old)
            print(f"CPU of the same {len(old)} splits: {ratio:.2f} x that of the checkout")


if __name__ == "__main__":
    main()
