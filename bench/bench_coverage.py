"""How often intervals of 95 in 100 hold the truth, and how wide they are: real Rhode Island blocks, simulated noise.

Run: `DRAWS=10 pytest bench/bench_coverage.py -s`. Needs ../shared beside the checkout. Nothing is solved: estimates and
deviations come from the noisy answers alone. Counted before an interval is cut at 0, and after; exact numbers are left
out, and of tables with more than 200,000 open answers that many are taken at random. Districts are runs of inhabited
blocks in the order of their geocodes. Writes bench/results/coverage.json.
"""

from __future__ import annotations

import json
import os
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from topdown.arrays import Ints
from topdown.plan import RunFileAnswers, prepare, run_file_text
from topdown.practice import Simulation, open_simulation
from topdown.publish import cells_of_answers, interval_ends
from topdown.solve import AnswersInMemory
from topdown.solve.tree import exact_at_root, tree_estimates

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "rhode_island_2010"
WHY = "made from published tables of the 2010 census"
SETTINGS = "pl94_2020_tree"
DRAWS = int(os.environ.get("DRAWS", "3"))
TAILS = Fraction(1, 20)
QUERIES = ("total", "votingage", "hispanic", "cenrace", "hispanic * cenrace", "detailed")
MOST = 200_000
SIZES, DISTRICTS = (20, 200, 2_000), 40
Place = tuple[str, int]


def opened(folder: Path) -> Simulation:
    """Return the simulation of Rhode Island under the tree's settings."""
    run = folder / "run.toml"
    answers = RunFileAnswers(prefix_lengths=(2, 5, 11, 12, 15), data_set="rhode_island")
    levels = ("state", "county", "tract", "block_group", "block")
    files = DATA / "persons.csv.gz", DATA / "blocks.csv.gz"
    run.write_text(run_file_text("pl94", SETTINGS, *files, run, levels, answers), encoding="utf-8")
    return open_simulation(prepare(run), files[0], truth_is_public=WHY)


def rows_of(way: Simulation, rng: np.random.Generator) -> dict[Place, tuple[Ints, Ints, Ints]]:
    """Return nodes, answers and true counts of open answers that are not exact, by query and level."""
    rows = {}
    for name in QUERIES:
        query = way.context.plan.query(name)
        cells = cells_of_answers(way.context, query)
        for depth, table in enumerate(way.truth):
            if depth == 0 and name == "total":
                continue
            node, answer = np.nonzero(way.context.rules.open[depth].astype(np.int64) @ cells)
            if len(node) > MOST:
                chosen = np.sort(rng.choice(len(node), MOST, replace=False))
                node, answer = node[chosen], answer[chosen]
            known = table.sparse_answers(query)
            key = known.node * query.n_answers + known.cell
            wanted = node * query.n_answers + answer
            at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
            rows[name, depth] = node, answer, np.where(key[at] == wanted, known.count[at], 0)
    return rows


def districts(way: Simulation, rng: np.random.Generator) -> list[list[Ints]]:
    """Return unions of blocks, per level the areas of each; only the last level has any."""
    lived_in = np.flatnonzero(way.context.inhabited[-1]).astype(np.int64)
    none = np.zeros(0, dtype=np.int64)
    above = [none] * (len(way.truth) - 1)
    return [
        [*above, lived_in[start : start + size]]
        for size in SIZES
        for start in rng.integers(0, len(lived_in) - size, DISTRICTS)
    ]


def share(held: list[float]) -> float:
    """Return a mean, to five digits."""
    return round(float(np.mean(held)), 5)


@pytest.mark.timeout(0)
@pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared with the Rhode Island blocks is not beside the checkout"
)
def test_coverage(tmp_path: Path) -> None:
    """Of intervals .945 to .955 hold the truth where there are enough cells, elsewhere as many as chance allows."""
    way, rng = opened(tmp_path), np.random.default_rng(1)
    rows, unions = rows_of(way, rng), districts(way, rng)
    levels = [level.name for level in way.context.plan.levels]
    nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in way.context.inhabited)
    held: dict[Place, list[float]] = {place: [] for place in rows}
    cut: dict[Place, list[float]] = {place: [] for place in rows}
    width: dict[Place, list[float]] = {place: [] for place in rows}
    bias: dict[Place, list[float]] = {place: [] for place in rows}
    of_size: dict[int, list[float]] = {size: [] for size in SIZES}
    true_totals = way.truth[-1].totals()
    start = time.process_time()
    for draw in range(DRAWS):
        noisy = AnswersInMemory(nodes, way._draw(draw))
        numbers = tree_estimates(
            way.context, noisy, exact_at_root(way.context.plan, {levels[0]: way.truth[0].totals()}, {})
        )
        told = numbers.at({place: (node, answer) for place, (node, answer, _) in rows.items()})
        for place, (estimate, stddev) in told.items():
            true = rows[place][2]
            off = (estimate - 1000 * true) / np.maximum(stddev, 1)
            low, high = interval_ends(estimate, stddev, TAILS, [])
            held[place].append(float((np.abs(off) <= 1.959964).mean()))
            cut[place].append(float(((low <= true) & (true <= high)).mean()))
            width[place].append(float((high - low).mean()))
            bias[place].append(float(off.mean()))
        if draw < 3:  # unions take as long as everything else
            for union, (estimate, stddev) in zip(unions, numbers.of_unions(unions, "total"), strict=True):
                off = (estimate[0] - 1000 * true_totals[union[-1]].sum()) / stddev[0]
                of_size[len(union[-1])].append(float(abs(off) <= 1.959964))
    seconds = time.process_time() - start
    table, wrong = [], []
    for (name, depth), found in held.items():
        n = len(rows[name, depth][0])
        areas = DRAWS * len(nodes[depth])
        allowed = 3 * (0.95 * 0.05 / areas) ** 0.5
        allowed = max(0.005, 3 * (0.95 * 0.05 / (DRAWS * n)) ** 0.5) if DRAWS * n > 1e5 else allowed
        row = {"level": levels[depth], "query": name, "cells": n, "held": share(found)}
        row |= {
            "held_cut_at_0": share(cut[name, depth]),
            "width": round(float(np.mean(width[name, depth])), 3),
        }
        row |= {"mean_error_in_deviations": round(float(np.mean(bias[name, depth])), 4)}
        table.append(row)
        print(*(f"{value:>20}" if isinstance(value, str) else f"{value:>10}" for value in row.values()))
        if abs(float(np.mean(found)) - 0.95) > allowed:
            wrong.append(row)
    near = {str(size): share(found) for size, found in of_size.items()}
    print("districts", near, f"{seconds / DRAWS:.1f} CPU seconds a draw")
    out = ROOT / "bench" / "results" / "coverage.json"
    document = {"draws": DRAWS, "tables": table, "districts": near, "districts_each": 3 * DISTRICTS}
    out.write_text(json.dumps(document, indent=1) + "\n")
    assert wrong == []
    assert all(abs(value - 0.95) <= 3 * (0.95 * 0.05 / DISTRICTS) ** 0.5 for value in near.values())
