"""The closest group totals that can be split over the leaves: Euclidean projection on base polytopes.

Groenevelt's decomposition: spread the total evenly; the set that exceeds its limit most is exactly full in the
solution; solve inside it and outside it. At most k - 1 splits a node, all nodes at once. The result is not taken on
trust: `certify` bounds its distance from the optimum in exact numbers, with Edmonds' greedy algorithm instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from topdown.solve.implied.polymatroid import Polymatroid, bits, subset_sums_exact
from topdown.solve.problem import Floats, Ints

MAX_ENTRIES = 1 << 22  # of the working arrays, to bound memory


def project(tables: Ints, points: Floats) -> Floats:
    """Project each point on the base polytope of its table.

    Args:
        tables: int64 (m, 2^k), U of each node (`polymatroid.coverage`).
        points: float64 (m, k), wanted group totals.

    Returns:
        float64 (m, k), persons; sums over sets exact to rounding error. Cost: O(k 2^k) a split and node.
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    m, k = points.shape
    step = max(1, MAX_ENTRIES >> k)
    parts = [_project(tables[i : i + step], points[i : i + step], bits(k)) for i in range(0, m, step)]
    return np.concatenate(parts) if parts else np.zeros((0, k))


def _project(tables: Ints, points: Floats, members: Floats) -> Floats:
    m, k = points.shape
    sets = np.arange(len(members))
    # rounding error of a sum of k terms; a set that exceeds its limit by less is full, not exceeded
    tolerance = 1e-15 * (k + 1) * (tables[:, -1] + np.abs(points).sum(axis=1) + 1.0)
    out = np.zeros((m, k))
    owner = np.arange(m)
    inside, full = np.full(m, len(sets) - 1), np.zeros(m, dtype=np.int64)
    while len(owner):
        member = members[inside]
        base = tables[owner, full]
        amount = (tables[owner, full | inside] - base).astype(np.float64)
        share = (amount - (points[owner] * member).sum(axis=1)) / np.maximum(member.sum(axis=1), 1.0)
        x = (points[owner] + share[:, None]) * member
        limit = tables[owner[:, None], full[:, None] | (sets[None, :] & inside[:, None])] - base[:, None]
        over = x @ members.T - limit
        worst = over.argmax(axis=1)
        exceeds = over[np.arange(len(owner)), worst] > tolerance[owner]
        worst &= inside
        split = exceeds & (worst != 0) & (worst != inside)
        np.add.at(out, owner[~split], x[~split])
        a, b, c, o = worst[split], inside[split], full[split], owner[split]
        owner = np.concatenate([o, o])
        inside = np.concatenate([a, b & ~a])
        full = np.concatenate([c, c | a])
    return out


@dataclass(frozen=True)
class Certificate:
    """How far a claimed projection can be from the true one, exact.

    Args:
        violation: largest excess of a set over its limit, or of the sum over the total; persons.
        gap: duality gap of 1/2 |x - point|^2 in persons squared.
    """

    violation: Fraction
    gap: Fraction

    @property
    def distance(self) -> float:
        """Bound on the distance to the projection in persons, when `violation` is 0: the square root of the gap."""
        return sqrt(max(0.0, float(self.gap))) * (1 + 1e-15)


def certify(polymatroid: Polymatroid, point: Floats, value: Floats) -> Certificate:
    """Check a projection without using how it was made.

    With d = value - point, no y of the polytope has a smaller d.y than the greedy vertex for d; the gap is
    d.value - d.y >= |value - projection|^2. Numbers are read as the exact rationals they are.

    Args:
        polymatroid: where the value should lie.
        point: float64 (k,), what was projected.
        value: float64 (k,), the claim.
    """
    x = [Fraction(float(v)) for v in value]
    d = [a - Fraction(float(p)) for a, p in zip(x, point, strict=True)]
    excess = max(s - int(u) for s, u in zip(subset_sums_exact(x), polymatroid.table, strict=True))
    short = abs(sum(x, Fraction(0)) - polymatroid.total)
    middle = sum(d, Fraction(0)) / len(
        d
    )  # the sum is fixed, so d may be shifted; rounding of the sum drops out
    gap, prefix = Fraction(0), 0
    for j in sorted(range(len(d)), key=d.__getitem__):
        y = int(polymatroid.table[prefix | 1 << j]) - int(polymatroid.table[prefix])
        gap += (d[j] - middle) * (x[j] - y)
        prefix |= 1 << j
    return Certificate(max(excess, short), gap)
