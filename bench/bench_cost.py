"""What an estimate of the whole tree costs: CPU seconds of `pl94_2020_tree` and `pl94_tuned` beside `pl94_2020`.

Run: `DRAWS=3 python -m bench.bench_cost [rhode_island guernsey made_up]`, some two CPU minutes a draw of Rhode Island.
The first two need ../shared beside the checkout; made_up is a state of 100,000 made-up people. One worker. The settings
take turns in every draw, after a draw that is not counted, so that ratios are of one run on one machine. `estimate` is
the pass over all measurements, `splits` the rest; variables are counts that least squares solve for, in all splits.
Writes bench/results/cost.json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import bench_production, bench_utility
from topdown.plan import RunFileAnswers, prepare, run_file_text
from topdown.practice import Simulation, open_simulation
from topdown.practice.synth import synth
from topdown.progress import silent
from topdown.solve import AnswersInMemory, solve_tree
from topdown.solve.tree import TreeStatistics

RESULT = Path(__file__).resolve().parent / "results" / "cost.json"
DRAWS = int(os.environ.get("DRAWS", "3"))
SETTINGS = ("pl94_2020", "pl94_2020_tree", "pl94_tuned")
PEOPLE = 100_000


def open_made_up(folder: Path) -> dict[str, Simulation]:
    """Return simulations of a made-up state under the three settings."""
    synth(folder, people=PEOPLE, schema="pl94", seed=1)
    ways = {}
    for settings in SETTINGS:
        run = folder / f"{settings}.toml"
        files = folder / "persons.csv.gz", folder / "blocks.csv.gz"
        levels = prepare(folder / "run.toml").context.geography.level_names
        run.write_text(
            run_file_text("pl94", settings, *files, run, levels, RunFileAnswers()), encoding="utf-8"
        )
        ways[settings] = open_simulation(prepare(run), files[0])
    return ways


STATES = {
    "rhode_island": bench_utility.open_ways,
    "guernsey": lambda folder: {name: bench_production.open_county(folder, name) for name in SETTINGS},
    "made_up": open_made_up,
}


def solve_once(way: Simulation, draw: int) -> dict[str, Any]:
    """Return CPU seconds of one draw's estimate and of its splits, and variables by level."""
    nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in way.context.inhabited)
    solver = way.solver.again(AnswersInMemory(nodes, way._draw(draw)))
    start = time.process_time()
    if isinstance(solver.statistics, TreeStatistics):
        _ = solver.statistics.found
    estimated = time.process_time()
    _, tally = solve_tree(solver, way.context, 1, silent)
    return {
        "estimate": estimated - start,
        "splits": time.process_time() - estimated,
        "variables": {name: level.n_variables for name, level in tally.levels.items()},
    }


def median(costs: list[dict[str, Any]], part: str) -> float:
    """Return the median seconds of a part, or of both."""
    return float(np.median([c["estimate"] + c["splits"] if part == "both" else c[part] for c in costs]))


def main() -> None:
    """Measure some states; print a line for each of the settings."""
    for state in sys.argv[1:] or STATES:
        costs: dict[str, list[dict[str, Any]]] = {name: [] for name in SETTINGS}
        with tempfile.TemporaryDirectory() as folder:
            ways = STATES[state](Path(folder))
            for draw in range(DRAWS + 1):
                for name in SETTINGS:
                    cost = solve_once(ways[name], draw)
                    if draw:
                        costs[name].append(cost)
        document = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
        document[state] = {"draws": DRAWS}
        for name, of in costs.items():
            both = [sum(c[part] for part in ("estimate", "splits")) for c in of]
            plain = [sum(c[part] for part in ("estimate", "splits")) for c in costs[SETTINGS[0]]]
            ratios = np.array(both) / np.array(plain)
            row = {part: round(median(of, part), 2) for part in ("both", "estimate", "splits")}
            row["ratio"] = round(float(np.median(ratios)), 2)
            row["ratios"] = [round(float(ratios.min()), 2), round(float(ratios.max()), 2)]
            row["variables"] = of[0]["variables"]
            document[state][name] = row
            print(f"{state:14s} {name:16s}", *(f"{key} {value}" for key, value in row.items()), flush=True)
        RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
