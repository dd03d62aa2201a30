"""Bound the characteristic function far out by a part of it that has a short period.

Without a usable common lattice some groups still share one (the queries of a few levels). Their product is periodic in
s, so its sum over the nodes of one period, once bounded, bounds every later period (PROOF.md, lemma 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from topdown.accountant.law import EngineLimitError, Group, Law, common_spacing
from topdown.accountant.peaks import SMALLEST_PRUNED, find_peaks

_MOST_PEAKS = 1500
_CUTOFF = 30.0
_LIMIT = 400_000


@dataclass(frozen=True)
class Blocks:
    """`mass` bounds the sum of |phi_part| over any `nodes` - 1 consecutive nodes, which cover a period or less."""

    mass: float
    nodes: int


def pruned_weights(law: Law) -> list[tuple[Fraction, Group]]:
    """Return (weight, group), ascending, of the groups whose decay the sieve uses."""
    usable = [(w, g) for w, g in zip(law.weights, law.groups, strict=True) if g.variance >= SMALLEST_PRUNED]
    return sorted(usable, key=lambda pair: pair[0])


def block_of(law: Law, period: Fraction) -> Blocks:
    """Return the block bound of the part of the law that makes it smallest."""
    best = Blocks(1.0, 2)
    part = _best_part(law)
    if part is None:
        return best
    length = float(period) / float(part.spacing)
    ratios = tuple(w / period for w in part.weights)
    cells = math.ceil(length)
    try:
        found = find_peaks(part, ratios, cells, _CUTOFF, _LIMIT, cells=True)
    except EngineLimitError:
        return best
    # cells + 1 intervals cover one period; a grid of the same step has one node in each, whatever its offset
    return Blocks(found.dropped + found.kept + 1, cells)


def _best_part(law: Law) -> Law | None:
    """Return the commensurable subset of groups with the smallest estimated mean modulus (greedy from each group)."""
    usable = pruned_weights(law)
    best: tuple[float, list[Group]] | None = None
    for seed, (first, group) in enumerate(usable):
        spacing, slowest, chosen = first, first, [group]
        for weight, other in usable[:seed] + usable[seed + 1 :]:
            finer = common_spacing(spacing, weight)
            if min(slowest, weight) / finer <= _MOST_PEAKS:
                spacing, slowest = finer, min(slowest, weight)
                chosen.append(other)
        mean = float(spacing) / math.sqrt(2 * math.pi * float(Law(tuple(chosen)).total))
        if best is None or mean < best[0]:
            best = (mean, chosen)
    return Law(tuple(best[1])) if best else None
