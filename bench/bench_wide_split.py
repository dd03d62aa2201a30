"""One county split over very many tracts: CPU seconds of its least squares and rounding, and how they were found.

Run: `python -m bench.bench_wide_split 551 2205`. Made-up people; the production settings of 2020. One thread of BLAS.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from topdown.measure import load_records
from topdown.model import Histogram
from topdown.plan import PublicContext, prepare
from topdown.practice.synth import synth
from topdown.solve import LevelTally, Node, Tally, make_top_down_solver

GROWN = 4_560  # people of a made-up tract on average


class Answers:
    """True answers of the tracts plus rounded normal noise (ordinary, seeded: nothing is released)."""

    def __init__(self, context: PublicContext, tracts: Histogram) -> None:
        rng, level = np.random.default_rng(1), context.plan.levels[1]
        self.inhabited, parts = context.rules.inhabited[1], []
        for m, query in zip(level.measurements, context.queries(level.name), strict=True):
            answers = tracts.answers(query)
            parts.append(answers + np.rint(rng.normal(size=answers.shape) * float(m.variance) ** 0.5))
        self.noisy = np.concatenate(parts, axis=1)

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inhabited tracts and their answers."""
        assert level_index == 1
        nodes = first_node + np.flatnonzero(self.inhabited[first_node:last_node])
        return nodes, self.noisy[nodes]


def measure(n_tracts: int) -> tuple[int, float, LevelTally]:
    """Split one made-up county over about so many tracts; return how many, CPU seconds, and what was tallied."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = synth(
            folder,
            people=n_tracts * GROWN,
            seed=5,
            levels=("state", "tract", "block_group", "block"),
        )
        context = prepare(made.run_file).context
        leaves = load_records(made.records, context).open_counts().whole()
    root, tracts = leaves.at_every_level(context.geography)[:2]
    targets, tally = Answers(context, tracts), Tally()
    descent = make_top_down_solver(context, targets, {"state": root.totals()})
    with threadpool_limits(limits=1):
        start = time.process_time()
        descent.children(0, Node(0, root.cell, root.count), tally)
        seconds = time.process_time() - start
    return made.nodes[1][1], seconds, tally.levels["tract"]


def line(n_tracts: int, seconds: float, done: LevelTally) -> str:
    """Return what was measured as a line of text."""
    return (
        f"{n_tracts:>6,} tracts  {done.n_variables:>9,} variables  {seconds:8.1f} CPU s"
        f"  {done.max_iterations:>6,} steps  residual {done.max_kkt_residual_persons:.1e} persons"
        f"  {done.n_roundings_optimal} of {done.n_roundings} roundings proved optimal"
    )


if __name__ == "__main__":
    for given in sys.argv[1:] or ["551"]:
        print(line(*measure(int(given))), flush=True)
