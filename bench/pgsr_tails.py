"""How tracking compares with M_c^dp when the tail of large groups is thinner or heavier than the default.

Run: `python bench/pgsr_tails.py`. The census shape (3,197 regions, 1,000 sizes, 117.6 million groups), epsilon 1,
three noise seeds; prints a Markdown table of L1 and EMD in persons, both as ratios to M_c^dp, per level.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from topdown.arrays import Floats, Ints

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pgsr import Budget, Sizes, Tree
from pgsr.comparison import emd_by_level, l1_by_level
from pgsr.estimators import cumulative_estimate
from pgsr.level_noise import NoiseSource, calibrate
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import Kind, measure_exactly

TAILS = {
    "none": (0.0, 3.0),
    "/10": (1.2e-3, 3.0),
    "default": (1.2e-2, 3.0),
    "x10": (1.2e-1, 3.0),
    "x100": (1.2, 3.0),
    "power2": (1.2e-2, 2.0),
}


def errors(tree: Tree, truth: Ints, found: Ints) -> Floats:
    """Return L1 in groups and EMD in persons, per level; shape (2, L)."""
    return np.array([l1_by_level(tree, found, truth), emd_by_level(tree, found, truth)], float)


def study(
    tail: tuple[float, float], direction: Kind, options: argparse.Namespace
) -> tuple[int, Floats, Iterator[tuple[str, Floats]]]:
    """Return nonzero leaf cells, errors of M_c^dp, and those of tracking for every number of rounds.

    Args:
        tail: weight and power of the size law.
        direction: "cumulative" or "tail", what is measured.
        options: epsilon, seed, seeds, rounds, admm.
    """
    made = synthesize("census", options.seed, tail=tail)
    tree, truth, total = made.hierarchy.tree, made.counts, made.total
    plan = calibrate(direction, tree, Sizes(len(truth)), Budget(options.epsilon))
    answers = measure_exactly(direction, tree, truth)
    seeds = range(options.seed, options.seed + options.seeds)
    noisy = [NoiseSource(seed).add(answers, plan, tree) for seed in seeds]
    down = direction == "tail"

    def mean(method: str, rounds: int = 1, admm: int = 0) -> Floats:
        how = {"method": method, "rounds": rounds, "admm": admm, "tail": down}
        runs = [
            errors(tree, truth, cumulative_estimate(tree, a, total, **how).counts)  # type: ignore[arg-type]
            for a in noisy
        ]
        return np.asarray(np.mean(runs, axis=0))

    def variants() -> Iterator[tuple[str, Floats]]:
        yield from ((f"{r}", mean("tracking", r)) for r in options.rounds)
        if options.admm:
            yield f"ADMM {options.admm}", mean("tracking", 1, options.admm)

    cells = int((truth[:, tree.n_inner :] > 0).sum())
    return cells, mean("M_c^dp"), variants()


def main() -> int:
    """Print one table a direction."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directions", nargs="+", default=["cumulative", "tail"])
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1))
    parser.add_argument("--seed", type=int, default=0, help="of the made-up data, and first of the noise")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 5, 8])
    parser.add_argument("--admm", type=int, default=0, help="also this many iterations of ADMM")
    parser.add_argument("--tails", nargs="+", choices=list(TAILS), default=list(TAILS))
    options = parser.parse_args()
    started = time.process_time()
    for direction in options.directions:
        print(f"\nMeasured: {direction} counts, epsilon {options.epsilon}, mean of {options.seeds}\n")
        print("| tail | nonzero county cells | rounds | L1 / M_c^dp | within 5 % | EMD / M_c^dp |")
        print("|---|---|---|---|---|---|")
        for name in options.tails:
            cells, base, found = study(TAILS[name], direction, options)
            print(f"| {name} | {cells:,} | M_c^dp | {row(base[0])} | | {row(base[1])} |")
            for rounds, error in found:
                l1, emd = error / base
                verdict = "yes" if np.all(l1 <= 1.05) else "no"
                cells_shown = [name, f"{cells:,}", rounds, row(l1, 3), verdict, row(emd, 2)]
                print(f"| {' | '.join(cells_shown)} |", flush=True)
    print(f"{time.process_time() - started:.0f} CPU seconds", file=sys.stderr)
    return 0


def row(values: Floats, digits: int = 1) -> str:
    """Return one number a level, root first."""
    return " · ".join(f"{v:,.{digits}f}" for v in values)


if __name__ == "__main__":
    sys.exit(main())
