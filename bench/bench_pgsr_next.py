"""Errors of group-size estimates that know the totals and shrink to the parent, beside tracking and Kuo et al. (2018).

Run: `python bench/bench_pgsr_next.py`; its table lies in bench/results/pgsr_next.md. All data are made up: they compare
methods and predict no real error. Noise: geometric differences of `default_rng(1000 + seed)`, equal shares, epsilon.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

from topdown.arrays import Floats, Ints

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pgsr import Budget, Sizes, Tree, tree_of
from pgsr.comparison import MOST_GROUPS, emd_by_level, kuo_counts, l1_by_level, warm_up
from pgsr.estimators import Estimate, RowsDesign, estimate, half_width, mechanism_named, rows_answers
from pgsr.level_noise import Calibration, calibrate
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import ADAPTIVE, Kind, measure_exactly

TAILS = {"census": (1.2e-2, 3.0), "no tail": (0.0, 3.0), "x100": (1.2, 3.0), "power -2": (1.2e-2, 2.0)}
HOUSEHOLDS = np.array(
    [
        [0.48, 0.30, 0.10, 0.07, 0.03, 0.012, 0.004, 0.002, 0.001, 0.0005, 0.0002, 1e-4, 1e-4, 5e-5, 5e-5],
        [0.27, 0.38, 0.15, 0.12, 0.05, 0.02, 0.006, 0.002, 0.001, 0.0005, 0.0002, 1e-4, 1e-4, 5e-5, 5e-5],
        [0.15, 0.26, 0.20, 0.21, 0.11, 0.04, 0.015, 0.008, 0.004, 0.002, 0.001, 3e-4, 2e-4, 1e-4, 1e-4],
        [0.10, 0.18, 0.17, 0.20, 0.15, 0.09, 0.05, 0.03, 0.015, 0.008, 0.004, 2e-3, 6e-4, 3e-4, 1e-4],
    ]
)
HOUSEHOLDS = (HOUSEHOLDS + HOUSEHOLDS.mean(axis=0)) / 2
"""Four laws of household sizes 1 to 15, of which every block group has its own mixture."""
FAINT = Fraction(1, 100)
"""A budget at which only `fine` is run."""
ODD_LAW = np.array(
    [0.02, 0.03, 0.05, 0.10, 0.15, 0.20, 0.15, 0.10, 0.08, 0.05, 0.03, 0.02, 0.01, 0.005, 0.005]
)


def fine(seed: int = 0, tilt: float = 0.117, odd: float = 0.0) -> tuple[Tree, Ints]:
    """Return 1/40/1,200/3,600 regions of some 480 households each, and counts [size][node].

    Args:
        seed: of the data.
        tilt: standard deviation of the logarithm by which a block group favours larger households, a person.
        odd: part of the block groups that follow another law altogether.
    """
    rng = np.random.default_rng(seed)
    levels: list[list[int]] = [[-1]]
    for up, here in ((1, 40), (40, 1200), (1200, 3600)):
        levels.append(sorted([*range(up), *rng.integers(0, up, here - up).tolist()]))
    tree = tree_of(levels)
    county = rng.dirichlet(np.full(4, 8.0), 40)
    tract = np.array([rng.dirichlet(8.0 * county[p] + 0.01) for p in tree.parents[2]])
    laws = np.array([rng.dirichlet(15.0 * tract[p] + 0.01) for p in tree.parents[3]]) @ HOUSEHOLDS
    laws = laws * np.exp(rng.normal(0, tilt, 3600)[:, None] * np.minimum(np.arange(1, 16), 8))
    strange = rng.random(3600) < odd
    laws[strange] = ODD_LAW
    per_leaf = 5 + rng.lognormal(np.log(480), 0.55, 3600).astype(np.int64)
    leaves = rng.multinomial(per_leaf, laws / laws.sum(axis=1, keepdims=True)).T.astype(np.int64)
    return tree, tree.sums(np.ascontiguousarray(leaves))


def data(name: str, seed: int = 0) -> tuple[Tree, Ints]:
    """Return the regions and true counts of one row of the table."""
    if name.startswith("fine"):
        return fine(seed, 0.33 if "tilted" in name else 0.117, 0.03 if "odd" in name else 0.0)
    made = synthesize("taxi", seed) if name == "taxi" else synthesize("census", seed, tail=TAILS[name])
    return made.hierarchy.tree, made.counts


class Noise:
    """Geometric differences of one seed."""

    def __init__(self, seed: int, scales: list[float]) -> None:
        self._rng, self._scales = np.random.default_rng(1000 + seed), scales

    def draw(self, level: int, shape: tuple[int, ...]) -> Ints:
        """Return noise of one level."""
        success = -np.expm1(-1.0 / self._scales[level])
        return np.asarray(self._rng.geometric(success, shape) - self._rng.geometric(success, shape))

    def added(self, tree: Tree, answers: Ints) -> Ints:
        """Return answers [size][node] with noise."""
        parts = [answers[:, tree.columns(i)] for i in range(tree.n_levels)]
        return np.concatenate([part + self.draw(i, part.shape) for i, part in enumerate(parts)], axis=1)


def plan_of(kind: Kind, tree: Tree, truth: Ints, epsilon: Fraction) -> Calibration:
    """Return the noise of a run."""
    return calibrate(kind, tree, Sizes(len(truth)), Budget(epsilon))


def ours(
    name: str, kind: Kind, tree: Tree, truth: Ints, epsilon: Fraction, seed: int, public: bool
) -> Estimate:
    """Return one estimate of ours from one draw of noise."""
    plan = plan_of(kind, tree, truth, epsilon)
    noise, exact = Noise(seed, [float(p) for p in plan.parameters]), measure_exactly(kind, tree, truth)
    if kind == ADAPTIVE:
        spreads = tuple(float(v) for v in plan.relative_variance)
        noisy = rows_answers(noise.draw, exact, RowsDesign(tree, truth.sum(axis=0), spreads))
    else:
        noisy = noise.added(tree, exact)
    known = truth.sum(axis=0) if public else None
    return estimate(mechanism_named(name), tree, noisy, int(truth[:, 0].sum()), kind, plan, known)


PLAIN, SPARSE = ("A", "A+B", "B, totals not public"), ("A+B", "A+B+C")
SHOWN = {"fine": PLAIN, "census": PLAIN, "x100": SPARSE, "power -2": SPARSE, "taxi": SPARSE}
"""Whose intervals are held against the truth."""
Method = Callable[[Tree, Ints, Fraction, int], Ints]
METHODS: dict[str, tuple[str, Kind, bool]] = {
    "tracking, tail": ("tracking", "tail", False),
    "tracking, cumulative": ("tracking", "cumulative", False),
    "A": ("tracking", "cumulative", True),
    "A+B": ("tracking+parent", "cumulative", True),
    "A+B+C": ("tracking+parent+rows", "tail_rows", True),
    "B, totals not public": ("tracking+parent", "tail", False),
}


def kuo(tree: Tree, truth: Ints, epsilon: Fraction, seed: int) -> Ints:
    """Return Kuo's counts from the forms, level by level, that come nearest at the leaves."""
    scales = [tree.n_levels / float(epsilon)] * tree.n_levels
    every_group = int(truth[:, 0].sum()) <= MOST_GROUPS
    some = list(product(("cumulative", "sizes"), repeat=2)) if every_group else [("cumulative", "cumulative")]
    found = [
        kuo_counts(tree, truth, [up] * (tree.n_levels - 1) + [leaf], scales, Noise(seed, scales).draw)
        for up, leaf in some
    ]
    return min(found, key=lambda counts: emd_by_level(tree, counts, truth)[-1])


def rows(
    name: str, epsilon: Fraction, seeds: range, chosen: list[str]
) -> Iterator[tuple[str, Floats, float]]:
    """Yield (method, L1 and EMD per level in thousands, CPU seconds) of one row of the table."""
    tree, truth = data(name)
    methods: dict[str, Method] = {
        label: lambda t, n, e, s, how=how: ours(how[0], how[1], t, n, e, s, how[2]).counts  # type: ignore[misc]
        for label, how in METHODS.items()
    }
    for label, method in {**methods, "Kuo": kuo}.items():
        if label not in chosen:
            continue
        started = time.process_time()
        found = [method(tree, truth, epsilon, seed) for seed in seeds]
        seconds = (time.process_time() - started) / len(found)
        errors = [(l1_by_level(tree, c, truth), emd_by_level(tree, c, truth)) for c in found]
        yield label, np.mean(errors, axis=0) / 1000, seconds


def coverage(label: str, name: str, epsilon: Fraction, seed: int = 0) -> str:
    """Return per level how often the intervals hold the true count of nonzero cells, and their mean half width."""
    tree, truth = data(name)
    mechanism, kind, public = METHODS[label]
    plan = plan_of(kind, tree, truth, epsilon)
    found = ours(mechanism, kind, tree, truth, epsilon, seed, public)
    cells = []
    for level, parameter in enumerate(plan.parameters):
        here = tree.columns(level)
        some = truth[:, here] > 0
        fixed = half_width("geometric", parameter, accumulates=True)
        width = np.full(some.shape, fixed) if found.half_widths is None else found.half_widths[:, here]
        held = np.abs(found.counts - truth)[:, here] <= width
        cells.append(f"{100 * held[some].mean():.1f} % (±{width.mean():.1f}; noise alone ±{fixed})")
    return " · ".join(cells)


def odd_areas(epsilon: Fraction, seed: int = 0) -> str:
    """Return the persons' distance of the block groups under another law: A, and A+B."""
    tree, truth = data("fine, odd")
    plain, odd = fine(0, 0.117, 0.0)[1], truth
    strange = np.flatnonzero(np.any(plain[:, tree.n_inner :] != odd[:, tree.n_inner :], axis=0))
    strange = strange[odd[0, tree.n_inner + strange] < 0.1 * odd[:, tree.n_inner + strange].sum(axis=0)]
    cells = []
    for label in ("A", "A+B"):
        how = METHODS[label]
        found = ours(how[0], how[1], tree, truth, epsilon, seed, how[2]).counts
        tails = np.cumsum((found - truth)[::-1], axis=0)[:, tree.n_inner + strange]
        cells.append(f"{np.abs(tails).sum(axis=0).mean():,.0f}")
    return f"{len(strange)} areas, persons an area: A {cells[0]}, A+B {cells[1]}"


def likeness(tilt: float, seed: int = 0) -> str:
    """Return L1 and EMD at the block groups of A+B in proportion to tracking's, epsilon 1/10, cumulative counts."""
    tree, truth = fine(seed, tilt)
    found = []
    for label in ("tracking, cumulative", "A+B"):
        mechanism, kind, public = METHODS[label]
        counts = ours(mechanism, kind, tree, truth, Fraction(1, 10), seed, public).counts
        found.append((l1_by_level(tree, counts, truth)[-1], emd_by_level(tree, counts, truth)[-1]))
    return " | ".join(f"{ours / plain:.3f}" for plain, ours in zip(*found, strict=True))


def main() -> int:
    """Print the table, the coverage of intervals, and what becomes of odd areas."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="+", default=["fine", "fine, tilted", *TAILS, "taxi"])
    parser.add_argument("--epsilon", nargs="+", type=Fraction, default=[FAINT, Fraction(1, 10), Fraction(1)])
    parser.add_argument("--methods", nargs="+", default=[*METHODS, "Kuo"])
    options = parser.parse_args()
    warm_up()
    print("| data | epsilon | method | L1 per level, thousands | EMD per level, thousand persons | CPU s |")
    print("|---|---|---|---|---|---|")
    rows_of = [(n, e) for n, e in product(options.data, options.epsilon) if n == "fine" or e != FAINT]
    for name, epsilon in rows_of:
        for label, error, seconds in rows(name, epsilon, range(options.seeds), options.methods):
            shown = [" · ".join(f"{v:,.3g}" if v < 100 else f"{v:,.0f}" for v in row) for row in error]
            print(f"| {name} | {epsilon} | {label} | {shown[0]} | {shown[1]} | {seconds:.2f} |", flush=True)
    print("\n| data | epsilon | method | intervals on nonzero cells, per level |")
    print("|---|---|---|---|")
    for name, epsilon in rows_of:
        labels = [n for n in SHOWN.get(name, ()) if n in options.methods]
        for label in labels:
            print(f"| {name} | {epsilon} | {label} | {coverage(label, name, epsilon)} |", flush=True)
    print("\n| epsilon | odd block groups |")
    print("|---|---|")
    for epsilon in options.epsilon if "fine" in options.data else ():
        print(f"| {epsilon} | {odd_areas(epsilon)} |", flush=True)
    if "fine" in options.data:
        print("\n| tilt of block groups | L1, A+B to tracking | EMD |")
        print("|---|---|---|")
        for tilt in (0.0, 0.05, 0.09, 0.117, 0.2, 0.33):
            print(f"| {tilt} | {likeness(tilt)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
