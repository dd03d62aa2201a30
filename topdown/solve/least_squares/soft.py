"""Soft rules in a problem: at what price, and what to do where they cannot all be kept.

A problem is solved without them first. If its estimate breaks one it is solved again with all of them; if that does not
come to an optimum soon, what cannot be kept is found by a linear program and given up exactly; if even that does not
help, the estimate without rules stands. The optimality check holds for whichever is returned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack, vstack

from topdown.solve.backends import linear_program
from topdown.solve.groups import Floats, Ints
from topdown.solve.least_squares.kkt import TARGET_PERSONS
from topdown.solve.least_squares.policy import solve
from topdown.solve.least_squares.problem import Compared, Problem, Solution
from topdown.solve.least_squares.quadratics import Quadratic

SOFT_KEPT_PERSONS = 1e-6  # an estimate this little above a soft rule keeps it
PRICE = 4.0  # of soft rules, times the largest curvature and the persons by which they are broken
FIRST_STEPS, SECOND_STEPS = 3_000, 8_000
SECOND_POWER = 0.25
MOST_ENTRIES = 50_000  # of a problem whose linear program is tried


def worst_break(rows: Ints, table: Floats, most: Ints | None = None) -> float:
    """Return by how much a table breaks the worst soft rule, in persons of its heavier side."""
    held = rows / _scale(rows) @ table
    return float((held if most is None else held - most / _scale(rows)).max(initial=0.0))


def priced(rows: Ints, most: Ints, quadratic: Quadratic, over_persons: float) -> Compared:
    """Return soft rules at a price above what keeping them can be worth.

    Args:
        rows: int64 (n_rules, n). most: int64 (n_rules, m), what they may add up to.
        over_persons: by how much the table without them breaks the worst.
    """
    if not len(rows):
        return Compared.none(rows.shape[1], most.shape[1])
    price = PRICE * quadratic.largest() * max(over_persons, 1.0)
    return Compared(rows / _scale(rows), most / _scale(rows), price)


def _scale(rows: Ints) -> Ints:
    scale: Ints = np.maximum(np.abs(rows).max(axis=1, initial=1, keepdims=True), 1)
    return scale


def with_rules(problem: Problem, rows: Ints, most: Ints, estimate: Floats) -> Problem | None:
    """Return the problem with those soft rules priced in, or None if its estimate without them keeps them all.

    Args:
        rows: int64 (n_rules, n). most: int64 (n_rules, m). estimate: (n, m).
    """
    if not len(rows):
        return None
    over = worst_break(rows, estimate, most)
    if over <= SOFT_KEPT_PERSONS:
        return None
    return replace(problem, compared=priced(rows, most, problem.quadratic, over))


def solve_with_rules(problem: Problem) -> tuple[Solution, float] | None:
    """Return a certified optimum with soft rules and its residual, or None if none was found."""
    found = solve(problem, most_steps=FIRST_STEPS)
    if found[1] <= TARGET_PERSONS:
        return found
    relaxed = _relaxed(problem)
    if relaxed is None:
        return None
    found = solve(relaxed, most_steps=SECOND_STEPS, power=SECOND_POWER)
    return found if found[1] <= TARGET_PERSONS else None


def _relaxed(problem: Problem) -> Problem | None:
    """Return the problem with every rule loosened by what no table can keep, the least in all; None if too large."""
    soft, m = problem.compared, problem.shape[1]
    row, child = np.nonzero(problem.allowed)
    if len(row) > MOST_ENTRIES:
        return None
    k, entry = len(soft.rows), np.arange(len(row))
    segment = np.repeat(np.arange(len(problem.sums)), np.diff(problem.pointers))[row * m + child]
    by_segment = csr_array((np.ones(len(row)), (segment, entry)), shape=(len(problem.sums), len(row)))
    parts, totals = [by_segment], [problem.sums]
    if problem.fixed.n_groups:
        by_group = (problem.fixed.of[row] * m + child, entry)
        parts.append(csr_array((np.ones(len(row)), by_group), shape=(problem.fixed.answers.size, len(row))))
        totals.append(problem.fixed.answers.reshape(-1))
    rule, place = np.nonzero(soft.rows[:, row])
    rows = csr_array((soft.rows[rule, row[place]], (rule * m + child[place], place)), shape=(k * m, len(row)))
    equal = vstack(parts, format="csr")
    least = linear_program.minimise(
        np.concatenate([np.zeros(len(row)), np.ones(k * m)]),
        (hstack([rows, -eye_array(k * m)], format="csr"), soft.most.reshape(-1)),
        (hstack([equal, csr_array((equal.shape[0], k * m))], format="csr"), np.concatenate(totals)),
    )
    if least is None:
        return None
    over = np.maximum(least.x[len(row) :], 0.0).reshape(k, m)
    return replace(problem, compared=replace(soft, most=soft.most + over))
