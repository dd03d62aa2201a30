"""Where ADMM starts a split whose children differ: sums of rows and the fixed table fitted in proportion."""

from __future__ import annotations

import numpy as np

from topdown.solve.groups import Floats
from topdown.solve.least_squares.problem import Problem

ROUNDS = 10
ROUNDING = 6e-14  # what steps leave of a residual, relative to the largest sum of a row


def in_proportion(problem: Problem) -> Floats:
    """Return a table with the rows' sums, and nearly the fixed answers, spread over allowed entries in proportion.

    A child that must hold few gets few from the start: emptying it takes ADMM hundreds of steps.

    Args:
        problem: a split, rows over children.
    """
    fixed, z = problem.fixed, problem.allowed.astype(np.float64)
    sums = problem.sums[:, None]
    for _ in range(ROUNDS if fixed.n_groups else 0):
        z = z * sums / np.maximum(z.sum(axis=1, keepdims=True), 1e-12)
        held = fixed.sums(z)
        ratio = np.where(held > 0, fixed.answers / np.maximum(held, 1e-12), 1.0)
        z = np.where(fixed.of[:, None] >= 0, z * fixed.spread(ratio), z)
    held = z.sum(axis=1, keepdims=True)
    z = np.where(held > 0, z, problem.allowed)
    return np.ascontiguousarray(z * sums / np.maximum(z.sum(axis=1, keepdims=True), 1e-12))
