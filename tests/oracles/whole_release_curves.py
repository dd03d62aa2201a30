"""Trade-off curve and delta of a whole release over all pairs of paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from topdown.arrays import Floats
from topdown.privacy import Threshold, alpha_of, epsilon_of
from topdown.privacy.accountant import (
    Pair,
    ReleasePath,
    WorstPair,
    all_pairs,
    dhc_paths,
    float_exp,
    pair_composition,
    worst_epsilon,
)
from topdown.workers import workers_with


def dhc_worst(deltas: Iterable[Threshold], *, proxy: bool = False) -> list[WorstPair]:
    """Return the worst pair at each delta, over all 946 pairs or (proxy) the un-bypassed path with itself.

    Cost: about 10 s for all pairs; milliseconds for the proxy, which is right to 1e-6 and meant for tuning.
    """
    paths, unbypassed = dhc_paths()
    return worst_epsilon([paths[unbypassed]] if proxy else paths, deltas)


def pair_curves(
    paths: Sequence[ReleasePath], epsilons: Iterable[Threshold], *, workers: int = 1
) -> dict[Pair, tuple[Floats, Floats]]:
    """Return for every pair (lower, upper) arrays of delta at each epsilon (float64 engines).

    Cost: 946 pairs at 40 points take about 10 s on one core.
    """
    pairs = all_pairs(paths)
    with workers_with([epsilon_of(e) for e in epsilons], workers) as pool:
        found = zip(pairs, pool.map(_curve, pairs), strict=True)
        return {(one.name, two.name): bounds for (one, two), bounds in found}


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


def _curve(points: list[Fraction], pair: tuple[ReleasePath, ReleasePath]) -> tuple[Floats, Floats]:
    return pair_composition(*pair).delta_arrays(points)
