"""What is tried in turn: without bounds, with them, interior points; a linear program tells what has no table.

A root is solved by Newton's method where it has a way to (`active_set.py`), a split by ADMM. Where ADMM has taken many
steps Newton's method is tried from where it is, and again after more. With bounds it is tried first, from the optimum
without them, where splits are not small and its guesses are cheap: few entries change.

Soft rules: a problem is solved without them first. If its estimate breaks one it is solved again with all of them at a
price; if that does not come to an optimum soon, what cannot be kept is found by a linear program and given up exactly;
if even that does not help, the estimate without rules stands. The optimality check holds for whichever is returned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array, eye_array, hstack, vstack

from topdown.arrays import Floats, Ints
from topdown.errors import NoSplitError
from topdown.solve import least_squares
from topdown.solve.group_constraints import LowerBounds
from topdown.solve.least_squares import admm
from topdown.solve.least_squares.active_set import finish_newton, is_cheap, is_root, is_split, solve_root
from topdown.solve.least_squares.dense_steps import DenseStep, StackedStep, solve_small
from topdown.solve.least_squares.lattice_step import LatticeStep
from topdown.solve.least_squares.optimality import TARGET_PERSONS, infeasibility_persons, residual_persons
from topdown.solve.least_squares.problem import (
    Dense,
    LatticeQuadratic,
    PerChild,
    Problem,
    Quadratic,
    SoftRules,
    Solution,
)
from topdown.solve.least_squares.structured import Structured
from topdown.solve.least_squares.structured_step import StructuredStep, finish_root
from topdown.solve.scipy_programs import minimise_linear

APART_PERSONS = (
    1e-4  # fixed tables are right to 1e-7; whole numbers that exclude each other are further apart
)


def have_common_point(problem: Problem) -> bool | None:
    """Tell whether some table breaks no constraint by more than `APART_PERSONS`; None if HiGHS cannot tell."""
    s = least_squares.feasible_set(problem)
    n, own = len(s.entries), len(s.entries)  # the first rows of `below` are signs, which are never given up
    parts = ((1.0, s.below[own:]), (1.0, s.equal), (-1.0, s.equal))
    given = [sparse.hstack([sign * part, -np.ones((part.shape[0], 1))]) for sign, part in parts]
    rows = sparse.vstack(given, format="csc")
    most = np.concatenate([s.limit[own:], s.equal_to, -s.equal_to])
    none = (sparse.csr_array((0, n + 1)), np.zeros(0))
    found = minimise_linear(np.append(np.zeros(n), 1.0), (rows, most), none, np.append(-s.limit[:own], 0.0))
    return found.cost <= APART_PERSONS if found is not None else None


MOST_INTERIOR = (
    5_000_000  # entries of dense blocks that interior points may factor: a minute, half a gigabyte
)


MOST_ROWS, MOST_ENTRIES = (
    1_500,
    20_000,
)  # of a structured problem that they take: a dense Hessian, a sparse factor


def solve(problem: Problem, most_steps: int | None = None, power: float = 0.5) -> tuple[Solution, float]:
    """Return the solution and its certified residual in persons (`residual_persons`).

    Args:
        problem: dense or structured.
        most_steps: of ADMM, after which other methods are tried; None for as many as its kind takes.
        power: penalties of soft rules are those of entries divided by this power of the rule's squared norm.

    Raises:
        NoSplitError: a linear program finds that the constraints have no common point (I012).
    """
    bounds = problem.bounds
    found, residual = _by_newton_or_admm(_without_bounds(problem), most_steps, power)
    if bounds.n_groups:
        if bounds.are_met(bounds.sums(found.z)):
            found = replace(found, bound_multipliers=np.zeros_like(bounds.lower))
        else:
            found = _by_newton_or_admm(problem, most_steps, power, found)[0]
        residual = residual_persons(problem, found)
    return (found, residual) if residual <= TARGET_PERSONS else _by_interior_point(problem, found, residual)


def _without_bounds(problem: Problem) -> Problem:
    return replace(problem, bounds=LowerBounds.none(*problem.shape).floats())


def _by_newton_or_admm(
    problem: Problem, most_steps: int | None, power: float, near: Solution | None = None
) -> tuple[Solution, float]:
    found, quadratic = None, problem.quadratic
    if isinstance(quadratic, Structured):
        root = finish_root(problem, quadratic, np.ones(problem.shape), 0)
        found = (root, residual_persons(problem, root, strict=True)) if root else None
    elif is_root(problem) and not isinstance(quadratic, LatticeQuadratic):
        found = solve_root(problem)
    elif near and problem.shape[0] > admm.SMALL_ROWS and is_split(problem) and is_cheap(problem, near.z):
        found = finish_newton(problem, near)
    if found and found[1] <= TARGET_PERSONS:
        return found
    return solve_small(problem) or _by_admm(problem, most_steps, power, near)


def _by_admm(
    problem: Problem, most_steps: int | None, power: float, near: Solution | None
) -> tuple[Solution, float]:
    step = _step_of(problem, power)
    try:
        return admm.run(problem, step, most_steps, near)
    except np.linalg.LinAlgError:  # weights too far apart for its linear step in float64
        found = Solution.without_multipliers(problem, step.start(), 0)
        return found, residual_persons(problem, found)


def _step_of(problem: Problem, power: float) -> admm.Step:
    match problem.quadratic:
        case Dense() as dense:
            return DenseStep(problem, dense, power)
        case LatticeQuadratic() as lattice:
            return LatticeStep(problem, lattice)
        case PerChild() as per_child:
            return StackedStep(problem, per_child)
        case Structured() as structured:
            return StructuredStep(problem, structured, power)
        case other:
            raise TypeError(f"no ADMM step is known for {type(other).__name__}")


def _by_interior_point(problem: Problem, found: Solution, residual: float) -> tuple[Solution, float]:
    """Solve by interior points what many steps did not solve: curvatures far apart, or tables in a corner."""
    n, m = problem.shape
    if isinstance(problem.quadratic, Structured):
        if n > MOST_ROWS or problem.allowed.sum() > MOST_ENTRIES or len(problem.compared.rows):
            return found, residual
        problem = replace(problem, quadratic=problem.quadratic.dense())
    if infeasibility_persons(problem, found.z) > TARGET_PERSONS and have_common_point(problem) is False:
        raise NoSplitError(
            "the constraints of this split exclude each other",
            code="I012",
            fix="check exact totals and lower bounds below this node against each other",
        )
    if n * n * m > MOST_INTERIOR:
        return found, residual
    try:
        other = least_squares.solve_by_interior_points(problem)
    except (RuntimeError, np.linalg.LinAlgError):  # singular to working precision: what was found stands
        return found, residual
    theirs = residual_persons(problem, other)
    if theirs >= residual:
        return replace(found, iterations=found.iterations + other.iterations), residual
    return replace(other, iterations=found.iterations + other.iterations), theirs


SOFT_KEPT_PERSONS = 1e-6  # an estimate this little above a soft rule keeps it


PRICE = 4.0  # of soft rules, times the largest curvature and the persons by which they are broken


FIRST_STEPS, SECOND_STEPS = 3_000, 8_000


SECOND_POWER = 0.25


MOST_RELAXED_ENTRIES = 50_000  # of a problem whose linear program is tried


def worst_break(rows: Ints, table: Floats, most: Ints | None = None) -> float:
    """Return by how much a table breaks the worst soft rule, in persons of its heavier side."""
    held = rows / _row_scale(rows) @ table
    return float((held if most is None else held - most / _row_scale(rows)).max(initial=0.0))


def priced_rules(rows: Ints, most: Ints, quadratic: Quadratic, over_persons: float) -> SoftRules:
    """Return soft rules at a price above what keeping them can be worth.

    Args:
        rows: int64 (n_rules, n). most: int64 (n_rules, m), what they may add up to.
        over_persons: by how much the table without them breaks the worst.
    """
    if not len(rows):
        return SoftRules.none(rows.shape[1], most.shape[1])
    price = PRICE * quadratic.largest_eigenvalue * max(over_persons, 1.0)
    return SoftRules(rows / _row_scale(rows), most / _row_scale(rows), price)


def _row_scale(rows: Ints) -> Ints:
    scale: Ints = np.maximum(np.abs(rows).max(axis=1, initial=1, keepdims=True), 1)
    return scale


def with_soft_rules(problem: Problem, rows: Ints, most: Ints, estimate: Floats) -> Problem | None:
    """Return the problem with those soft rules priced in, or None if its estimate without them keeps them all.

    Args:
        rows: int64 (n_rules, n). most: int64 (n_rules, m). estimate: (n, m).
    """
    if not len(rows):
        return None
    over = worst_break(rows, estimate, most)
    if over <= SOFT_KEPT_PERSONS:
        return None
    return replace(problem, compared=priced_rules(rows, most, problem.quadratic, over))


def solve_with_soft_rules(problem: Problem) -> tuple[Solution, float] | None:
    """Return a certified optimum with soft rules and its residual, or None if none was found."""
    found = solve(problem, most_steps=FIRST_STEPS)
    if found[1] <= TARGET_PERSONS:
        return found
    relaxed = _relaxed_problem(problem)
    if relaxed is None:
        return None
    found = solve(relaxed, most_steps=SECOND_STEPS, power=SECOND_POWER)
    return found if found[1] <= TARGET_PERSONS else None


def _relaxed_problem(problem: Problem) -> Problem | None:
    """Return the problem with every rule loosened by what no table can keep, the least in all; None if too large."""
    soft, m = problem.compared, problem.shape[1]
    row, child = np.nonzero(problem.allowed)
    if len(row) > MOST_RELAXED_ENTRIES:
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
    least = minimise_linear(
        np.concatenate([np.zeros(len(row)), np.ones(k * m)]),
        (hstack([rows, -eye_array(k * m)], format="csr"), soft.most.reshape(-1)),
        (hstack([equal, csr_array((equal.shape[0], k * m))], format="csr"), np.concatenate(totals)),
    )
    if least is None:
        return None
    over = np.maximum(least.x[len(row) :], 0.0).reshape(k, m)
    return replace(problem, compared=replace(soft, most=soft.most + over))
