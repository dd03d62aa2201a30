"""Finish the root exactly: guess which entries are positive, solve for them, correct the guess (active sets).

The root is one column whose groups are all there is, so a guess is solved by one structured elimination. The
point that comes out is judged like any other; a wrong guess costs time, never correctness.
"""

from __future__ import annotations

import numpy as np

from topdown.errors import ConfigError
from topdown.solve.groups import FixedTable, Floats
from topdown.solve.least_squares.problem import Problem
from topdown.solve.least_squares.structured import Partition, Structured
from topdown.solve.least_squares.tree_linear import LinearStep

ROUNDS = 30
PROXIMAL, REPEATS = 1e-3, 4  # where patterns share an answer the optimum is a set: stay near, then repeat


def polish(problem: Problem, quadratic: Structured, z: Floats) -> Floats:
    """Return the point that the active sets starting from z's positive entries lead to, nonnegative.

    The steps are those of the primal-dual active set method (Hintermueller, Ito, Kunisch 2002): free are the
    entries that came out positive, and those at zero whose gradient is below their group's multiplier.

    Args:
        problem: one column whose segments all have known sums, and no rules. quadratic: its own. z: (n, 1).
    """
    sums = problem.sums[:, None]
    group = np.repeat(np.arange(len(sums)), np.diff(problem.pointers))
    free = z[:, 0] > 0
    x = z.copy()
    rho = PROXIMAL * quadratic.scale
    for _ in range(ROUNDS):
        no_rules = np.zeros((0, int(free.sum())))
        try:
            step = LinearStep(_restrict(quadratic, free), FixedTable(group[free], sums), no_rules)
            step.factor(rho)
        except (np.linalg.LinAlgError, ConfigError):
            break  # weights too far apart for this guess, or too much crosses: what was found so far stands
        inner = x[free]
        for _ in range(REPEATS):
            inner = step.near(inner)
        x[:] = 0.0
        x[free] = inner
        below = quadratic.gradient(x)[:, 0] < step.multipliers[group, 0]
        wanted = np.where(free, x[:, 0] > 0, below)
        # Every group keeps its largest entry: an empty one could not meet its sum.
        top = np.zeros(len(sums))
        np.maximum.at(top, group, np.where(wanted, x[:, 0], 0.0))
        if (top <= 0).any() or np.array_equal(wanted, free):
            break
        free = wanted
    return np.maximum(x, 0.0)


def _restrict(quadratic: Structured, free: np.ndarray) -> Structured:
    queries = []
    for q in quadratic.queries:
        used, label = np.unique(q.label[free], return_inverse=True)
        queries.append(Partition(label.reshape(-1).astype(np.int64), q.weight[used], q.target[used], q.nests))
    return Structured(tuple(queries), quadratic.supergroup[free])
