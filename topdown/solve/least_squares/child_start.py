"""What ADMM does alike for splits whose children differ: its pace, the plain part of a step, where it starts."""

from __future__ import annotations

import numpy as np

from topdown.solve.groups import Floats
from topdown.solve.least_squares.admm import Pace
from topdown.solve.least_squares.dense_step import DenseStep
from topdown.solve.least_squares.per_child import PerChild
from topdown.solve.least_squares.problem import Problem
from topdown.solve.least_squares.quadratics import Dense

ROUNDS = 10
ROUNDING = 5e-16  # what many steps leave of a residual, relative to the largest sum of a row


def pace_of(problem: Problem) -> Pace:
    """Return the pace for a split without soft rules, as a step of each child's own takes none (TypeError)."""
    if len(problem.compared.rows):
        raise TypeError("a linear step of each child takes no soft rules")
    floor = ROUNDING * float(problem.sums.max(initial=0.0))
    return Pace(steps=40, balance=80, polish=20_000, most=20_000, floor=floor)


def plain_step(problem: Problem, quadratic: PerChild) -> DenseStep:
    """Return the step of what all children share, for its frame; its matrices are never made."""
    shared = Dense(quadratic.hessian, quadratic.g, quadratic.curvature, quadratic.scale)
    return DenseStep(problem, shared, 0.5)


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
