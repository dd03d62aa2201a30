"""Exact feasibility: is a vector a nonnegative combination of others? Both answers come with a checked proof.

This is the only linear programming that redundancy removal needs (Farkas' lemma). It is a phase-one simplex method
on whole numbers (Edmonds' pivots, Bland's rule): floating point solvers cannot decide an equality, and for the few
rows of an elimination, whole numbers are fast enough. The simplex method is not trusted: the multipliers, or the
separating direction, are verified by multiplication before they are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from topdown.errors import InternalError

Vector = Sequence[int]


def nonnegative_combination(generators: Sequence[Vector], target: Vector) -> tuple[Fraction, ...] | None:
    """Find y >= 0 with sum_i y_i generators[i] = target, or None if there is none.

    Args:
        generators: whole vectors of equal length.
        target: whole vector of that length.

    Raises:
        InternalError: the proof of the answer does not check (a mistake in this module).
    """
    n, d = len(generators), len(target)
    flip = [-1 if t < 0 else 1 for t in target]
    table = [
        [flip[r] * g[r] for g in generators] + [int(r == s) for s in range(d)] + [flip[r] * target[r]]
        for r in range(d)
    ]
    cost = [-sum(row[j] for row in table) for j in range(n)] + [0] * d + [-sum(row[-1] for row in table)]
    basis, scale = [n + r for r in range(d)], 1
    while True:
        enter = next((j for j in range(n) if cost[j] < 0), None)
        if enter is None:
            break
        leave = _ratio(table, basis, enter)
        pivot_row, pivot = table[leave], table[leave][enter]
        for row in (*(r for i, r in enumerate(table) if i != leave), cost):
            factor = row[enter]
            row[:] = [(v * pivot - factor * p) // scale for v, p in zip(row, pivot_row, strict=True)]
        basis[leave], scale = enter, pivot
    if cost[-1] < 0:
        # reduced cost of artificial r is 1 - u_r in units of `scale`
        direction = [flip[r] * (scale - cost[n + r]) for r in range(d)]
        _check(all(_dot(direction, g) <= 0 for g in generators) and _dot(direction, target) > 0)
        return None
    y = [Fraction(0)] * n
    for r, b in enumerate(basis):
        if b < n:
            y[b] = Fraction(table[r][-1], scale)
    sums = [sum((v * g[r] for v, g in zip(y, generators, strict=True) if v), Fraction(0)) for r in range(d)]
    _check(all(v >= 0 for v in y) and sums == list(target))
    return tuple(y)


def _ratio(table: Sequence[Vector], basis: Sequence[int], enter: int) -> int:
    best = -1
    for i, row in enumerate(table):
        if row[enter] <= 0:
            continue
        if best >= 0:
            left, right = row[-1] * table[best][enter], table[best][-1] * row[enter]
        if best < 0 or left < right or (left == right and basis[i] < basis[best]):
            best = i
    _check(best >= 0)
    return best


def _dot(a: Vector, b: Vector) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _check(fact: bool) -> None:
    if not fact:
        raise InternalError("an exact feasibility proof does not check", code="X040", fix="report it")
