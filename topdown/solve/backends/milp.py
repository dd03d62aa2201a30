"""Rounding as a mixed-integer program (HiGHS through SciPy), for chains that are not laminar.

Offsets from the whole parts are modelled, never raw counts, so that solver tolerances stay far below one person;
the caller re-checks every constraint in integers.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, hstack, vstack

from topdown.errors import InfeasibleError, InternalError
from topdown.solve.flow import floors
from topdown.solve.problem import Floats, Ints
from topdown.solve.regions import subset_sums
from topdown.solve.rounding import Rounded
from topdown.solve.rounding_problem import RoundingProblem, exact_left, kind_counts

TIME_LIMIT_SECONDS = 600.0
MAX_CUTS = 500


def round_by_milp(problem: RoundingProblem) -> Rounded:
    """Round an estimate to the closest whole table, L1 over every table of the chain, up or down by less than one.

    Raises:
        InfeasibleError: no whole table satisfies the constraints.
    """
    m = problem.estimate.shape[1]
    whole, fraction = floors(problem)
    row, child = np.nonzero(problem.allowed)
    n_cells = len(row)
    cost = [problem.weights[-1] * (1 - 2 * fraction[row, child])]
    low, high, blocks, rests = [], [], [], []
    cells = np.arange(n_cells)

    def sums(group: Ints, n_groups: int) -> coo_array:
        return coo_array((np.ones(n_cells), (group, cells)), shape=(n_groups, n_cells))

    if problem.sums is not None:
        blocks.append(sums(row, len(problem.sums)))
        left = (problem.sums - whole.sum(axis=1)).astype(np.float64)
        low.append(left)
        high.append(left)
    if problem.totals is not None:
        blocks.append(sums(child, m))
        left = (problem.totals - whole.sum(axis=0)).astype(np.float64)
        low.append(left)
        high.append(left)
    for a, missing in enumerate(exact_left(problem, whole).astype(np.float64)):
        inside = np.asarray(problem.exact_of)[row] == a
        blocks.append(coo_array((np.ones(inside.sum()), (child[inside], cells[inside])), shape=(m, n_cells)))
        low.append(missing)
        high.append(missing)
    for b, bound in enumerate(problem.lower):
        inside = problem.bound_of[row] == b
        picked = coo_array((np.ones(inside.sum()), (child[inside], cells[inside])), shape=(m, n_cells))
        blocks.append(picked)
        low.append((bound - whole[problem.bound_of == b].sum(axis=0)).astype(np.float64))
        high.append(np.full(m, np.inf))
    for t, table in enumerate(problem.chain[:-1]):
        code = table[:, None] * m + np.arange(m)[None, :]
        present, group = np.unique(code[row, child], return_inverse=True)
        place = np.searchsorted(present, code)
        known = (place < len(present)) & (present[np.minimum(place, len(present) - 1)] == code)
        target = np.zeros(len(present))
        np.add.at(target, place[known], problem.estimate[known] - whole[known])
        blocks.append(sums(group, len(present)))
        low.append(target)
        high.append(target)
        rests.append((len(blocks) - 1, len(present)))
        cost.append(np.full(2 * len(present), float(problem.weights[t])))
    extra = sum(2 * size for _, size in rests)
    rows = []
    start = 0
    for k, block in enumerate(blocks):
        slack = coo_array((block.shape[0], extra))
        size = dict(rests).get(k)
        if size is not None:
            at = np.arange(size)
            slack = coo_array(
                (np.repeat([1.0, -1.0], size), (np.tile(at, 2), start + np.arange(2 * size))),
                shape=(size, extra),
            )
            start += 2 * size
        rows.append(hstack([block, slack]) if extra else block)
    for _ in range(MAX_CUTS):  # limits on kinds are added where an answer breaks them
        constraints = (
            LinearConstraint(vstack(rows).tocsr(), np.concatenate(low), np.concatenate(high)) if rows else ()
        )
        for presolve in (
            True,
            False,
        ):  # presolve of HiGHS now and then ends in "Solve error" or a wrong status
            result = milp(
                np.concatenate(cost),
                integrality=np.concatenate([np.ones(n_cells), np.zeros(extra)]),
                bounds=Bounds(0, np.concatenate([np.ones(n_cells), np.full(extra, np.inf)])),
                constraints=constraints,
                options={"time_limit": TIME_LIMIT_SECONDS, "mip_rel_gap": 0.0, "presolve": presolve},
            )
            if result.x is not None:
                break
        if result.x is None:
            raise InfeasibleError(
                "no whole table satisfies the constraints of this split (integer program)",
                code="I010",
                fix="check the public facts below this node for constraints that exclude each other",
            )
        counts = whole.copy()
        counts[row, child] += np.rint(result.x[:n_cells]).astype(np.int64)
        picked, most = _cuts(problem, whole, counts, row, child)
        if not len(most):
            break
        rows.append(hstack([picked, coo_array((len(most), extra))]) if extra else picked)
        low.append(np.full(len(most), -np.inf))
        high.append(most)
    else:
        raise InternalError("the integer program needs too many limits on kinds of cells", code="X003")
    gap = abs(result.fun - result.mip_dual_bound) if result.mip_dual_bound is not None else np.inf
    return Rounded(counts, bool(result.status == 0 and gap <= 1e-6 * max(1.0, abs(result.fun))), "milp")


def _cuts(
    problem: RoundingProblem, whole: Ints, counts: Ints, row: Ints, child: Ints
) -> tuple[coo_array, Floats]:
    """Return the most broken limit of every child as rows over the cells, and what they may add up to."""
    if problem.limits is None:
        return coo_array((0, len(row))), np.zeros(0)
    over = subset_sums(problem.limits, kind_counts(problem, counts)) - problem.limits
    worst = over.argmax(axis=1)
    broken = np.flatnonzero(over.max(axis=1) > 0)
    k = len(problem.lower)
    holds = ((worst[broken, None] >> np.arange(k)) & 1) - (worst[broken, None] >> k)  # slack: minus all kinds
    signs = holds[:, problem.bound_of[row]] * (child[None, :] == broken[:, None])
    placed = subset_sums(problem.limits, kind_counts(problem, whole))[broken, worst[broken]]
    most = problem.limits[broken, worst[broken]] - placed
    return coo_array(signs.astype(np.float64)), most.astype(np.float64)
