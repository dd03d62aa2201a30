"""Sparse linear equations in exact rationals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Rational = Any  # flint.fmpq
Equation = tuple[Mapping[int, Rational], Rational]


class NotUniqueError(ArithmeticError):
    """The equations contradict each other, or leave an unknown open."""


def solve_exactly(
    equations: Sequence[Equation], n_unknowns: int, spare: Sequence[Equation] = ()
) -> tuple[list[Rational], list[bool]]:
    """Return the one solution of sparse equations {unknown: coefficient} . x = right side, and the spare ones used.

    Equations may repeat each other; short ones are used first. Each solved unknown is put into those that follow, so
    the many equations of two unknowns that programs of noise have stay short.

    Args:
        equations: all of them hold.
        n_unknowns: unknowns are 0 .. n_unknowns - 1.
        spare: used in their order, after the others, where they do not contradict what is already solved.

    Raises: NotUniqueError.
    """
    from flint import fmpq

    solved: dict[int, tuple[dict[int, Rational], Rational]] = {}
    order: list[int] = []
    used = [False] * len(spare)
    needed = sorted(equations, key=lambda one: len(one[0]))
    for k, (entries, right) in enumerate((*needed, *spare)):
        if len(order) == n_unknowns and k >= len(needed):
            break
        row, rest = _reduced(entries, right, solved)
        if not row:
            if rest != 0 and k < len(needed):
                raise NotUniqueError("The equations contradict each other.")
            continue
        pivot = max(row)
        scale = row.pop(pivot)
        if k >= len(needed):
            used[k - len(needed)] = True
        solved[pivot] = ({u: -c / scale for u, c in row.items()}, rest / scale)
        order.append(pivot)
    if len(order) < n_unknowns:
        raise NotUniqueError("The equations leave an unknown open.")
    values = [fmpq(0)] * n_unknowns
    for pivot in reversed(order):
        row, rest = solved[pivot]
        values[pivot] = sum((c * values[u] for u, c in row.items()), rest)
    return values, used


def _reduced(
    entries: Mapping[int, Rational],
    right: Rational,
    solved: Mapping[int, tuple[dict[int, Rational], Rational]],
) -> tuple[dict[int, Rational], Rational]:
    """Replace every solved unknown of an equation, until only open ones are left."""
    row: dict[int, Rational] = {}
    waiting = dict(entries)
    while waiting:
        unknown, coefficient = waiting.popitem()
        if coefficient == 0:
            continue
        if unknown not in solved:
            row[unknown] = row.get(unknown, 0) + coefficient
            continue
        line, constant = solved[unknown]
        right = right - coefficient * constant
        for u, c in line.items():
            waiting[u] = waiting.get(u, 0) + coefficient * c
    return {u: c for u, c in row.items() if c != 0}, right
