"""A least-squares problem in the form that generic solvers take, and their answers in ours.

Centred and condensed: rows x columns variables measured from an even share of each segment, so that an absolute
tolerance means persons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from topdown.solve.groups import Floats, Ints
from topdown.solve.least_squares.per_child import PerChild
from topdown.solve.least_squares.problem import Problem, Solution
from topdown.solve.least_squares.quadratics import Dense


@dataclass(frozen=True, eq=False)
class Standard:
    """min 1/2 d'Pd + q'd with Ad = b, Gd <= h over the allowed entries; x = base + d, column-major entries."""

    quadratic: sparse.csc_array
    linear: Floats
    equal: sparse.csc_array
    equal_to: Floats
    below: sparse.csc_array
    limit: Floats
    base: Floats
    entries: np.ndarray[tuple[int], np.dtype[np.int64]]


def standard_form(problem: Problem) -> Standard:
    """Write a problem of a dense quadratic in the form generic solvers take."""
    dense = problem.quadratic
    if not isinstance(dense, Dense | PerChild):
        raise TypeError("generic solvers take a dense quadratic")
    n, m = problem.shape
    segment = np.repeat(np.arange(len(problem.sums)), np.diff(problem.pointers)).reshape(n, m)
    allowed_t = problem.allowed.T.reshape(-1)
    entries = np.flatnonzero(allowed_t)
    known = problem.sums >= 0
    counts = np.maximum(np.bincount(segment[problem.allowed], minlength=len(problem.sums)), 1)
    share = np.where(known, problem.sums, 0.0) / counts
    base_t = share[segment].T.reshape(-1)[entries]
    column, row = np.divmod(entries, n)
    if isinstance(dense, Dense):
        blocks = [sparse.csc_array(dense.hessian)] * m
    else:
        blocks = [sparse.csc_array(dense.hessian + dense.beyond.block(j)) for j in range(m)]
    full = sparse.block_diag(blocks, format="csc")
    quadratic = full[entries][:, entries]
    linear = quadratic @ base_t - dense.g.T.reshape(-1)[entries]
    which = segment.T.reshape(-1)[entries]
    position = np.cumsum(known) - 1
    inside = known[which]
    equal = [_picker(position[which[inside]], np.flatnonzero(inside), int(known.sum()), len(entries))]
    equal_to = [problem.sums[known]]
    told = np.flatnonzero(problem.fixed.of[row] >= 0)
    key = problem.fixed.of[row[told]] * m + column[told]
    equal.append(_picker(key, told, problem.fixed.answers.size, len(entries)))
    equal_to.append(problem.fixed.answers.reshape(-1))
    bounds = problem.bounds
    bounded = np.flatnonzero(bounds.of[row] >= 0)
    if len(bounds.everybody):  # base polytopes
        equal.append(_picker(column[bounded], bounded, m, len(entries)))
        equal_to.append(bounds.everybody)
    a = sparse.vstack(equal, format="csc")
    equal_to = [np.concatenate(equal_to) - a @ base_t]
    signs, child, most = bounds.explicit()
    pick = sparse.csc_array(bounds.by_row(signs)[:, row])
    g = sparse.csc_array(pick * (child[:, None] == column[None, :]))
    below = [-sparse.eye_array(len(entries), format="csc"), g]
    limit = [base_t, most - g @ base_t]
    if len(problem.compared.rows):
        quadratic, linear, a = _with_slack(problem, below, limit, quadratic, linear, a, (row, column, base_t))
    return Standard(
        quadratic,
        linear,
        a,
        equal_to[0],
        sparse.vstack(below, format="csc"),
        np.concatenate(limit),
        base_t,
        entries,
    )


def _with_slack(
    problem: Problem,
    below: list[sparse.csc_array],
    limit: list[Floats],
    quadratic: sparse.csc_array,
    linear: Floats,
    a: sparse.csc_array,
    at: tuple[Ints, Ints, Floats],
) -> tuple[sparse.csc_array, Floats, sparse.csc_array]:
    """Add a variable for what each soft rule is exceeded by at each child: nonnegative, at the rule's price.

    Two blocks are put last in `below`: signs of these variables, then the rules.
    """
    soft, (row, column, base_t) = problem.compared, at
    k, m = soft.most.shape
    rule, entry = np.nonzero(soft.rows[:, row])
    rows = sparse.csc_array(
        (soft.rows[rule, row[entry]], (rule * m + column[entry], entry)), shape=(k * m, len(row))
    )
    for i, block in enumerate(below):
        below[i] = sparse.hstack([block, sparse.csc_array((block.shape[0], k * m))], format="csc")
    own = sparse.eye_array(k * m, format="csc")
    below.append(sparse.hstack([sparse.csc_array((k * m, len(row))), -own], format="csc"))
    below.append(sparse.hstack([rows, -own], format="csc"))
    limit += [np.zeros(k * m), soft.most.reshape(-1) - rows @ base_t]
    empty = sparse.csc_array((k * m, k * m))
    return (
        sparse.block_diag([quadratic, empty], format="csc"),
        np.concatenate([linear, np.full(k * m, soft.hinge)]),
        sparse.hstack([a, sparse.csc_array((a.shape[0], k * m))], format="csc"),
    )


def _picker(rows: Any, columns: Any, n_rows: int, n_columns: int) -> sparse.csc_array:
    return sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape=(n_rows, n_columns))


def solution_of(
    problem: Problem, standard: Standard, d: Floats, equal: Floats, below: Floats, steps: int
) -> Solution:
    """Return d and the multipliers of the equalities and the limits as a solution of the problem."""
    n, m = problem.shape
    z_t = np.zeros(n * m)
    x = standard.base + d[: len(standard.base)]
    size, ends = problem.compared.most.size, len(below)
    soft = below[ends - size :].reshape(problem.compared.most.shape)
    below = below[: ends - 2 * size]
    z_t[standard.entries] = np.where(below[: len(x)] >= x, 0.0, np.maximum(x, 0.0))  # one of the two is zero
    n_known = int((problem.sums >= 0).sum())
    ends = n_known + problem.fixed.answers.size
    fixed = -equal[n_known:ends].reshape(problem.fixed.answers.shape)
    bounds, pushed = problem.bounds, below[len(standard.entries) :]
    signs, child, _ = bounds.explicit()
    bound = np.zeros(bounds.lower.shape)
    if len(bounds.everybody):
        bound -= equal[ends:]
    np.add.at(bound.T, child, -signs * pushed[:, None])
    z = np.ascontiguousarray(z_t.reshape(m, n).T)
    return Solution(z, fixed, bounds.signed(bound), soft, steps)
