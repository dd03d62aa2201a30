"""Kernels that split whole numbers among the parts of a region: nearest, bounded, tracked, and matched.

Slow twins: `tests/oracles/group_sizes.py` and enumeration in the tests. Source: cumulative tracking, pgsr.md 2.3.
"""

from __future__ import annotations

from math import floor

import numpy as np

from topdown.arrays import Floats, FloatsOut, FloatTable, FloatTableOut, Ints, IntsOut, IntTableOut, Whole

LAST: float = 2.0
"""Remainder of an entry at 0: after all others, which are 0 or less."""


class Room:
    """What a split among at most n parts overwrites."""

    remainder: FloatsOut
    order: IntsOut
    spare: IntsOut

    def __init__(self, n: Whole) -> None:
        self.remainder = np.empty(n)
        self.order, self.spare = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)


def order_ascending(keys: Floats, room: Room) -> None:
    """Fill the order of the room with the places of the keys, ascending; equal keys stay as they are (merge sort)."""
    n = keys.shape[0]
    order: IntsOut = room.order
    spare: IntsOut = room.spare
    for i in range(n):
        order[i] = i
    width: Whole = 1
    while width < n:
        start: Whole = 0
        while start < n:
            i, middle = start, min(start + width, n)
            k, stop = middle, min(start + 2 * width, n)
            for out in range(start, stop):
                if k >= stop or (i < middle and keys[order[i]] <= keys[order[k]]):
                    spare[out] = order[i]
                    i += 1
                else:
                    spare[out] = order[k]
                    k += 1
            start = stop
        for i in range(n):
            order[i] = spare[i]
        width *= 2


def clipped_sum(target: Floats, cap: Ints, shift: float) -> float:
    """Return the sum of target - shift, each clipped to 0..cap."""
    total = 0.0
    for i in range(target.shape[0]):
        total += min(max(target[i] - shift, 0.0), float(cap[i]))
    return total


def split_bounded(target: Floats, cap: Ints, total: Whole, out: IntsOut) -> None:
    """Fill `out` with the integers in 0..cap nearest to `target` (least squares) that sum to `total` <= sum cap.

    The optimum without caps is taken if it keeps them. Otherwise target - t is clipped, t found by bisection,
    floored, and the units left go one after the other to the largest target - out below its cap, which is optimal.
    """
    split_bounded_in(target, cap, total, out, Room(target.shape[0]))


def split_bounded_in(target: Floats, cap: Ints, total: Whole, out: IntsOut, room: Room) -> None:
    """As `split_bounded`, with room that calls share."""
    n = target.shape[0]
    split_in(target, total, out, room)
    for i in range(n):
        if out[i] > cap[i]:
            break
    else:
        return
    low, high = target[0] - cap[0], target[0]
    for i in range(n):
        low = min(low, target[i] - cap[i])
        high = max(high, target[i])
    for _ in range(64):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if clipped_sum(target, cap, middle) > total:
            low = middle
        else:
            high = middle
    left = total
    for i in range(n):
        out[i] = int(floor(min(max(target[i] - high, 0.0), float(cap[i]))))
        left -= out[i]
    while left > 0:
        best: Whole = -1
        for i in range(n):
            if out[i] < cap[i] and (best < 0 or target[i] - out[i] > target[best] - out[best]):
                best = i
        out[best] += 1
        left -= 1


def track_down(target: FloatTable, root: Ints, totals: Ints, first_child: Ints, counts: IntTableOut) -> None:
    """Fill counts size by size: each parent's count split towards what its children's cumulative targets lack.

    What is still to come of a region, totals - running, bounds each count. Where the totals of siblings sum to their
    parent's, every split has a solution and every region ends at its total; where every total is the root's, no bound
    is met.

    Args:
        target: cumulative targets, (n_sizes, n_nodes).
        root: counts of the root per size, which sum to totals[0].
        totals: number of groups of every node, consistent; or the root's at every node.
        first_child: see `Tree.first_child`.
        counts: filled; (n_sizes, n_nodes).

    Source: cumulative tracking, pgsr.md 2.3.
    """
    n_sizes, n_nodes = target.shape[0], target.shape[1]
    n_inner = first_child.shape[0] - 1
    running: IntsOut = np.zeros(n_nodes, dtype=np.int64)
    lacking: FloatsOut = np.empty(n_nodes)
    cap: IntsOut = np.empty(n_nodes, dtype=np.int64)
    room = Room(n_nodes)
    for s in range(n_sizes):
        counts[s, 0] = root[s]
        for g in range(n_inner):
            b, e = first_child[g], first_child[g + 1]
            if counts[s, g] == 0:
                for c in range(b, e):
                    counts[s, c] = 0
                continue
            for c in range(b, e):
                lacking[c] = target[s, c] - running[c]
                cap[c] = totals[c] - running[c]
            split_bounded_in(lacking[b:e], cap[b:e], counts[s, g], counts[s, b:e], room)
            for c in range(b, e):
                running[c] += counts[s, c]


def split(target: Floats, total: Whole, out: IntsOut) -> None:
    """Fill `out` with the nonnegative integers nearest to `target` (least squares) that sum to `total`.

    Projection on the simplex, floors, then the largest remainders: optimal, since a unit added to an entry
    with remainder f costs 1 - 2 (threshold + f), never less for an entry at 0 below the threshold.
    """
    split_in(target, total, out, Room(target.shape[0]))


def split_in(target: Floats, total: Whole, out: IntsOut, room: Room) -> None:
    """As `split`, with room that calls share."""
    n = target.shape[0]
    if total == 0:
        for i in range(n):
            out[i] = 0
        return
    if n == 1:
        out[0] = total
        return
    order: IntsOut = room.order
    remainder: FloatsOut = room.remainder
    order_ascending(target, room)
    run, shift = 0.0, 0.0
    for k in range(n):
        largest = target[order[n - 1 - k]]
        run += largest
        candidate = (run - total) / (k + 1)
        if largest <= candidate:
            break
        shift = candidate
    left = total
    for i in range(n):
        at = max(target[i] - shift, 0.0)
        out[i] = int(floor(at))
        left -= out[i]
        remainder[i] = out[i] - at if at > 0.0 else LAST
    if left == 0:
        return
    order_ascending(remainder[:n], room)
    turn: Whole = 0
    while left > 0:
        out[order[turn % n]] += 1
        left -= 1
        turn += 1
    while left < 0:
        if out[order[n - 1 - turn % n]] > 0:
            out[order[n - 1 - turn % n]] -= 1
            left += 1
        turn += 1


def split_down(noisy: FloatTable, root: Ints, first_child: Ints, counts: IntTableOut) -> None:
    """Fill counts level by level: each parent's count of one size split nearest to its children's answers."""
    n_inner = first_child.shape[0] - 1
    room = Room(noisy.shape[1])
    for s in range(noisy.shape[0]):
        counts[s, 0] = root[s]
        for g in range(n_inner):
            b, e = first_child[g], first_child[g + 1]
            split_in(noisy[s, b:e], counts[s, g], counts[s, b:e], room)


def match_runs(
    size_p: Ints, count_p: Ints, size_c: Ints, left: IntsOut, var_p: Floats, var_c: Floats, child: Ints,
    out: FloatTableOut,
) -> Whole:  # fmt: skip
    """Fill rows (child, mean size, variance, groups) of matched groups; return how many.

    Children with groups of one size share the parent's in proportion to what they have left.

    Args:
        size_p, count_p: of the parent's groups. size_c, left: size and count of the children's, ascending; the last
            is used up.
        var_p, var_c: variances of both.
        child: whose each of the children's runs is.
    """
    fraction: FloatsOut = np.empty(size_c.shape[0])
    take: IntsOut = np.empty(size_c.shape[0], dtype=np.int64)
    n: Whole = 0
    i: Whole = 0
    have: Whole = 0
    start: Whole = 0
    while start < size_c.shape[0]:
        stop, tied = start, 0
        while stop < size_c.shape[0] and size_c[stop] == size_c[start]:
            tied += left[stop]
            stop += 1
        while tied > 0:
            if have == 0:
                have = count_p[i]
                i += 1
            m = min(have, tied)
            given: Whole = 0
            for j in range(start, stop):
                exact = m * (left[j] / tied)
                take[j] = min(int(exact), left[j])
                given += take[j]
                fraction[j] = exact - take[j] if take[j] < left[j] else -1.0
            while given < m:
                best = start
                for j in range(start, stop):
                    if fraction[j] > fraction[best]:
                        best = j
                take[best] += 1
                fraction[best] = fraction[best] - 1.0 if take[best] < left[best] else -1e300
                given += 1
            for j in range(start, stop):
                if take[j] > 0:
                    wp, wc = 1.0 / var_p[i - 1], 1.0 / var_c[j]
                    out[n, 0] = child[j]
                    out[n, 1] = (wp * size_p[i - 1] + wc * size_c[j]) / (wp + wc)
                    out[n, 2] = 1.0 / (wp + wc)
                    out[n, 3] = take[j]
                    left[j] -= take[j]
                    n += 1
            have -= m
            tied -= m
        start = stop
    return n
