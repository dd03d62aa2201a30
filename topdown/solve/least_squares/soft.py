"""Soft rules in one stage of an extension: which of them the stage decides, at what price, and if at all.

A stage is solved without them first. If its estimate breaks one it is solved again with all of them; if that does not
come to an optimum soon, what cannot be kept is found by a linear program and given up exactly; if even that does not
help, the estimate without rules stands. The optimality check holds for whichever is returned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack, vstack

from topdown.model.labels import refines
from topdown.solve.backends import linear_program
from topdown.solve.groups import Floats, Ints
from topdown.solve.least_squares.kkt import TARGET_PERSONS
from topdown.solve.least_squares.policy import solve
from topdown.solve.least_squares.problem import Compared, Problem, Solution
from topdown.solve.passes import PRICE, SOFT_KEPT_PERSONS, worst_break

FIRST_STEPS, SECOND_STEPS = 3_000, 8_000
SECOND_POWER = 0.25
MOST_ENTRIES = 50_000  # of a stage whose linear program is tried


def rules_of_stage(rows: Ints, table: Ints, group: Ints) -> Ints:
    """Return the rules that a stage decides, int64 (n_rules, n).

    A rule is the stage's business if its number is the same for all cells of one answer of the stage's table, but not
    for all cells of one answer of the table fixed before: coarser stages cannot tell its cells apart, and after finer
    ones nothing is left to decide.

    Args:
        rows: int64 (n_rules, n), soft rules on the rows of a split.
        table, group: int64 (n,), the stage's table and the one before.
    """
    return rows[[refines(table, row) and not refines(group, row) for row in rows]]


def with_rules(problem: Problem, rows: Ints, most: Ints, estimate: Floats) -> Problem | None:
    """Return the problem with those soft rules priced in, or None if its estimate without them keeps them all.

    Args:
        rows: int64 (n_rules, n). most: int64 (n_rules, m). estimate: (n, m).
    """
    if not len(rows):
        return None
    scale = np.maximum(np.abs(rows).max(axis=1, initial=1, keepdims=True), 1)
    over = worst_break(rows, estimate, most)
    if over <= SOFT_KEPT_PERSONS:
        return None
    price = PRICE * problem.quadratic.largest() * max(over, 1.0)
    return replace(problem, compared=Compared(rows / scale, most / scale, price))


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
