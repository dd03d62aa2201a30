"""Slow, obvious twins of an extension's compiled loops, for tests and for readers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.solve.extend.fit import Answers, StageProblem, picker
from topdown.solve.groups import Floats, Ints
from topdown.solve.reference import project


def inverse(chain: Answers, n: int, rho: float) -> Floats:
    """Twin of `linear.grow` with `kernels.apply_tree`: invert rho I + sum of w e e' as a dense matrix."""
    total = rho * np.eye(n)
    for label, weight in chain:
        matrix = picker(label, len(weight)).toarray()
        total += matrix.T @ (weight[:, None] * matrix)
    return np.asarray(np.linalg.inv(total))


@dataclass(frozen=True, eq=False)
class Point:
    """A point of ADMM: z, u (n, m), s, t (n_rules, m), multipliers of the group sums, the larger residual."""

    z: Floats
    u: Floats
    s: Floats
    t: Floats
    multipliers: Floats
    residual: float


def admm_step(
    problem: StageProblem, here: Point, rho: float, ratio: Floats, relax: float, runs: tuple[Ints, Floats]
) -> Point:
    """Twin of one step of `kernels.admm_steps`: one dense system for x, then the projections, run by run.

    Args:
        problem: of one stage. here: where to start.
        rho, ratio, relax: penalty, the factor of each rule's, relaxation.
        runs: of the flattened table with known sums, and these.
    """
    matrix, weight, target = problem.all_answers()
    dense, soft, n = matrix.toarray(), problem.compared, problem.shape[0]
    root = bool((problem.row_sums < 0).any())
    pull = rho * ratio[:, None]
    h = dense.T @ (weight[:, None] * dense) + rho * np.eye(n) + soft.rows.T @ (pull * soft.rows)
    right = dense.T @ (weight[:, None] * target) + rho * (here.z - here.u)
    right += soft.rows.T @ (pull * (here.s - here.t))
    sums = picker(problem.group, len(problem.fixed)).toarray()[: 0 if root else None]
    kkt = np.block([[h, sums.T], [sums, np.zeros((len(sums), len(sums)))]])
    solved = np.linalg.solve(kkt, np.vstack([right, problem.fixed[: len(sums)]]))
    x, multipliers = solved[:n], -solved[n:]
    v = relax * x + (1 - relax) * here.z + here.u
    flat, allowed, z = v.reshape(-1), problem.allowed.reshape(-1), np.zeros(v.size)
    for first, last, total in zip(runs[0][:-1], runs[0][1:], runs[1], strict=True):
        z[first:last] = project(flat[first:last], float(total), allowed[first:last])
    held = soft.rows @ x
    p = relax * held + (1 - relax) * here.s + here.t
    s = np.where(p > soft.most, np.maximum(p - soft.hinge / pull, soft.most), p)
    new = z.reshape(v.shape)
    moved = (x - new, new - here.z, held - s, s - here.s)
    return Point(
        new, v - new, s, p - s, multipliers, max(float(np.abs(part).max(initial=0.0)) for part in moved)
    )
