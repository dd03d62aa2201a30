"""ADMM for one stage, and how far its answer is from the optimum in persons."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from topdown.solve.extend.fit import StageProblem
from topdown.solve.extend.interior import solve_by_interior_point
from topdown.solve.extend.kernels import admm_steps
from topdown.solve.extend.linear import LinearStep
from topdown.solve.extend.polish import polish
from topdown.solve.groups import Floats, Ints
from topdown.solve.kkt import hinge_gap

TARGET_PERSONS = 1e-5
TOLERANCE_PERSONS = 1e-7
STEPS, MAX_STEPS = 20, 20_000
SMALL_STEPS, SMALL = 4_000, 1_000  # of a table of few entries, which the interior-point method solves at once
POLISH = 200  # steps between two tries to finish the root exactly
RELAX = 1.8


def solve(
    problem: StageProblem, *, most_steps: int = MAX_STEPS, power: float = 0.5
) -> tuple[Floats, float, int]:
    """Return the table (n, m), the certified residual in persons, and the number of steps.

    Args:
        problem: of one stage.
        most_steps: steps after which the best point so far is returned.
        power: penalties of soft rules are those of entries divided by this power of the rule's squared norm.

    Signs and row sums hold to rounding error (at the root, where no row sum is known, group sums do).
    """
    if not len(problem.compared.rows) and problem.allowed.size <= SMALL:
        most_steps = min(most_steps, SMALL_STEPS)
    try:
        with _threads().limit(limits=1):  # products of a step are small: more threads wait for each other
            return _by_admm(problem, most_steps, power)
    except np.linalg.LinAlgError:  # weights too far apart for its linear step in float64
        root, pointers, sums = segments(problem)
        even, none = start(problem, root=root), np.zeros_like(problem.compared.most)
        spread = (residual_persons(problem, even, None, pointers, sums, none), even)
        residual, z = min(_by_other_means(problem, pointers, sums), spread, key=lambda pair: pair[0])
        return z, residual, 0


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def segments(problem: StageProblem) -> tuple[bool, Ints, Floats]:
    """Return whether this is the root, runs of the flattened table with known sums, and these."""
    n, m = problem.shape
    if bool((problem.row_sums < 0).any()):
        pointers = np.flatnonzero(np.diff(problem.group, prepend=-1, append=-1)).astype(np.int64)
        return True, pointers, problem.fixed[problem.group[pointers[:-1]], 0].copy()
    return False, np.arange(0, n * m + 1, m, dtype=np.int64), problem.row_sums


def _by_admm(problem: StageProblem, most_steps: int, power: float) -> tuple[Floats, float, int]:
    n, m = problem.shape
    root, pointers, sums = segments(problem)
    step = LinearStep(problem, groups=not root, power=power)
    allowed = np.ascontiguousarray(problem.allowed).reshape(-1)
    rho = first = _penalty(problem)
    step.factor(rho)
    z = start(problem, root=root)
    u = np.zeros((n, m))
    soft = problem.compared
    s, t = np.minimum(step.soft @ z, soft.most), np.zeros_like(soft.most)
    fixed = problem.fixed if not root else np.zeros((0, m))
    threshold = np.full(len(sums), np.inf)
    tolerance, taken, best = TOLERANCE_PERSONS, 0, (np.inf, z)
    while True:
        pull = rho * step.soft_ratio
        steps, primal, dual, multipliers = admm_steps(
            step.tree, step.schur, fixed, step.g, rho, RELAX, z, u, pointers, sums, allowed, threshold,
            soft.most, pull, soft.hinge / pull, s, t, min(STEPS - taken % STEPS, most_steps - taken), tolerance,
        )  # fmt: skip
        taken += steps
        done = primal <= tolerance and dual <= tolerance
        if done or taken >= most_steps:
            sigma = pull[:, None] * t
            residual = residual_persons(problem, z, None if root else multipliers, pointers, sums, sigma)
            best = min(best, (residual, z.copy()), key=lambda pair: pair[0])
            if best[0] > TARGET_PERSONS and (taken >= most_steps or tolerance <= 1e-11):
                best = min(best, _by_other_means(problem, pointers, sums), key=lambda pair: pair[0])
            if best[0] <= TARGET_PERSONS or taken >= most_steps or tolerance <= 1e-11:
                return best[1], best[0], taken
            tolerance /= 10
        if root and not len(s) and taken % POLISH == 0:
            point = polish(problem, z)
            residual = residual_persons(problem, point, None, pointers, sums, t)
            best = min(best, (residual, point), key=lambda pair: pair[0])
            if residual <= TARGET_PERSONS:
                return point, residual, taken
        if taken % STEPS == 0:
            ratio = primal / max(dual, 1e-300)
            if not 0.2 < ratio < 5 and taken < most_steps // 2:
                factor = (
                    float(np.clip(rho * np.clip(np.sqrt(ratio), 0.2, 5.0), first / 1e4, first * 1e4)) / rho
                )
                if factor != 1.0:
                    rho *= factor
                    u /= factor
                    t /= factor
                    step.factor(rho)


def _by_other_means(problem: StageProblem, pointers: Ints, sums: Floats) -> tuple[float, Floats]:
    """Return the residual and the table that another method comes to; an endless residual if it comes to none."""
    matrix, weight, _ = problem.all_answers()
    found = solve_by_interior_point(problem, pointers, sums, max(curvature(matrix, weight), 0.0))
    if found is None:
        return np.inf, np.zeros(problem.shape)
    return residual_persons(problem, *found, pointers, sums, np.zeros_like(problem.compared.most)), found[0]


def _penalty(problem: StageProblem) -> float:
    matrix, weight, _ = problem.all_answers()
    largest = stage_curvature(problem)
    smallest = curvature(matrix, weight)
    return float(np.sqrt(max(smallest, largest * 1e-5) * largest))


def stage_curvature(problem: StageProblem) -> float:
    """Return about the largest eigenvalue of a stage's Hessian, as `problem.largest_curvature` without the matrix."""
    matrix, weight, _ = problem.all_answers()
    v = np.ones(matrix.shape[1])
    for _ in range(12):
        v = matrix.T @ (weight * (matrix @ v))
        v /= np.linalg.norm(v)
    return float(v @ (matrix.T @ (weight * (matrix @ v))))


def curvature(matrix: csr_array, weight: Floats) -> float:
    """Return a lower bound on the smallest eigenvalue of the Hessian: what single-row answers give every row."""
    alone = np.diff(matrix.indptr) == 1
    out = np.zeros(matrix.shape[1])
    np.add.at(out, matrix[alone].indices, weight[alone])
    return float(out.min())


def start(problem: StageProblem, *, root: bool) -> Floats:
    """Return a table that meets row and group sums: spread in proportion."""
    size = np.zeros(problem.fixed.shape)
    np.add.at(size, problem.group, problem.allowed.astype(np.float64))
    if root:
        share = problem.fixed / np.maximum(size, 1)
        return np.ascontiguousarray(share[problem.group] * problem.allowed)
    total = np.maximum(problem.fixed.sum(axis=1), 1e-300)
    return np.ascontiguousarray(problem.row_sums[:, None] * (problem.fixed / total[:, None])[problem.group])


def residual_persons(
    problem: StageProblem,
    z: Floats,
    multipliers: Floats | None,
    pointers: np.ndarray,
    sums: Floats,
    sigma: Floats,
) -> float:
    """Return the larger of the constraint violation and a bound on the distance to the optimum, in persons.

    As `solve.kkt`, without a dense Hessian: |r| in the norm of the inverse Hessian is bounded by conjugate
    gradients and the curvature. Shares no code with the solver but the 0/1 matrices of the queries.
    """
    matrix, weight, target = problem.all_answers()
    off = np.zeros(problem.fixed.shape)
    np.add.at(off, problem.group, z)
    row = np.add.reduceat(z.reshape(-1), pointers[:-1])
    violation = max(
        float(np.abs(off - problem.fixed).max()), float(np.abs(row - sums).max()), float(-z.min())
    )
    violation = max(violation, float(np.abs(z[~problem.allowed]).max(initial=0.0)))
    d = matrix.T @ (weight[:, None] * (matrix @ z - target))
    if multipliers is not None:
        d = d - multipliers[problem.group]
    sigma = np.clip(sigma, 0.0, problem.compared.hinge)
    d = d + problem.compared.rows.T @ sigma
    gap, shift = hinge_gap(problem.compared, sigma, z)
    violation = max(violation, shift)
    flat, positive = d.reshape(-1), (z > 0).reshape(-1)
    allowed = np.ascontiguousarray(problem.allowed).reshape(-1)
    starts = pointers[:-1]
    count = np.add.reduceat(positive.astype(np.float64), starts)
    total = np.add.reduceat(np.where(positive, flat, 0.0), starts)
    lowest = np.minimum.reduceat(np.where(allowed, flat, np.inf), starts)
    nu = np.where(count > 0, total / np.maximum(count, 1.0), np.where(np.isfinite(lowest), lowest, 0.0))
    e = flat - np.repeat(nu, np.diff(pointers))
    r = np.where(allowed, np.where(positive, e, np.minimum(e, 0.0)), 0.0).reshape(z.shape)
    least = curvature(matrix, weight)
    if least <= 0:
        price = problem.compared.hinge or 1.0
        return max(violation, gap / price, float(np.abs(r).max(initial=0.0)) / float(weight.min()))
    distance = float(np.linalg.norm(r)) / least
    if distance > TARGET_PERSONS:
        distance = min(distance, float(np.sqrt(_inverse_norm(matrix, weight, r, least) / least)))
    if gap:  # as in `solve.kkt`, with b = distance sqrt(least) and c = gap
        b = distance * np.sqrt(least)
        distance = float((b + np.sqrt(b * b + 4 * gap)) / 2 / np.sqrt(least))
    return max(violation, distance)


def _inverse_norm(matrix: csr_array, weight: Floats, r: Floats, least: float) -> float:
    """Bound r'H^-1 r: 2 r'y - y'Hy + |r - Hy|^2 / least holds for every y; y by conjugate gradients."""
    y, rest = np.zeros_like(r), r.copy()
    p, old = rest.copy(), float((rest * rest).sum())
    best = old / least
    for _ in range(200):
        hp = matrix.T @ (weight[:, None] * (matrix @ p))
        along = float((p * hp).sum())
        if along <= 0:
            break
        y, rest = y + old / along * p, rest - old / along * hp
        new = float((rest * rest).sum())
        hy = matrix.T @ (weight[:, None] * (matrix @ y))
        bound = float((2 * r * y - y * hy).sum()) + float(((r - hy) ** 2).sum()) / least
        best = min(best, max(bound, 0.0))
        if new <= 1e-6 * old or bound < 1.05 * float((r * y).sum()):
            break
        p, old = rest + new / old * p, new
    return best
