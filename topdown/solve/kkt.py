"""How far a point is from the optimum, in persons: checked after every solve, by code the solvers do not share.

For z feasible with multipliers nu (segments), lambda (fixed table) and mu >= 0 (lower bounds), put
d = Hz - g - nu - lambda - mu, split d into s >= 0 on entries that are zero and a rest r, and let
c = sum mu (bound sum - lower). Convexity and feasibility of the optimum z* give
(z - z*)'H(z - z*) <= c + r'(z* - z), hence |z - z*|_H <= (b + sqrt(b^2 + 4c)) / 2 with b = |r|_{H^-1}, and
|z - z*| <= |z - z*|_H / sqrt(curvature). Any multipliers are valid; good ones make the bound small.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from topdown.solve.problem import Floats, Problem, Solution, group_sums


def residual_persons(problem: Problem, solution: Solution) -> float:
    """Return the larger of the constraint violation and the distance to the optimum, in persons.

    The distance is a bound in the Euclidean norm over all entries of the problem, valid up to rounding error,
    for the problem whose fixed table is shifted by the stated violation. Where the Hessian is singular the
    optimum is a set, and the gradient's violation divided by the smallest weight is returned instead.
    """
    z = solution.z
    violation = infeasibility_persons(problem, z)
    d = problem.hessian @ z - problem.g
    if problem.fixed_of is not None:
        d = d - solution.fixed_multipliers[problem.fixed_of]
    complementarity = 0.0
    if len(problem.lower):
        mu = solution.bound_multipliers
        inside = problem.bound_of >= 0
        d[inside] -= mu[problem.bound_of[inside]]
        slack = group_sums(z, problem.bound_of, len(problem.lower)) - problem.lower
        complementarity = float((mu * np.maximum(slack, 0.0)).sum())
    r = _rest(problem, z, d)
    if problem.curvature <= 0.0:
        return max(violation, float(np.abs(r).max(initial=0.0)) / problem.scale)
    b = float(np.sqrt(max(float((r * cho_solve(cho_factor(problem.hessian), r)).sum()), 0.0)))
    distance = (b + np.sqrt(b * b + 4 * complementarity)) / 2 / np.sqrt(problem.curvature)
    return max(violation, float(distance))


def infeasibility_persons(problem: Problem, z: Floats) -> float:
    """Return the largest violation of any constraint, in persons."""
    worst = float(np.maximum(-z, 0.0).max(initial=0.0))
    worst = max(worst, float(np.abs(z[~problem.allowed]).max(initial=0.0)))
    sums = np.add.reduceat(z.reshape(-1), problem.pointers[:-1])
    known = problem.sums >= 0
    worst = max(worst, float(np.abs(sums - problem.sums)[known].max(initial=0.0)))
    if problem.fixed_of is not None:
        off = group_sums(z, problem.fixed_of, len(problem.fixed)) - problem.fixed
        worst = max(worst, float(np.abs(off).max(initial=0.0)))
    if len(problem.lower):
        short = problem.lower - group_sums(z, problem.bound_of, len(problem.lower))
        worst = max(worst, float(short.max(initial=0.0)))
    return worst


def _rest(problem: Problem, z: Floats, d: Floats) -> Floats:
    # Segment multipliers: the mean gradient of the positive entries leaves the smallest rest.
    flat_d, positive = d.reshape(-1), (z > 0).reshape(-1)
    allowed = problem.allowed.reshape(-1)
    starts = problem.pointers[:-1]
    count = np.add.reduceat(positive.astype(np.float64), starts)
    total = np.add.reduceat(np.where(positive, flat_d, 0.0), starts)
    lowest = np.minimum.reduceat(np.where(allowed, flat_d, np.inf), starts)
    nu = np.where(count > 0, total / np.maximum(count, 1.0), np.where(np.isfinite(lowest), lowest, 0.0))
    nu = np.where(problem.sums >= 0, nu, 0.0)
    e = flat_d - np.repeat(nu, np.diff(problem.pointers))
    r = np.where(positive, e, np.minimum(e, 0.0))
    return np.asarray(np.where(allowed, r, 0.0).reshape(z.shape), dtype=np.float64)
