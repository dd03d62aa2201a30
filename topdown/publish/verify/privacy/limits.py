"""Counts that public limits fix at a leaf: every way to narrow least and most, until nothing moves.

A set of kinds is the sum of the sets right inside it and of the kinds that are in none of these. What the whole can be
limits the parts, and the parts limit the whole. Sets that cross are not narrowed: they fix nothing where all least
counts of their cluster together are below each of its limits, and elsewhere no record of the cluster may be touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.publish.verify.arithmetic import Whole

Marks = NDArray[np.bool_]
Name = int | tuple[int]  # a set, or (set,): its kinds that are in no set inside it


@dataclass(frozen=True, eq=False)
class Side:
    """One side of what limits say at the leaves of sets of kinds.

    Args:
        sets: one row of kinds a set.
        least, most: (sets, leaves); `most` is negative where there is no limit.
    """

    sets: Marks
    least: Whole
    most: Whole


@dataclass(frozen=True, eq=False)
class Settled:
    """What limits settle.

    Args:
        count: (sets, leaves), the only count above 0 that is left, else 0.
        untouchable: (sets, leaves), where no record of the set may be touched.
        emptied: (leaves, kinds), where limits leave no room for a kind.
    """

    count: Whole
    untouchable: Marks
    emptied: Marks


def settle(side: Side, opened: Marks) -> Settled:
    """Return what limits settle at leaves that have some kinds open."""
    n_sets, n_leaves = side.least.shape
    out = Settled(
        np.zeros((n_sets, n_leaves), dtype=np.int64),
        np.zeros((n_sets, n_leaves), dtype=bool),
        np.zeros(opened.shape, dtype=bool),
    )
    for cluster in _clusters(side.sets):
        if (side.most[cluster] < 0).all():
            continue
        if _crosses(side.sets[cluster]):
            tight = _tight(side, cluster, opened)
            out.untouchable[cluster] = tight
        else:
            _narrow(side, cluster, opened, out)
    return out


def _clusters(sets: Marks) -> list[list[int]]:
    """Return the sets that hang together by kinds they share."""
    out: list[tuple[list[int], Marks]] = []
    for i, kinds in enumerate(sets):
        near = [c for c in out if (c[1] & kinds).any()]
        out = [c for c in out if not (c[1] & kinds).any()]
        members = [i, *(m for c in near for m in c[0])]
        out.append((sorted(members), np.any([kinds, *(c[1] for c in near)], axis=0)))
    return [members for members, _ in out]


def _crosses(sets: Marks) -> bool:
    for i, one in enumerate(sets):
        for other in sets[:i]:
            both = int((one & other).sum())
            if both and both < min(int(one.sum()), int(other.sum())):
                return True
    return False


def _tight(side: Side, cluster: list[int], opened: Marks) -> Marks:
    total = side.least[cluster].sum(axis=0)
    out = np.zeros(len(opened), dtype=bool)
    for s in cluster:
        out |= (side.most[s] > 0) & (total >= side.most[s])
        out |= (side.least[s] > 0) & ~opened[:, side.sets[s]].any(axis=1)
    return out


def _narrow(side: Side, cluster: list[int], opened: Marks, out: Settled) -> None:
    sets = {s: set(np.flatnonzero(side.sets[s]).tolist()) for s in cluster}
    above = {s: [t for t in cluster if sets[s] < sets[t]] for s in cluster}
    inside = {
        t: [s for s in cluster if above[s] and min(above[s], key=lambda u: len(sets[u])) == t]
        for t in cluster
    }
    own = {s: sorted(sets[s].difference(*(sets[t] for t in inside[s]))) for s in cluster}
    # So many records meet every least count, with room for one more: no end above this makes a difference.
    plenty = side.least[cluster].sum(axis=0) + 1
    low: dict[Name, Whole] = {s: side.least[s].copy() for s in cluster}
    high: dict[Name, Whole] = {
        s: np.where(side.most[s] < 0, plenty, np.minimum(side.most[s], plenty)) for s in cluster
    }
    for s in cluster:
        low[s,] = np.zeros_like(plenty)
        high[s,] = np.where(opened[:, own[s]].any(axis=1), plenty, 0)
    for _ in range(2 * len(cluster) + 1):  # a tree has no longer way up and down
        moved = [_whole_and_parts(low, high, s, [*inside[s], (s,)]) for s in cluster]
        if not any(moved):
            break
    wrong = np.any([low[k] > high[k] for k in low], axis=0)
    for s in cluster:
        out.untouchable[s] = wrong
        out.count[s] = np.where(~wrong & (low[s] == high[s]), high[s], 0)
        out.emptied[np.ix_(~wrong & (high[s] == 0), sorted(sets[s]))] = True
        out.emptied[np.ix_(~wrong & (high[s,] == 0), own[s])] = True


def _whole_and_parts(
    low: dict[Name, Whole], high: dict[Name, Whole], whole: Name, parts: Sequence[Name]
) -> bool:
    """Narrow a set and its parts by each other; tell whether anything moved."""
    before = [(low[k], high[k]) for k in (whole, *parts)]
    fewest = np.sum([low[p] for p in parts], axis=0)
    most = np.sum([high[p] for p in parts], axis=0)
    low[whole], high[whole] = np.maximum(low[whole], fewest), np.minimum(high[whole], most)
    for p in parts:
        others_low, others_high = fewest - low[p], most - high[p]
        low[p], high[p] = (
            np.maximum(low[p], low[whole] - others_high),
            np.minimum(high[p], high[whole] - others_low),
        )
    after = [(low[k], high[k]) for k in (whole, *parts)]
    return not all(
        np.array_equal(a, b)
        for old, new in zip(before, after, strict=True)
        for a, b in zip(old, new, strict=True)
    )
