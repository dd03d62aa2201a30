"""Finish the root exactly: guess which entries are positive, solve for them, correct the guess (active sets).

The root is one column whose groups are all there is, so a guess is solved by one structured elimination. The
point that comes out is judged like any other; a wrong guess costs time, never correctness.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topdown.solve.extend.fit import Partition, StageProblem
from topdown.solve.extend.linear import LinearStep
from topdown.solve.groups import Floats
from topdown.solve.problem import Compared

ROUNDS = 30
PROXIMAL, REPEATS = 1e-3, 4  # where patterns share an answer the optimum is a set: stay near, then repeat


def polish(problem: StageProblem, z: Floats) -> Floats:
    """Return the point that the active sets starting from z's positive entries lead to, nonnegative.

    The steps are those of the primal-dual active set method (Hintermueller, Ito, Kunisch 2002): free are the
    entries that came out positive, and those at zero whose gradient is below their group's multiplier.
    """
    matrix, weight, target = problem.all_answers()
    free = z[:, 0] > 0
    x = z.copy()
    rho = PROXIMAL * float(weight.min())
    for _ in range(ROUNDS):
        step = LinearStep(_restrict(problem, free), groups=True)
        try:
            step.factor(rho)
        except np.linalg.LinAlgError:  # weights too far apart for this guess: what was found so far stands
            break
        inner = x[free]
        for _ in range(REPEATS):
            inner = step.near(inner)
        x[:] = 0.0
        x[free] = inner
        gradient = (matrix.T @ (weight[:, None] * (matrix @ x - target)))[:, 0]
        below = gradient < step.multipliers[problem.group, 0]
        wanted = np.where(free, x[:, 0] > 0, below)
        # Every group keeps its largest entry: an empty one could not meet its sum.
        top = np.zeros(len(problem.fixed))
        np.maximum.at(top, problem.group, np.where(wanted, x[:, 0], 0.0))
        if (top <= 0).any() or np.array_equal(wanted, free):
            break
        free = wanted
    return np.maximum(x, 0.0)


def _restrict(problem: StageProblem, free: np.ndarray) -> StageProblem:
    queries = []
    for q in problem.queries:
        used, label = np.unique(q.label[free], return_inverse=True)
        queries.append(Partition(label.reshape(-1).astype(np.int64), q.weight[used], q.target[used]))
    return replace(
        problem,
        queries=tuple(queries),
        row_sums=problem.row_sums[free],
        group=problem.group[free],
        supergroup=problem.supergroup[free],
        allowed=problem.allowed[free],
        compared=Compared.none(int(free.sum()), problem.shape[1]),
    )
