"""Whole release: the composition of every pair of paths, the worst epsilon, the overall trade-off function.

A path is the list of areas that contain one block; its budgets depend on which levels are bypassed. Replacing a
record moves it from path k to path l, so the pair's composition has the coordinates of both (arXiv 2606.29835,
section 3). The release is (epsilon, delta) with epsilon the maximum over pairs, and its trade-off function is
the lower convex envelope of the minimum over pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from topdown.accountant.composition import DIGITS, Composition
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Exact, Threshold, alpha_of, delta_of, epsilon_of
from topdown.accountant.tradeoff import float_exp
from topdown.errors import ConfigError
from topdown.workers import workers_with

Pair = tuple[str, str]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Path:
    """One path: its name and, for each rho, how many of its measurements have it (exact, zeros dropped).

    rho is what the measurement costs a replaced record that stays on this path (zCDP, bounded): its noise is
    N_Z(0, 1 / rho), and the record moves two of its counts. A record that changes path moves one count of each.
    """

    name: str
    budgets: tuple[tuple[Fraction, int], ...]

    @property
    def rho(self) -> Fraction:
        """Budget of the path: zCDP of replacing a record that stays on it."""
        return sum((r * n for r, n in self.budgets), Fraction(0))


@dataclass(frozen=True)
class Worst:
    """Worst pair at one delta."""

    delta: Fraction
    epsilon: Enclosure
    pair: Pair


def path(name: str, budgets: Mapping[Exact, int] | Iterable[tuple[Exact, int]]) -> Path:
    """Return a checked path."""
    law = Composition.from_rho(
        budgets, "add_remove"
    ).law  # one count of each measurement, as on leaving the path
    return Path(name, tuple((1 / (2 * g.variance), g.count) for g in law.groups))


def pair_composition(one: Path, two: Path) -> Composition:
    """Return the composition of moving a record from one path to the other: one count of each measurement of both."""
    return Composition.of((1 / r, 1, n) for r, n in (*one.budgets, *two.budgets))


def all_pairs(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Return every unordered pair, a path with itself included; paths with equal budgets count once."""
    if not paths:
        raise ConfigError("no path was given", code="A012", fix="give at least one path with its budgets")
    distinct: dict[tuple[tuple[Fraction, int], ...], Path] = {}
    for p in paths:
        distinct.setdefault(tuple(sorted(p.budgets)), p)
    return list(combinations_with_replacement(distinct.values(), 2))


def pair_curves(
    paths: Sequence[Path], epsilons: Iterable[Threshold], *, workers: int = 1
) -> dict[Pair, tuple[Floats, Floats]]:
    """Return for every pair (lower, upper) arrays of delta at each epsilon (float64 engines).

    Cost: 946 pairs at 40 points take about 10 s on one core.
    """
    pairs = all_pairs(paths)
    with workers_with([epsilon_of(e) for e in epsilons], workers) as pool:
        found = zip(pairs, pool.map(_curve, pairs), strict=True)
        return {(one.name, two.name): bounds for (one, two), bounds in found}


def worst_epsilon(
    paths: Sequence[Path], deltas: Iterable[Threshold], *, engine: str = "auto", digits: int = DIGITS
) -> list[Worst]:
    """Return the largest epsilon over all pairs at each delta.

    Every pair's delta is enclosed at the epsilon of one pair; the pair with the largest is inverted; every other pair
    whose certified delta at that epsilon is below the target cannot be worse, and the few left are inverted too.
    """
    targets = [delta_of(d) for d in deltas]
    pairs = [((one.name, two.name), pair_composition(one, two)) for one, two in all_pairs(paths)]
    return [_worst(pairs, target, engine, digits) for target in targets]


def _worst(pairs: list[tuple[Pair, Composition]], target: Fraction, engine: str, digits: int) -> Worst:
    mark = pairs[0][1].epsilon(target).lower
    top = max(range(len(pairs)), key=lambda i: pairs[i][1].delta_arrays([mark])[1][0])
    name, best = pairs[top][0], pairs[top][1].epsilon(target, engine=engine, digits=digits)
    for i, (other, composition) in enumerate(pairs):
        if i == top or Fraction(float(composition.delta_arrays([best.lower])[1][0])) < target:
            continue
        found = composition.epsilon(target, engine=engine, digits=digits)
        name = other if found.lower > best.lower else name
        best = _larger(best, found)
    return Worst(target, best, name)


def overall_delta(curves: Mapping[Pair, tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return (lower, upper) of the release's delta at each epsilon: the maximum over pairs."""
    lower = np.max(np.stack([low for low, _ in curves.values()]), axis=0)
    upper = np.max(np.stack([high for _, high in curves.values()]), axis=0)
    return lower, upper


def envelope_below(
    alphas: Iterable[Threshold], epsilons: Iterable[Threshold], delta_upper: Sequence[float]
) -> list[Fraction]:
    """Return certified lower bounds of the overall trade-off function at each alpha.

    f(alpha) >= max(0, 1 - delta - e**epsilon alpha, e**-epsilon (1 - delta - alpha)) for every epsilon
    (Dong, Roth, Su 2022, proposition 5): a maximum of lines, hence convex.
    """
    lines = []
    for e, d in zip(map(epsilon_of, epsilons), delta_upper, strict=True):
        low, high = float_exp(e)
        lines.append((low, high, 1 - Fraction(d)))
    out = []
    for a in map(alpha_of, alphas):
        steep = (room - high * a for _, high, room in lines)
        flat = ((room - a) / high if room > a else (room - a) / low for low, high, room in lines)
        out.append(max(Fraction(0), *steep, *flat))
    return out


def envelope_above(points: Iterable[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """Return the lower convex hull of (alpha, upper bound of f) points: convex functions below them stay below it."""
    hull: list[tuple[Fraction, Fraction]] = []
    for x, y in sorted(points):
        if hull and hull[-1][0] == x:
            continue
        while len(hull) > 1:
            (x1, y1), (x2, y2) = hull[-2:]
            if (y2 - y1) * (x - x1) < (y - y1) * (x2 - x1):
                break
            hull.pop()
        hull.append((x, y))
    return hull


def _larger(one: Enclosure, two: Enclosure) -> Enclosure:
    method = one.method if one.lower >= two.lower else two.method
    return Enclosure(max(one.lower, two.lower), max(one.upper, two.upper), method)


def _curve(points: list[Fraction], pair: tuple[Path, Path]) -> tuple[Floats, Floats]:
    return pair_composition(*pair).delta_arrays(points)
