"""The problems of one stage of an extension in the form that generic solvers take, and the distances to compare."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.oracles.solver_twins import rounding_cost
from topdown.solve.least_squares import Problem, StandardForm, summing_matrix
from topdown.solve.rounding import RoundingProblem


def explicit(problem: Problem) -> StandardForm:
    """Write a stage as a sparse quadratic program: entries first, then what every answer comes to."""
    n, m = problem.shape
    row, column = np.nonzero(problem.allowed)
    matrix, weight, target = _answers(problem)
    share = problem.sums / np.maximum(problem.allowed.sum(axis=1), 1)
    base = share[row]
    answers = sparse.coo_array(matrix)
    place = np.full((n, m), -1)
    place[row, column] = np.arange(len(row))
    at = place[answers.col]  # (one per row of an answer, m)
    key = answers.row[:, None] * m + np.arange(m)
    inside = at >= 0
    k = matrix.shape[0] * m
    sums = sparse.csc_array((np.ones(inside.sum()), (key[inside], at[inside])), shape=(k, len(row)))

    def total(label: np.ndarray, count: int) -> sparse.csc_array:
        picked = sparse.csc_array((np.ones(len(row)), (label, np.arange(len(row)))), shape=(count, len(row)))
        return sparse.hstack([picked, sparse.csc_array((count, k))], format="csc")

    rows, groups = total(row, n), total(problem.fixed.of[row] * m + column, problem.fixed.answers.size)
    held = np.flatnonzero(problem.fixed.answers.reshape(-1) > 0)
    groups = groups.tocsr()[held].tocsc()
    link = sparse.hstack([sums, -sparse.eye_array(k)], format="csc")
    start = np.concatenate([base, np.zeros(k)])
    equal = sparse.vstack([rows, groups, link], format="csc")
    right = (
        np.concatenate([problem.sums, problem.fixed.answers.reshape(-1)[held], np.zeros(k)]) - equal @ start
    )
    weights = np.repeat(weight, m)
    quadratic = sparse.block_diag(
        [sparse.csc_array((len(row), len(row))), sparse.diags_array(weights)], format="csc"
    )
    linear = np.concatenate([np.zeros(len(row)), -weights * target.reshape(-1)])
    below = sparse.hstack([-sparse.eye_array(len(row)), sparse.csc_array((len(row), k))], format="csc")
    return StandardForm(quadratic, linear, equal, right, below, base, start, np.arange(len(row)))


def _answers(problem: Problem) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    quadratic = problem.quadratic
    return quadratic.matrix, quadratic.weight, quadratic.target


def loss(problem: Problem, x: np.ndarray) -> float:
    """Return the least-squares objective."""
    matrix, weight, target = _answers(problem)
    return float((weight[:, None] * (matrix @ x - target) ** 2).sum() / 2)


def by_milp(problem: RoundingProblem) -> float:
    """Round every entry up or down by an integer program (HiGHS); return its distance to the estimate."""
    n, m = problem.estimate.shape
    whole = np.floor(problem.estimate + 1e-6)
    fraction = np.clip(problem.estimate - whole, 0.0, 1.0)
    row, child = np.nonzero(problem.allowed)
    n_x = len(row)
    cost = [problem.weights[-1] * (1 - 2 * fraction[row, child])]

    def sums(label: np.ndarray, count: int) -> sparse.csr_array:
        return summing_matrix(label[row] * m + child, count * m)

    before = problem.exact
    left = before.answers - _added(before.of, whole, before.n_groups)
    blocks, low = [sums(before.of, before.n_groups)], [left.reshape(-1)]
    if problem.sums is not None:
        blocks.append(summing_matrix(row, n))
        low.append(problem.sums - whole.sum(axis=1))
    high = list(low)
    matrix = sparse.vstack(blocks, format="csr")
    for label, weight in zip(problem.chain[2:-1], problem.weights[2:-1], strict=True):
        count = int(label.max()) + 1
        want = _added(label, problem.estimate - whole, count).reshape(-1)
        width = matrix.shape[1]  # two columns an answer hold how far it is above and below
        both = sparse.hstack([sparse.eye_array(count * m), -sparse.eye_array(count * m)])
        top = sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], 2 * count * m))])
        padded = sparse.hstack([sums(label, count), sparse.csr_array((count * m, width - n_x))])
        matrix = sparse.vstack([top, sparse.hstack([padded, both])], format="csr")
        low.append(want)
        high.append(want)
        cost.append(np.full(2 * count * m, float(weight)))
    flat = np.concatenate(cost)
    integral = np.concatenate([np.ones(n_x), np.zeros(len(flat) - n_x)])
    # an entry that is whole already stays, as in the flow
    upper = np.concatenate([(fraction[row, child] >= 1e-6).astype(float), np.full(len(flat) - n_x, np.inf)])
    found = milp(
        flat,
        constraints=LinearConstraint(matrix, np.concatenate(low), np.concatenate(high)),
        bounds=Bounds(np.zeros(len(flat)), upper),
        integrality=integral,
        options={"time_limit": 300.0},
    )
    assert found.status == 0, found.message
    counts = whole.copy()
    counts[row, child] += np.rint(found.x[:n_x])
    return rounding_cost(problem, counts)


def _added(label: np.ndarray, table: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, table.shape[1]))
    np.add.at(out, label, table)
    return out
