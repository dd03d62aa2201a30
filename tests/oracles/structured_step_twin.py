"""Slow, obvious twins of an extension's compiled loops, for tests and for readers."""

from dataclasses import dataclass

import numpy as np

from tests.oracles.solver_twins import project
from topdown.arrays import Floats
from topdown.solve.least_squares import NestedAnswers, Problem, Structured, summing_matrix


def structured_inverse(chain: NestedAnswers, n: int, rho: float) -> Floats:
    """Twin of `tree_linear.grow` with `kernels_tree.apply_tree`: invert rho I + sum of w e e' as a dense matrix."""
    total = rho * np.eye(n)
    for label, weight in chain:
        matrix = summing_matrix(label, len(weight)).toarray()
        total += matrix.T @ (weight[:, None] * matrix)
    return np.asarray(np.linalg.inv(total))


@dataclass(frozen=True, eq=False)
class StepPoint:
    """A point of ADMM: z, u (n, m), s, t (n_rules, m), multipliers of the group sums, the larger residual."""

    z: Floats
    u: Floats
    s: Floats
    t: Floats
    multipliers: Floats
    residual: float


def admm_step(
    problem: Problem, quadratic: Structured, here: StepPoint, rho: float, ratio: Floats, relax: float
) -> StepPoint:
    """Twin of one step of `kernels_tree.admm_steps`: one dense system for x, then the projections, run by run.

    Args:
        problem, quadratic: what to solve. here: where to start.
        rho, ratio, relax: penalty, the factor of each rule's, relaxation.
    """
    soft, fixed, n = problem.compared, problem.fixed, problem.shape[0]
    dense = quadratic.dense()
    pull = rho * ratio[:, None]
    h = dense.hessian + rho * np.eye(n) + soft.rows.T @ (pull * soft.rows)
    right = dense.g + rho * (here.z - here.u) + soft.rows.T @ (pull * (here.s - here.t))
    sums = summing_matrix(fixed.of, fixed.n_groups).toarray()
    kkt = np.block([[h, sums.T], [sums, np.zeros((len(sums), len(sums)))]])
    solved = np.linalg.solve(kkt, np.vstack([right, fixed.answers]))
    x, multipliers = solved[:n], -solved[n:]
    v = relax * x + (1 - relax) * here.z + here.u
    flat, allowed, z = v.reshape(-1), problem.allowed.reshape(-1), np.zeros(v.size)
    for first, last, total in zip(problem.pointers[:-1], problem.pointers[1:], problem.sums, strict=True):
        z[first:last] = project(flat[first:last], float(total), allowed[first:last])
    held = soft.rows @ x
    p = relax * held + (1 - relax) * here.s + here.t
    s = np.where(p > soft.most, np.maximum(p - soft.hinge / pull, soft.most), p)
    new = z.reshape(v.shape)
    moved = (x - new, new - here.z, held - s, s - here.s)
    return StepPoint(
        new, v - new, s, p - s, multipliers, max(float(np.abs(part).max(initial=0.0)) for part in moved)
    )
