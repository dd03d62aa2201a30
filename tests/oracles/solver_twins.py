"""Slow, obvious twins of the fast paths, for tests and for readers."""

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from tests.helpers.polytopes import limit_excess
from topdown.arrays import Floats, Ints
from topdown.solve import LowerBounds, RowGroups
from topdown.solve.rounding import RoundingProblem, whole_parts


def gram(labels: Ints, weights: Floats) -> Floats:
    """Twin of `kernels.gram`: form each query matrix and add up weight * Q'Q."""
    total = np.zeros((labels.shape[1], labels.shape[1]))
    for label, weight in zip(labels, weights, strict=True):
        matrix = (np.unique(label)[:, None] == label[None, :]).astype(np.float64)
        total += weight * matrix.T @ matrix
    return total


def project(v: Floats, total: float, allowed: NDArray[np.bool_]) -> Floats:
    """Twin of `kernels.project_segments` for one segment: try every number of positive entries, largest first."""
    out = np.zeros_like(v)
    if total < 0:
        out[allowed] = np.maximum(v[allowed], 0.0)
        return out
    inside = np.flatnonzero(allowed)
    if total == 0 or not len(inside):
        return out
    order = inside[np.argsort(-v[inside])]
    for count in range(len(order), 0, -1):
        threshold = (v[order[:count]].sum() - total) / count
        if v[order[count - 1]] > threshold:
            out[order[:count]] = v[order[:count]] - threshold
            return out
    raise ValueError("no threshold found")


def project_base(v: Floats, limits: Floats) -> Floats:
    """Twin of `kernels.project_base`: the same decomposition, over explicit sets of entries."""
    k = len(v)
    slack = [k] if len(limits) > 1 << k else []
    y = np.append(v, 0.0)

    def limit(entries: tuple[int, ...]) -> float:
        return float(limits[sum(1 << i for i in entries)])

    def settle(entries: tuple[int, ...], below: tuple[int, ...]) -> None:
        rest = limit(entries + below) - limit(below) - sum(y[i] for i in entries)
        moved = [i for i in entries if i in slack] or list(entries)
        for i in moved:
            y[i] += rest / len(moved)
        over = {
            some: sum(y[i] for i in some) - limit(some + below) + limit(below)
            for n in range(1, len(entries))
            for some in combinations(entries, n)
        }
        fullest = max(over, key=lambda some: over[some], default=())
        if over.get(fullest, 0.0) > 1e-11:
            for i in entries:
                y[i] = v[i] if i < k else 0.0
            settle(fullest, below)
            settle(tuple(i for i in entries if i not in fullest), below + fullest)

    settle((*range(k), *slack), ())
    return y[:k]


def rounding_cost(problem: RoundingProblem, counts: Ints) -> float:
    """Weighted L1 distance of a whole table to the estimate, over every table of the chain, in persons."""
    cost = 0.0
    for table, weight in zip(problem.chain, problem.weights, strict=True):
        for answer in np.unique(table):
            rows = table == answer
            off = counts[rows].sum(axis=0) - problem.estimate[rows].sum(axis=0)
            cost += weight * float(np.abs(off).sum())
    return cost


def sums_of(groups: RowGroups, counts: Ints) -> Ints:
    """Twin of `RowGroups.sums`: add a table up group by group."""
    found = [counts[groups.of == a].sum(axis=0) for a in range(groups.n_groups)]
    return np.array(found, dtype=np.int64).reshape(groups.n_groups, counts.shape[1])


def best_rounding(problem: RoundingProblem) -> tuple[float, Ints | None]:
    """Try every way of rounding up or not; return the least cost and a table, or (inf, None)."""
    whole, _ = whole_parts(problem)
    places = np.flatnonzero(problem.allowed.reshape(-1))
    best: tuple[float, Ints | None] = (np.inf, None)
    for ups in product((0, 1), repeat=len(places)):
        counts = whole.reshape(-1).copy()
        counts[places] += np.array(ups, dtype=np.int64)
        table = counts.reshape(whole.shape)
        if any(total >= 0 and row.sum() != total for row, total in zip(table, problem.sums, strict=True)):
            continue
        if any((sums_of(t, table) != t.answers).any() for t in (problem.totals, problem.exact)):
            continue
        held, bounds = sums_of(problem.bounds, table), problem.bounds
        if (
            (held < bounds.lower).any()
            if isinstance(bounds, LowerBounds)
            else limit_excess(bounds.limits, held).max() > 0
        ):
            continue
        cost = rounding_cost(problem, table)
        if cost < best[0]:
            best = (cost, table)
    return best


def worst_violation(z: Floats, allowed: NDArray[np.bool_], pointers: Ints, sums: Floats) -> float:
    """Twin of `kernels_shared.worst_violation`: every violation, and the largest."""
    found = [0.0, *(-z), *np.abs(z[~allowed])]
    for first, last, total in zip(pointers[:-1], pointers[1:], sums, strict=True):
        found.append(abs(z[first:last].sum() - total) if total >= 0 else 0.0)
    return float(np.max(found))


def remaining_gap(z: Floats, allowed: NDArray[np.bool_], pointers: Ints, sums: Floats, d: Floats) -> Floats:
    """Twin of `kernels_shared.leave_gap`: segment by segment, by masks."""
    rest = np.zeros_like(d)
    for first, last, total in zip(pointers[:-1], pointers[1:], sums, strict=True):
        here, may, positive = d[first:last], allowed[first:last], z[first:last] > 0
        nu = 0.0
        if total >= 0 and (positive.any() or may.any()):
            nu = here[positive].mean() if positive.any() else here[may].min()
        rest[first:last] = np.where(positive, here - nu, np.minimum(here - nu, 0.0)) * may
    return rest
