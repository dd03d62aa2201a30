"""Errors and intervals of group sizes on thirteen data sets, beside the better of `tracking` and Kuo et al. (2018).

Run: `python bench/bench_pgsr_outside.py --taxi FOLDER`; FOLDER holds groups.csv.gz and hierarchy.csv of the public taxi
counts, and is left out if none is given. All other data are made up. `posterior` was tuned on the first ten, its
clustering of large groups on hotels too; shrinkage at all sizes at once was made while looking at all. Numbers of
groups are public, noise is two-sided geometric with equal shares, and the distance is in persons at the leaves.
`--small` takes smaller versions of the data. The tables are in bench/results/pgsr_outside.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from topdown.arrays import Floats, Ints

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pgsr import Budget, Sizes, Tree, hierarchy_of, tree_of
from pgsr.comparison import MOST_GROUPS, emd_by_level, kuo_counts
from pgsr.estimators import (
    COVERAGES,
    CountPosterior,
    Estimate,
    RowsDesign,
    all_answers,
    estimate,
    mechanism_named,
    vector_kind,
)
from pgsr.level_noise import NoiseSource, calibrate
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import ADAPTIVE, measure_exactly

HOUSEHOLDS = np.array(
    [
        [0.48, 0.30, 0.10, 0.07, 0.03, 0.012, 0.004, 0.002, 0.001, 0.0005, 0.0002, 1e-4, 1e-4, 5e-5, 5e-5],
        [0.27, 0.38, 0.15, 0.12, 0.05, 0.02, 0.006, 0.002, 0.001, 0.0005, 0.0002, 1e-4, 1e-4, 5e-5, 5e-5],
        [0.15, 0.26, 0.20, 0.21, 0.11, 0.04, 0.015, 0.008, 0.004, 0.002, 0.001, 3e-4, 2e-4, 1e-4, 1e-4],
        [0.10, 0.18, 0.17, 0.20, 0.15, 0.09, 0.05, 0.03, 0.015, 0.008, 0.004, 2e-3, 6e-4, 3e-4, 1e-4],
    ]
)
"""Four laws of household sizes 1 to 15."""
EPSILONS = tuple(Fraction(e) for e in ("1/10", "1/2", "1", "2", "4", "1000"))


def random_tree(rng: np.random.Generator, *regions: int) -> Tree:
    """Return a tree with that many regions a level below the root; parents at random, none without a part."""
    levels: list[list[int]] = [[-1]]
    for up, here in zip((1, *regions), regions, strict=False):
        levels.append(sorted([*range(up), *rng.integers(0, up, here - up).tolist()]))
    return tree_of(levels)


def fine(seed: int, small: bool, tilt: float) -> tuple[Tree, Ints]:
    """Return block groups of some 480 households whose laws differ by county, tract and block group."""
    rng = np.random.default_rng(seed)
    regions = (12, 200, 600) if small else (40, 1200, 3600)
    tree = random_tree(rng, *regions)
    county = rng.dirichlet(np.full(4, 8.0), regions[0])
    tract = np.array([rng.dirichlet(8.0 * county[p] + 0.01) for p in tree.parents[2]])
    laws = np.array([rng.dirichlet(15.0 * tract[p] + 0.01) for p in tree.parents[3]])
    laws = laws @ ((HOUSEHOLDS + HOUSEHOLDS.mean(axis=0)) / 2)
    laws = laws * np.exp(rng.normal(0, tilt, len(laws))[:, None] * np.minimum(np.arange(1, 16), 8))
    return tree, _drawn(rng, tree, _households(rng, len(laws), 480), laws)


def firms(seed: int, small: bool) -> tuple[Tree, Ints]:
    """Return firms by employees, Pareto of power 1.1 up to 2,000, some 300 a leaf."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, *((8, 120) if small else (20, 500)))
    size = np.arange(1, 2001, dtype=np.float64)
    law = size**-1.1 - (size + 1) ** -1.1
    firms_of = _households(rng, tree.n_leaves, 300, 1.0)
    return tree, _drawn(rng, tree, firms_of, np.tile(law, (tree.n_leaves, 1)))


def quarters(seed: int, small: bool, kind: str) -> tuple[Tree, Ints]:
    """Return households with group quarters: 1 to 4 of 96 to 500 in 30 % of the leaves, or lognormal sizes anywhere."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, *((10, 150) if small else (30, 900)))
    laws = rng.dirichlet(20.0 * np.full(4, 0.25), tree.n_leaves) @ HOUSEHOLDS
    laws = np.hstack([laws, np.zeros((tree.n_leaves, 485))])
    leaves = _drawn(rng, tree, _households(rng, tree.n_leaves, 400), laws)[:, tree.n_inner :].copy()
    for leaf in range(tree.n_leaves):
        if kind == "uniform":
            some = rng.integers(96, 501, rng.integers(1, 5)) if rng.random() < 0.3 else np.empty(0, np.int64)
        else:
            some = np.clip(np.exp(rng.normal(np.log(60.0), 1.0, rng.poisson(1.5))), 5, 500).astype(np.int64)
        np.add.at(leaves[:, leaf], some - 1, 1)
    return tree, tree.sums(leaves)


def mixed(seed: int, small: bool, kind: str) -> tuple[Tree, Ints]:
    """Return households whose laws differ much between siblings: mixtures at random, or one of two opposed laws."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, *((10, 200) if small else (30, 1200)))
    if kind == "mixed":
        laws = rng.dirichlet(np.full(4, 0.4), tree.n_leaves) @ HOUSEHOLDS
    else:
        opposed = np.stack([HOUSEHOLDS[0], HOUSEHOLDS[3][::-1]])
        laws = opposed[rng.integers(0, 2, tree.n_leaves)]
    return tree, _drawn(rng, tree, _households(rng, tree.n_leaves, 400), laws)


def negative_binomial(seed: int, small: bool) -> tuple[Tree, Ints]:
    """Return groups of negative binomial sizes up to 200 whose mean and shape differ from leaf to leaf."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, *((10, 200) if small else (30, 1200)))
    size = np.arange(200)
    laws = np.empty((tree.n_leaves, len(size)))
    for leaf, (mean, shape) in enumerate(
        zip(rng.lognormal(2.3, 0.5, tree.n_leaves), rng.gamma(4, 0.5, tree.n_leaves), strict=True)
    ):
        steps = np.log((shape + size[:-1]) / (size[:-1] + 1) * mean / (mean + shape))
        laws[leaf] = np.exp(np.append(0.0, np.cumsum(steps)))
    return tree, _drawn(rng, tree, _households(rng, tree.n_leaves, 250), laws)


def hotels(seed: int, small: bool) -> tuple[Tree, Ints]:
    """Return persons who live alone, and in a third of the leaves hotels of 20 to 400 around a size of the leaf."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, *((10, 150) if small else (30, 900)))
    leaves = np.zeros((400, tree.n_leaves), dtype=np.int64)
    leaves[0] = rng.poisson(300, tree.n_leaves)
    for leaf in np.flatnonzero(rng.random(tree.n_leaves) < 1 / 3):
        sizes = np.exp(rng.normal(rng.uniform(3.5, 5.5), 0.3, rng.integers(2, 30)))
        np.add.at(leaves[:, leaf], np.clip(sizes, 20, 400).astype(np.int64) - 1, 1)
    return tree, tree.sums(leaves)


def giant_leaf(seed: int, small: bool) -> tuple[Tree, Ints]:
    """Return households of which one leaf has a hundred times as many as any other, under a law of its own."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, *((10, 150) if small else (30, 900)))
    laws = rng.dirichlet(np.full(4, 3.0), tree.n_leaves) @ HOUSEHOLDS
    groups = _households(rng, tree.n_leaves, 150)
    giant = int(rng.integers(tree.n_leaves))
    laws[giant], groups[giant] = HOUSEHOLDS[3], 100 * groups.max()
    return tree, _drawn(rng, tree, groups, laws)


def independent_sizes(seed: int, small: bool) -> tuple[Tree, Ints]:
    """Return 45 groups of each of 24 sizes in 120 leaves, each number with a gamma rate of its own (variance 1/4)."""
    rng, tree = np.random.default_rng(seed), tree_of([[-1], [0] * 4, np.repeat(np.arange(4), 30).tolist()])
    return tree, tree.sums(rng.poisson(45 * rng.gamma(4.0, 0.25, (24, tree.n_leaves))).astype(np.int64))


def _households(rng: np.random.Generator, n: int, middle: float, spread: float = 0.55) -> Ints:
    return 5 + rng.lognormal(np.log(middle), spread, n).astype(np.int64)


def _drawn(rng: np.random.Generator, tree: Tree, groups: Ints, laws: Floats) -> Ints:
    leaves = rng.multinomial(groups, laws / laws.sum(axis=1, keepdims=True)).T.astype(np.int64)
    return tree.sums(np.ascontiguousarray(leaves))


def synthetic(shape: str, seed: int, small: bool) -> tuple[Tree, Ints]:
    """Return the census or taxi shape of `pgsr synth`; small: a tenth of its regions."""
    made = synthesize(shape, seed)
    tree, counts = made.hierarchy.tree, made.counts
    if not small:
        return tree, counts
    n_middle = 8 if shape == "census" else 3
    some = np.flatnonzero(tree.parents[2] < n_middle)
    cut = tree_of([[-1], [0] * n_middle, tree.parents[2][some].tolist()])
    return cut, cut.sums(np.ascontiguousarray(counts[:, tree.n_inner + some]))


def kuo_taxi(folder: Path) -> tuple[Tree, Ints]:
    """Return the public counts of taxi pick-ups by neighbourhood; no group is larger than 4,919."""
    with (folder / "hierarchy.csv").open(encoding="utf-8") as file:
        regions = hierarchy_of([tuple(row) for row in list(csv.reader(file))[1:]])  # type: ignore[misc]
    place = {code: i for i, code in enumerate(regions.geography.levels[-1].codes)}
    leaves = np.zeros((4919, len(place)), dtype=np.int64)
    with gzip.open(folder / "groups.csv.gz", "rt", encoding="utf-8") as file:
        for code, size, count in list(csv.reader(file))[1:]:
            leaves[int(size) - 1, place[code]] += int(count)
    return regions.tree, regions.tree.sums(leaves)


DATA = (
    "census",
    "firms",
    "fine",
    "tilted",
    "taxi",
    "Kuo's taxi",
    "group quarters",
    "lognormal quarters",
    "mixed households",
    "two opposed kinds",
    "negative binomial",
    "hotels and singles",
    "one giant leaf",
)
HELD_OUT = {
    "negative binomial": negative_binomial,
    "hotels and singles": hotels,
    "one giant leaf": giant_leaf,
    "independent sizes": independent_sizes,  # of `--data` only: no row of the tables has such data
}


def data(name: str, seed: int, small: bool, taxi: Path | None) -> tuple[Tree, Ints]:
    """Return the regions and true counts [size][node] of one data set."""
    if name in ("census", "taxi"):
        return synthetic(name, seed, small)
    if name == "Kuo's taxi":
        assert taxi is not None
        return kuo_taxi(taxi)
    if name in ("fine", "tilted"):
        return fine(seed, small, 0.117 if name == "fine" else 0.33)
    if name == "firms":
        return firms(seed, small)
    if name in HELD_OUT:
        return HELD_OUT[name](seed, small)
    if "quarters" in name:
        return quarters(seed, small, "uniform" if name == "group quarters" else "lognormal")
    return mixed(seed, small, "mixed" if name == "mixed households" else "opposed")


def ours(name: str, tree: Tree, truth: Ints, epsilon: Fraction, seed: int) -> Estimate:
    """Return one estimate of ours with public numbers of groups."""
    mechanism, totals = mechanism_named(name), truth.sum(axis=0)
    kind = vector_kind(mechanism, "cumulative")
    plan = calibrate(kind, tree, Sizes(len(truth)), Budget(epsilon))
    public = RowsDesign(tree, totals, tuple(map(float, plan.relative_variance))) if kind == ADAPTIVE else None
    noisy = all_answers(NoiseSource(1000 + seed), measure_exactly(kind, tree, truth), plan, tree, public)
    return estimate(mechanism, tree, noisy, int(totals[0]), kind, plan, totals)


def kuo(tree: Tree, truth: Ints, epsilon: Fraction, seed: int) -> Ints:
    """Return Kuo's counts of the forms, level by level, that come nearest to the truth at the leaves."""
    plan = calibrate("cumulative", tree, Sizes(len(truth)), Budget(epsilon))
    scales = [float(p) for p in plan.parameters]
    every_group = int(truth[:, 0].sum()) <= MOST_GROUPS
    some = list(product(("cumulative", "sizes"), repeat=2)) if every_group else [("cumulative", "cumulative")]
    found = []
    for up, leaf in some:
        forms = [up] * (tree.n_levels - 1) + [leaf]
        found.append(kuo_counts(tree, truth, forms, scales, partial(NoiseSource(1000 + seed).noise, plan)))
    return min(found, key=lambda counts: emd_by_level(tree, counts, truth)[-1])


NOT_RULED_OUT, LEAST_VARIANCE, OF_RATES = 1e-3, 1e-18, 0.9
"""Of `kernels_intervals.py`, whose compiled constants cannot be imported."""
METHODS = ("tracking", "Kuo", "posterior")
LEAST_CELLS = 500


@dataclass(frozen=True, eq=False)
class Row:
    """One data set and epsilon, over seeds.

    Args:
        name, epsilon: which.
        error: thousand persons at the leaves [seed] of each method.
        held: of levels with 500 cells that hold groups, how they were: share of these cells that is exact; and for each
            interval the share of cells within, the share that it claims, its mean width, and the standard error of
            their difference between parents; then for each interval the share within of all cells, with groups or
            without [seed][1 + 5 x coverages].
        seconds: CPU of `posterior`, mean.
    """

    name: str
    epsilon: Fraction
    error: dict[str, Floats]
    held: dict[int, Floats]
    seconds: float


def claimed(posterior: CountPosterior, bounds: tuple[Ints, Ints], cells: tuple[Ints, ...]) -> Floats:
    """Return the posterior mass of intervals, given that there is a group wherever that is not ruled out.

    One whole number alone often has 80 % where 50 are asked: coverage is held against that too.

    Args:
        bounds: [size][node].
        cells: sizes and nodes that are asked for.
    """
    size, node = cells
    lower, upper = bounds[0][cells], bounds[1][cells]
    mean = posterior.mean[node, size]
    part = mean - np.floor(mean)
    variance = np.minimum(posterior.variance[node, size], posterior.most_variance[node])
    variance = np.maximum(variance, part * (1.0 - part))
    sd = np.sqrt(np.maximum(variance, LEAST_VARIANCE))
    possible = variance > NOT_RULED_OUT
    is_few = possible & (mean < 1.0)
    square = variance + mean * mean
    first = np.where(is_few, np.maximum(mean, np.sqrt(0.25 + square) - 0.5), 1.0)
    ratio = np.clip((square - first) / (square + first), 0.0, None)
    of_paths = posterior.ratio[node, size]
    ratio = np.where(of_paths >= 0.0, (ratio + of_paths) / 2.0, ratio)
    noise = posterior.noise_variance[node]
    excess = (1.5 + 1.0 / noise) * np.minimum(variance / noise, 1.0)
    of_laplace = np.clip(excess, OF_RATES, 3.0) / 3.0

    def below(x: Ints) -> Floats:
        z = (x - 0.5 - mean) / sd
        normal = ndtr(z)
        laplace = 0.5 + np.sign(z) * 0.5 * -np.expm1(-np.sqrt(2.0) * np.abs(z))
        large = (1.0 - of_laplace) * normal + of_laplace * laplace
        few = 1.0 - np.minimum(first * (1.0 - ratio), 1.0) * ratio ** np.maximum(x - 1, 0)
        return np.asarray(np.where(is_few, few, large))

    first_held = np.where(possible, np.maximum(lower, 1), lower)
    mass = below(upper + 1) - np.where(first_held > 0, below(first_held), 0.0)
    return np.asarray(mass / np.where(possible, 1.0 - below(np.ones_like(lower)), 1.0))


def error_between_parents(off: Floats, parent: Ints) -> float:
    """Return the standard error of a mean over cells, which depend on each other within a parent; 0 if there is one."""
    sums = np.bincount(parent, off - off.mean())
    n = len(np.unique(parent))
    return float(np.sqrt((sums @ sums) * n / (n - 1.0)) / len(off)) if n > 1 else 0.0


def intervals(tree: Tree, made: Estimate, truth: Ints) -> dict[int, list[float]]:
    """Return how intervals are at every level with enough cells; see `Row`."""
    assert made.posterior is not None
    full = np.nonzero(truth > 0)
    level_of, parent = tree.level_of[full[1]], np.maximum(tree.parent[full[1]], 0)
    exact = (made.counts == truth)[full]
    levels = [i for i in range(tree.n_levels) if (level_of == i).sum() >= LEAST_CELLS]
    found = {level: [float(exact[level_of == level].mean())] for level in levels}
    every: dict[int, list[float]] = {level: [] for level in levels}
    for coverage in COVERAGES:
        lower, upper = bounds = made.posterior.bounds(made.counts, coverage)
        inside = (lower <= truth) & (truth <= upper)
        mass, width = claimed(made.posterior, bounds, full), (upper - lower)[full]
        for level in levels:
            here = level_of == level
            held, due = inside[full][here], mass[here]
            error = error_between_parents(held - due, parent[here])
            found[level] += [float(held.mean()), float(due.mean()), float(width[here].mean()), error]
            every[level].append(float(inside[:, tree.columns(level)].mean()))
    return {level: found[level] + every[level] for level in levels}


def rows(
    names: Sequence[str],
    epsilons: Sequence[Fraction],
    seeds: int,
    small: bool,
    taxi: Path | None,
    methods: Sequence[str] = METHODS,
) -> Iterator[Row]:
    """Yield one row a data set and epsilon."""
    for name, epsilon in product(names, epsilons):
        error: dict[str, list[float]] = {method: [] for method in methods}
        held: dict[int, list[list[float]]] = {}
        seconds = 0.0
        for seed in range(seeds):
            tree, truth = data(name, seed, small, taxi)
            started = time.process_time()
            made = ours("posterior", tree, truth, epsilon, seed)
            seconds += (time.process_time() - started) / seeds
            for method in methods:
                if method == "Kuo":
                    found = kuo(tree, truth, epsilon, seed)
                else:
                    found = (
                        made if method == "posterior" else ours(method, tree, truth, epsilon, seed)
                    ).counts
                error[method].append(emd_by_level(tree, found, truth)[-1] / 1000)
            for level, line in intervals(tree, made, truth).items():
                held.setdefault(level, []).append(line)
        by_level = {level: np.array(lines) for level, lines in held.items()}
        yield Row(name, epsilon, {m: np.array(e) for m, e in error.items()}, by_level, seconds)


def show_error(row: Row) -> bool:
    """Print errors of a row; return whether `posterior` is above 1.05 times the better, or wrong at epsilon 1000."""
    means = {method: float(found.mean()) for method, found in row.error.items()}
    better = min(means["tracking"], means["Kuo"])
    shown = [f"{means[method]:,.3g}" for method in METHODS]
    ratio, text = 0.0, "all exact"
    if better > 0.0:
        ratio = means["posterior"] / better
        each = row.error["posterior"] / better
        spread = f" ± {float(each.std(ddof=1)) / len(each) ** 0.5:.3f}" if len(each) > 1 else ""
        text = f"{ratio:.3f}{spread}"
    print(f"| {row.name} | {row.epsilon} | {' | '.join(shown)} | {text} | {row.seconds:.1f} |", flush=True)
    return ratio > 1.05 or (row.epsilon >= 1000 and means["posterior"] > 0.0)


def errors_of_rows(lines: Floats) -> Floats:
    """Return standard errors of shares within less shares claimed: between draws, and between parents at least.

    Args:
        lines: of `Row.held` [seed][coverage][4].
    """
    off, n = lines[:, :, 0] - lines[:, :, 1], len(lines)
    between = off.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(off.shape[1])
    return np.asarray(np.maximum(between, np.sqrt((lines[:, :, 3] ** 2).sum(axis=0)) / n))


def show_intervals(found: Sequence[Row]) -> bool:
    """Print how intervals did, level by level; return whether those of 95 % hold less than 93 anywhere."""
    titles = " | ".join(f"{100 * float(c):.0f} %" for c in COVERAGES)
    print(
        "\nOf cells that hold groups, in 100: exact; within the intervals, claimed by them, standard error of the "
        "difference, and their mean width; then of all cells within each\n\n"
        f"| data | epsilon | level | exact | {titles} | of all cells |\n|---|---|---|---|---|---|---|---|---|"
    )
    low, rest = False, []
    for row in found:
        for level, lines in row.held.items():
            means = lines.mean(axis=0)
            n = len(COVERAGES)
            each, every = means[1 : 1 + 4 * n].reshape(n, 4), means[1 + 4 * n :]
            each[:, 3] = errors_of_rows(lines[:, 1 : 1 + 4 * n].reshape(-1, n, 4))
            parts = [
                f"{100 * held:.1f} of {100 * mass:.1f} ± {100 * error:.1f} ({width:.3g})"
                for held, mass, width, error in each
            ]
            low |= each[COVERAGES.index(Fraction(19, 20)), 0] < 0.93
            rest += [each] if row.epsilon < 1000 else []
            shown = (
                f"{100 * means[0]:.0f} | {' | '.join(parts)} | {' '.join(f'{100 * e:.1f}' for e in every)}"
            )
            print(f"| {row.name} | {row.epsilon} | {level} | {shown} |")
    if rest:
        held, mass, _, error = np.moveaxis(np.array(rest), 2, 0)
        asked = np.array([float(coverage) for coverage in COVERAGES])
        off = 100 * (held - mass)
        print(f"\nOf {len(off)} rows with epsilon below 1000\n\n| | {titles} |\n|---|---|---|---|---|")
        for name, apart in (
            ("within 2 points of what is claimed", abs(off)),
            ("within 2 points or two standard errors of it", abs(off) - np.maximum(200 * error - 2, 0)),
            ("within 2 points of what is asked", 100 * abs(held - asked)),
            ("claim within 2 points of what is asked", 100 * abs(mass - asked)),
            ("at least what is asked less 2 points", 100 * (asked - held)),
        ):
            print(f"| {name} | {' | '.join(map(str, (apart <= 2).sum(axis=0)))} |")
        for name, line in (
            ("least held", 100 * held.min(axis=0)),
            ("furthest below what is claimed", off.min(axis=0)),
            ("furthest above", off.max(axis=0)),
        ):
            print(f"| {name} | {' | '.join(f'{x:.1f}' for x in line)} |")
    return low


def main() -> int:
    """Print the tables; exit 1 if `posterior` is above its limits, or its intervals of 95 % hold less than 93."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--taxi", type=Path, help="folder with groups.csv.gz and hierarchy.csv")
    parser.add_argument("--small", action="store_true", help="smaller versions of the data")
    parser.add_argument("--seeds", type=int, default=3, help="of data and noise")
    parser.add_argument("--data", nargs="+", choices=sorted({*DATA, *HELD_OUT}), default=list(DATA))
    parser.add_argument("--intervals", action="store_true", help="only how intervals of `posterior` are")
    parser.add_argument("--epsilon", nargs="+", type=Fraction, default=list(EPSILONS))
    options = parser.parse_args()
    names = [name for name in options.data if name != "Kuo's taxi" or options.taxi]
    ours("posterior", *fine(0, True, 0.1), Fraction(1), 0)
    found, lost = [], False
    if not options.intervals:
        print("| data | epsilon | tracking | Kuo | posterior | ratio to the better | CPU s |")
        print("|---|---|---|---|---|---|---|")
    methods = ("posterior",) if options.intervals else METHODS
    for row in rows(names, options.epsilon, options.seeds, options.small, options.taxi, methods):
        found.append(row)
        lost |= not options.intervals and show_error(row)
    lost |= show_intervals(found)
    return int(lost)


if __name__ == "__main__":
    sys.exit(main())
