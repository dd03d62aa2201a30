"""Where lower and upper bounds from public facts meet: which counts they fix at which leaf.

At a leaf, sets of cells hold least to most records. Sets that are nested or disjoint form a tree: least counts add up
from the innermost sets, what an enclosing set leaves over comes back down, and the two ends that are left for a set are
the fewest and the most records it has in any population that keeps all bounds. One record of a set can be replaced by
one outside, or leave it, in some such population if and only if these ends differ for every set that it leaves or
enters; for a tree of sets this is exact.

Sets that cross are not decided exactly. Where the least counts of such sets and of all that overlap them, added up, are
below each of the most, one record more or less breaks nothing, wherever it is. Elsewhere every record of these sets is
taken to be fixed alone, so that no change may touch it: fewer changes are called possible than there may be, never
more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.nested import cross, nest

NO_LIMIT = 1 << 61  # above every sum of bounds, and twice of it fits int64
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Met:
    """What bounds fix, beyond the cells that an upper bound of nobody closes.

    Args:
        count: int64 (n_leaves, n_sets), the one count a set can have; -1 where it can have several, or none but 0.
        alone: bool (n_leaves, n_sets), sets of which each record is taken to be fixed alone.
        shut: bool (n_leaves, n_classes), classes that the bounds together leave no room for.
    """

    count: Ints
    alone: Marks
    shut: Marks


def meet(sets: Marks, low: Ints, high: Ints, is_open: Marks) -> Met:
    """Return what bounds on sets of classes fix at each leaf.

    Args:
        sets: bool (n_sets, n_classes), distinct, none empty.
        low, high: int64 (n_leaves, n_sets), least and most records; NO_LIMIT where there is no upper bound.
        is_open: bool (n_leaves, n_classes), classes that some record can be in.
    """
    out = Met(
        np.full(low.shape, -1, dtype=np.int64), np.zeros(low.shape, bool), np.zeros(is_open.shape, bool)
    )
    common = (sets.astype(np.int64) @ sets.T.astype(np.int64)) > 0
    for part in _parts(common):
        if (high[:, part] == NO_LIMIT).all():
            continue  # lower bounds alone leave room for any record more
        if cross(sets[part]).any():
            out.alone[:, part] = _crowded(sets[part], low[:, part], high[:, part], is_open)[:, None]
        else:
            _nested(out, part, sets, low, high, is_open)
    return out


def _parts(common: Marks) -> list[Ints]:
    """Split sets into those that are linked by common classes, smaller sets first."""
    left, out = set(range(len(common))), []
    while left:
        found, new = set[int](), {min(left)}
        while new:
            found |= new
            new = {int(k) for k in np.flatnonzero(common[sorted(new)].any(axis=0))} - found
        left -= found
        out.append(np.array(sorted(found), dtype=np.int64))
    return out


def _crowded(sets: Marks, low: Ints, high: Ints, is_open: Marks) -> Marks:
    """Mark leaves where one record more may break a bound, or the least counts have no place."""
    placed = is_open.astype(np.int64) @ sets.T.astype(np.int64) > 0
    most = np.where(high > 0, high, NO_LIMIT).min(axis=1)
    return np.asarray((low.sum(axis=1) >= most) | ((low > 0) & ~placed).any(axis=1))


def _nested(out: Met, part: Ints, sets: Marks, low: Ints, high: Ints, is_open: Marks) -> None:
    found = nest(sets[part])
    order = part[found.inside_out].tolist()
    outer = dict(zip(part.tolist(), np.append(part, -1)[found.outer].tolist(), strict=True))
    direct = {s: found.innermost == i for i, s in enumerate(part.tolist())}
    n = len(low)
    least, most = {s: low[:, s].copy() for s in order}, {s: high[:, s].copy() for s in order}
    fewest, room = ({s: np.zeros(n, dtype=np.int64) for s in (*order, -1)} for _ in range(2))
    boundless = {s: is_open[:, direct[s]].any(axis=1).astype(np.int64) for s in order} | {
        -1: np.zeros(n, np.int64)
    }
    for s in order:  # up: sets inside come first
        np.maximum(least[s], fewest[s], out=least[s])
        np.minimum(most[s], np.where(boundless[s] > 0, NO_LIMIT, room[s]), out=most[s])
        fewest[outer[s]] += least[s]
        endless = most[s] == NO_LIMIT
        room[outer[s]] += np.where(endless, 0, most[s])
        boundless[outer[s]] += endless
    crowded = np.any([least[s] > most[s] for s in order], axis=0)
    for s in reversed(order):  # down: what the set around leaves over
        if outer[s] >= 0:
            up, endless = outer[s], most[s] == NO_LIMIT
            others = np.where(boundless[up] - endless > 0, NO_LIMIT, room[up] - np.where(endless, 0, most[s]))
            spare = most[up] - (fewest[up] - least[s])
            least[s], most[s] = np.maximum(least[s], least[up] - others), np.minimum(most[s], spare)
        out.count[:, s] = np.where((least[s] == most[s]) & (most[s] > 0) & ~crowded, most[s], -1)
        out.alone[:, s] = crowded
        out.shut[:, sets[s]] |= ((most[s] == 0) & ~crowded)[:, None]
        out.shut[:, direct[s]] |= ((most[s] == fewest[s]) & ~crowded)[:, None]
