"""How far a point is from the optimum, in persons: checked after every solve, by code the solvers do not share.

For z feasible with multipliers nu (segments), lambda (fixed table) and mu >= 0 (lower bounds), put
d = Hz - g - nu - lambda - mu, split d into s >= 0 on entries that are zero and a rest r, and let
c = sum mu (bound sum - lower), or where limits take the place of bounds c = mu . (bound sums) - min of mu . y
over their polytope (mu of any sign; the minimum is Edmonds' greedy vertex). Convexity and feasibility of the
optimum z* give (z - z*)'H(z - z*) <= c + r'(z* - z), hence |z - z*|_H <= (b + sqrt(b^2 + 4c)) / 2 with
b = |r|_{H^-1}, and |z - z*| <= |z - z*|_H / sqrt(curvature). Any multipliers are valid; good ones make the bound small.
Soft rules with multipliers sigma in [0, hinge] add their rows to d and hinge max(0, over) - sigma over >= 0 to c.
"""

from __future__ import annotations

import numpy as np

from topdown.arrays import Bools, Floats, Ints
from topdown.solve.group_constraints import LowerBounds, SubsetLimits
from topdown.solve.kernels_shared import leave_gap, worst_violation
from topdown.solve.least_squares.problem import Problem, SoftRules, Solution

TARGET_PERSONS = 1e-5  # what every solve should reach
SAME_MULTIPLIER = 1e-9  # relative to a column's largest
ROUNDING = 1e-12  # relative: a sum this close above its lower bound is at it, were it not for rounding error
SHIFT_PERSONS = 1e-6  # room in a limit below this counts as a violation instead


def residual_persons(problem: Problem, solution: Solution, *, strict: bool = False) -> float:
    """Return the larger of the constraint violation and the distance to the optimum, in persons.

    The distance is a bound in the Euclidean norm over all entries of the problem, valid up to rounding error,
    for the problem whose fixed table, bounds and limits are shifted by the stated violation. Where the Hessian is
    singular the optimum is a set; then the gradient's violation divided by the smallest weight is returned, or
    sqrt(c / smallest weight), which bounds how far query answers are from the optimum's, whichever is larger.

    A multiplier times room in its lower bound that is only rounding error can spoil the bound. Unless `strict`,
    where that happens room below SHIFT_PERSONS counts as a shift of the bound, as it always does for limits.
    """
    found = _residual(problem, solution, 0.0 if problem.quadratic.curvature > 0 else SHIFT_PERSONS)
    if strict or found <= TARGET_PERSONS or not problem.bounds.n_groups:
        return found
    return min(found, _residual(problem, solution, SHIFT_PERSONS))


def _residual(problem: Problem, solution: Solution, shift: float) -> float:
    z = solution.z
    violation = infeasibility_persons(problem, z)
    d = problem.quadratic.gradient(z)
    if problem.fixed.n_groups:
        d = d - problem.fixed.spread(solution.fixed_multipliers)
    complementarity = 0.0
    if len(problem.compared.rows):
        sigma = np.clip(solution.compared_multipliers, 0.0, problem.compared.hinge)
        d = d + problem.compared.rows.T @ sigma
        complementarity, shifted = hinge_gap(problem.compared, sigma, z)
        violation = max(violation, shifted)
    bounds = problem.bounds
    if bounds.n_groups:
        mu, sums = solution.bound_multipliers, bounds.sums(z)
        if isinstance(bounds, SubsetLimits):
            mu = _multiplier_settled(bounds, mu)
            gap, shifted = _limits_gap(bounds.limits, mu, sums)
        else:
            gap, shifted = _bounds_gap(bounds, mu, sums, shift)
        d = d - bounds.spread(mu)
        complementarity, violation = complementarity + gap, max(violation, shifted)
    r = _remaining_gap(problem, z, d)
    quadratic = problem.quadratic
    if quadratic.curvature <= 0.0:
        off = float(np.sqrt(max(complementarity, 0.0) / quadratic.scale))
        return max(violation, off, float(np.abs(r).max(initial=0.0)) / quadratic.scale)
    b = float(np.sqrt(quadratic.inverse_norm(r, TARGET_PERSONS**2 * quadratic.curvature)))
    distance = (b + np.sqrt(b * b + 4 * complementarity)) / 2 / np.sqrt(quadratic.curvature)
    return max(violation, float(distance))


def hinge_gap(soft: SoftRules, mu: Floats, z: Floats) -> tuple[float, float]:
    """Return sum of hinge max(0, over) - mu over, and by how much tight rules had to be shifted for it."""
    over = soft.rows @ z - soft.most
    tight = np.abs(over) <= SHIFT_PERSONS
    gap = soft.hinge * np.maximum(over, 0.0) - mu * over
    return float(np.where(tight, 0.0, gap).sum()), float(
        np.abs(over[tight & ((mu > 0) | (over > 0))]).max(initial=0.0)
    )


def infeasibility_persons(problem: Problem, z: Floats) -> float:
    """Return the largest violation of any constraint, in persons."""
    worst = worst_violation(*_flat(problem, z))
    if problem.fixed.n_groups:
        worst = max(worst, float(np.abs(problem.fixed.left(z)).max(initial=0.0)))
    return max(worst, problem.bounds.over(problem.bounds.sums(z))) if problem.bounds.n_groups else worst


def _bounds_gap(bounds: LowerBounds, mu: Floats, sums: Floats, shift: float) -> tuple[float, float]:
    """Return mu . room, and by how much bounds with next to no room had to be shifted for it."""
    room = np.maximum(sums - bounds.lower, 0.0)
    small = (room <= np.maximum(shift, ROUNDING * sums)) & (mu > 0)
    return float((mu * np.where(small, 0.0, room)).sum()), float(room[small].max(initial=0.0))


def _multiplier_settled(bounds: SubsetLimits, multipliers: Floats) -> Floats:
    """Make multipliers of a column that differ by rounding error only equal; what is lost stays in the gradient."""
    mu = _append_slack(bounds.limits, multipliers)
    close = SAME_MULTIPLIER * np.abs(mu).max(axis=0, initial=0.0)
    order = np.argsort(mu, axis=0, kind="stable")
    sorted_mu = np.take_along_axis(mu, order, axis=0)
    for i in range(1, len(mu)):
        near = sorted_mu[i] - sorted_mu[i - 1] <= close
        sorted_mu[i][near] = sorted_mu[i - 1][near]
    settled = np.empty_like(mu)
    np.put_along_axis(settled, order, sorted_mu, axis=0)
    k = len(multipliers)
    if len(mu) > k:  # the slack entry's multiplier is zero
        settled = np.where(settled == settled[k], 0.0, settled)
    return settled[:k]


def _limits_gap(limits: Floats, mu: Floats, sums: Floats) -> tuple[float, float]:
    """Return mu . sums - min of mu . y over the polytopes, and by how much tight limits had to be shifted for it.

    Edmonds: with groups in order of mu, the gap is the sum of (step of mu) times (room left in the groups so far).
    """
    if limits.shape[1] > 1 << len(mu):
        mu, sums = _append_slack(limits, mu), np.vstack([sums, -sums.sum(axis=0, keepdims=True)])
    columns = np.arange(len(limits))
    order = np.argsort(mu, axis=0, kind="stable")
    so_far, held = np.zeros(len(limits), dtype=np.int64), np.zeros(len(limits))
    gap = shift = 0.0
    for i, group in enumerate(order):
        so_far |= 1 << group
        held += sums[group, columns]
        room = limits[columns, so_far] - held
        step = mu[order[i + 1], columns] - mu[group, columns] if i + 1 < len(order) else np.ones(len(limits))
        small = (np.abs(room) <= SHIFT_PERSONS) & (step > 0)
        shift = max(shift, float(np.abs(room[small]).max(initial=0.0)))
        if i + 1 < len(order):
            gap += float((step * np.where(small, 0.0, np.maximum(room, 0.0))).sum())
    return gap, shift


def _append_slack(limits: Floats, values: Floats) -> Floats:
    """Add the row of the entry without cost where the limits have one."""
    if limits.shape[1] == 1 << len(values):
        return values
    return np.vstack([values, np.zeros((1, values.shape[1]))])


def _remaining_gap(problem: Problem, z: Floats, d: Floats) -> Floats:
    rest = np.array(d, order="C").reshape(-1)
    leave_gap(*_flat(problem, z), rest)
    return rest.reshape(z.shape)


def _flat(problem: Problem, z: Floats) -> tuple[Floats, Bools, Ints, Floats]:
    allowed = np.ascontiguousarray(problem.allowed).reshape(-1)
    return np.ascontiguousarray(z).reshape(-1), allowed, problem.pointers, problem.sums
