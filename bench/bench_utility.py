"""Errors of three ways to fit the same noisy answers of real Rhode Island blocks, and what the tree estimate costs.

Run: `DRAWS=10 pytest bench/bench_utility.py -s`. Needs ../shared beside the checkout. Every draw is solved three times:
each level by itself with a joint root (plain), with a marginal-first root, and with one estimate of the whole tree. A
fourth release has the tree estimate and tuned shares, so noise of its own. Writes bench/results/utility.json. Errors
are means over inhabited areas; ratios are means over draws, with their standard errors.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from topdown.model import Histogram
from topdown.plan import PublicContext, RunFileAnswers, prepare, run_file_text
from topdown.practice import Simulation, open_simulation
from topdown.progress import silent
from topdown.solve import AnswersInMemory, solve_tree

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "rhode_island_2010"
DRAWS = int(os.environ.get("DRAWS", "3"))
WHY = "made from published tables of the 2010 census"
PLAIN, MARGINAL, TREE, TUNED = "pl94_2020", "pl94_2020_marginal_first", "pl94_2020_tree", "pl94_tuned"


@dataclass(frozen=True)
class Bound:
    """The most that the tree's error may be, times plain's, at production's shares and at tuned ones."""

    level: str
    query: str
    most: float
    tuned: float = 0.90


BOUNDS = (
    Bound("state", "race7", 0.35),
    Bound("state", "cenrace", 0.70),
    Bound("county", "hispanic * cenrace", 0.85),
    Bound("county", "race7", 0.75),
    Bound("tract", "total", 0.78, 0.65),
    Bound("tract", "votingage", 0.76),
    Bound("tract", "cenrace", 0.87),
    Bound("tract", "hispanic * cenrace", 0.87),
    Bound("tract", "detailed", 0.76),
    Bound("block_group", "total", 0.96),
    Bound("block_group", "detailed", 0.88),
    Bound("block", "total", 1.00, 0.75),
    Bound("block", "hispanic * cenrace", 1.00),
    Bound("block", "detailed", 1.00),
)


def open_ways(folder: Path) -> dict[str, Simulation]:
    """Return a simulation for each way; all but the tuned have the same measurements, so the same noise in a draw."""
    ways = {}
    for settings in (PLAIN, MARGINAL, TREE, TUNED):
        run = folder / f"{settings}.toml"
        answers = RunFileAnswers(prefix_lengths=(2, 5, 11, 12, 15), data_set="rhode_island")
        levels = ("state", "county", "tract", "block_group", "block")
        text = run_file_text(
            "pl94", settings, DATA / "persons.csv.gz", DATA / "blocks.csv.gz", run, levels, answers
        )
        run.write_text(text, encoding="utf-8")
        ways[settings] = open_simulation(prepare(run), DATA / "persons.csv.gz", truth_is_public=WHY)
    return ways


def errors_of(context: PublicContext, truth: tuple[Histogram, ...], leaves: Histogram) -> dict[str, float]:
    """Mean absolute errors by level and query over inhabited areas; of `detailed`, the sum over a node's cells."""
    found = {}
    levels = leaves.at_every_level(context.geography)
    for level, true, released, inhabited in zip(
        context.plan.levels, truth, levels, context.inhabited, strict=True
    ):
        for name in ("total", "votingage", "cenrace", "race7", "hispanic * cenrace", "detailed"):
            query = context.plan.query(name)
            parts = [table.sparse_answers(query) for table in (released, true)]
            node, answer = (np.concatenate([getattr(p, at) for p in parts]) for at in ("node", "cell"))
            counts = np.concatenate([parts[0].count, -parts[1].count])
            off = Histogram.build(true.n_nodes, query.n_answers, node, answer, counts)
            n_answers = 1 if name == "detailed" else query.n_answers
            found[f"{level.name} {name}"] = float(np.abs(off.count).sum() / inhabited.sum() / n_answers)
    return found


def solve_once(way: Simulation, noisy: tuple[NDArray[np.int32], ...]) -> tuple[Histogram, dict[str, float]]:
    """Solve one draw with one worker; returns the leaf table, seconds and what did not converge."""
    nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in way.context.inhabited)
    start, cpu = time.monotonic(), time.process_time()
    descent = way.solver.again(AnswersInMemory(nodes, noisy))
    leaves, tally = solve_tree(descent, way.context, 1, silent)
    seconds, cpu = time.monotonic() - start, time.process_time() - cpu
    levels = tally.levels.values()
    return leaves.whole(), {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "unconverged": float(sum(level.n_unconverged for level in levels)),
        "kkt_persons": max(level.max_kkt_residual_persons for level in levels),
        "failsafe": float(len(tally.failsafe)),
    }


@pytest.mark.timeout(0)
@pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared with the Rhode Island blocks is not beside the checkout"
)
def test_utility(tmp_path: Path) -> None:
    """The tree's errors are at most the stated shares of plain's, within a standard error; nothing is left unsolved."""
    ways = open_ways(tmp_path)
    errors: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for draw in range(DRAWS):
        noisy = ways[PLAIN]._draw(draw)
        for name, way in ways.items():
            leaves, cost = solve_once(way, way._draw(draw) if name == TUNED else noisy)
            errors[name].append(errors_of(way.context, way.truth, leaves))
            costs[name].append(cost)
    table = {}
    for key in errors[PLAIN][0]:
        row = {PLAIN: float(np.mean([e[key] for e in errors[PLAIN]]))}
        for name in (MARGINAL, TREE, TUNED):
            ratios = [e[key] / max(p[key], 1e-12) for e, p in zip(errors[name], errors[PLAIN], strict=True)]
            row[name] = float(np.mean(ratios))
            row[f"{name} se"] = float(np.std(ratios, ddof=1) / np.sqrt(DRAWS)) if DRAWS > 1 else 0.0
        table[key] = row
        shown = [f"{row[name]:7.3f} ({row[f'{name} se']:.3f})" for name in (MARGINAL, TREE, TUNED)]
        print(f"{key:34s} {row[PLAIN]:9.3f}", *shown)
    for name, found in costs.items():
        print(f"{name:28s} " + " ".join(f"{key} {np.mean([c[key] for c in found]):.3g}" for key in found[0]))
    out = ROOT / "bench" / "results" / "utility.json"
    out.write_text(json.dumps({"draws": DRAWS, "errors": table, "costs": costs}, indent=1) + "\n")
    assert all(c["unconverged"] == c["failsafe"] == 0 for name in (TREE, TUNED) for c in costs[name])
    missed = []
    for bound in BOUNDS:
        row = table[f"{bound.level} {bound.query}"]
        for name, most in ((TREE, bound.most), (TUNED, bound.tuned)):
            if row[name] - row[f"{name} se"] > most:
                missed.append(f"{name} {bound.level} {bound.query}: {row[name]:.3f}, not {most}")
    assert missed == []
