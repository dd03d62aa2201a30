"""Linear and mixed-integer programs (HiGHS) and bipartite maximum flows, through SciPy; whoever asks judges the answer.

In integer programs offsets from the whole parts are modelled, never raw counts, so that solver tolerances stay far
below one person; callers re-check every constraint in integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy  # which loads `optimize` when it is first used: few releases need it
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, hstack, vstack
from scipy.sparse.csgraph import maximum_flow

from topdown.arrays import Floats, Ints
from topdown.errors import InternalError

MOST = 2**31 - 1  # SciPy's capacities have 32 bits


def meet_demands(supply: Ints, reach: NDArray[np.bool_], demand: Ints) -> Ints | None:
    """Meet every demand from the supplies that reach it.

    Args:
        supply: persons, (n,). demand: persons, (m,), together `MOST` at most.
        reach: bool (n, m).

    Returns:
        int64 (n, m), or None if the demands cannot be met.

    Raises:
        InternalError: there is more demand than 32-bit capacities hold.
    """
    n, m = reach.shape
    if demand.sum() > MOST:
        raise InternalError(f"more than {MOST:,} people are to be assigned in one area", code="X002")
    network = np.zeros((n + m + 2, n + m + 2), dtype=np.int32)
    network[0, 1 : 1 + n] = np.minimum(supply, demand.sum())
    network[1 : 1 + n, 1 + n : -1] = np.where(reach, demand[None, :], 0)
    network[1 + n : -1, -1] = demand
    result = maximum_flow(csr_array(network), 0, n + m + 1)
    if result.flow_value != demand.sum():
        return None
    flow: Ints = result.flow.toarray()[1 : 1 + n, 1 + n : -1].astype(np.int64)
    return flow


@dataclass(frozen=True, eq=False)
class Optimum:
    """A minimiser and its cost."""

    x: Floats
    cost: float


def minimise_linear(
    cost: Floats, below: tuple[Any, Floats], equal: tuple[Any, Floats], low: Floats | None = None
) -> Optimum | None:
    """Minimise cost . x over x >= low; None if HiGHS does not find an optimum.

    Args:
        cost: (n,).
        below, equal: sparse rows and right sides: rows @ x <= right, rows @ x = right; there may be no rows.
        low: (n,), zero if None.
    """
    sides = [(csr_array(rows), right) if rows.shape[0] else (None, None) for rows, right in (below, equal)]
    bounds = [(0.0 if low is None else float(low[i]), None) for i in range(len(cost))]
    result = scipy.optimize.linprog(np.asarray(cost), *sides[0], *sides[1], bounds=bounds)
    return Optimum(result.x, float(result.fun)) if result.status == 0 else None


NODE_LIMIT = 20_000  # of branch and bound; a limit in seconds would make the result depend on the machine


GAP = 1e-6


# Presolve now and then ends in "Solve error" or a wrong status. So does one program in eight whose fractions are near
# the tolerance of 1e-6: HiGHS gains by breaking a row that much, and refuses its own answer. Larger costs prevent it.
ATTEMPTS = (
    (True, 1.0),
    (False, 1.0),
    (True, 1024.0),
    (False, 1024.0),
)  # presolve, and what costs are multiplied by


OPTIMAL, IMPOSSIBLE = 0, 2  # status of SciPy


class UndecidedError(InternalError):
    """The solver neither found an answer nor showed that there is none."""


def minimise_integer(
    cost: Floats, integrality: Floats, most: Floats, between: tuple[Any, Floats, Floats] | tuple[()]
) -> scipy.optimize.OptimizeResult:
    """Minimise cost . x over 0 <= x <= most, whole where `integrality` is 1.

    Args:
        cost, integrality, most: (n,).
        between: sparse rows, low and high: low <= rows @ x <= high; () for none.

    Returns:
        x, fun and mip_dual_bound; or x None and status IMPOSSIBLE, or another if nothing was found or shown.
    """
    impossible = None
    for presolve, factor in ATTEMPTS:
        result = scipy.optimize.milp(
            cost * factor,
            integrality=integrality,
            bounds=scipy.optimize.Bounds(0, most),
            constraints=scipy.optimize.LinearConstraint(*between) if between else (),
            options={"node_limit": NODE_LIMIT, "mip_rel_gap": 0.0, "presolve": presolve},
        )
        if result.x is not None:
            bound = result.mip_dual_bound
            result.fun, result.mip_dual_bound = result.fun / factor, None if bound is None else bound / factor
            return result
        if result.status == IMPOSSIBLE:
            if impossible is not None:  # said twice
                return result
            impossible = result
    return result if impossible is None else impossible


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows over the cells with bounds; with a price, missing the target `low` costs it per person instead."""

    rows: coo_array
    low: Floats
    high: Floats
    price: float | None = None


@dataclass(frozen=True, eq=False)
class ProgramAnswer:
    """Which cells go up (int64, 0 or 1), by how much each soft row is exceeded, whether that is proved best."""

    up: Ints
    over: Floats
    optimal: bool


@dataclass(eq=False)
class RoundingProgram:
    """min cost . up over up in {0, 1}^n under blocks of rows.

    Args:
        cost: float64 (n,), of each cell that goes up.
        blocks: added by the methods.
    """

    cost: Floats
    blocks: list[RowBlock] = field(default_factory=list)

    def sums(self, group: Ints, n_groups: int) -> coo_array:
        """Return rows that add cells up by group; cells with group -1 are left out."""
        cells = np.flatnonzero(group >= 0)
        return coo_array((np.ones(len(cells)), (group[cells], cells)), shape=(n_groups, len(self.cost)))

    def between(self, rows: coo_array, low: Floats | Ints, high: Floats | Ints) -> None:
        """Demand low <= rows @ up <= high."""
        self.blocks.append(RowBlock(rows, np.asarray(low, np.float64), np.asarray(high, np.float64)))

    def near(self, rows: coo_array, target: Floats, price: float) -> None:
        """Charge `price` a person of distance between rows @ up and the target."""
        self.blocks.append(RowBlock(rows, target, target, price))

    def solve(self, soft: coo_array, most: Floats) -> ProgramAnswer | None:
        """Solve to optimality; None if no choice of cells meets the blocks.

        Args:
            soft, most: rows, maybe none, and their upper limits, kept if possible; else the sum of what is above is
                made as small as can be first, and then kept.

        Raises:
            UndecidedError: the solver cannot tell.
        """
        if not len(most):
            return self._answer(self._run(self.cost, []), np.zeros(0))
        kept = RowBlock(soft, np.full(len(most), -np.inf), most)
        found = self._answer(self._run(self.cost, [kept]), np.zeros(len(most)))
        if found is not None:
            return found
        none = np.zeros(len(self.cost))
        least = self._run(none, [], soft=kept, free=True)
        if least.x is None:
            return None
        proved = self._answer(least, none)
        total = float(self._over(least, soft, most).sum())
        # Which rules are broken is decided by cost: only the sum is kept, not the amounts found first.
        result = self._run(self.cost, [], soft=kept, total=total)
        if result.x is None:
            return None
        answer = self._answer(result, self._over(result, soft, most))
        sure = answer is not None and answer.optimal and proved is not None and proved.optimal
        return answer if answer is None or sure else replace(answer, optimal=False)

    def _over(self, result: scipy.optimize.OptimizeResult, soft: coo_array, most: Floats) -> Floats:
        over = np.rint(soft @ np.rint(result.x[: len(self.cost)]) - most)
        return np.asarray(np.maximum(over, 0.0), dtype=np.float64)

    def _run(
        self,
        cost: Floats,
        more: list[RowBlock],
        soft: RowBlock | None = None,
        *,
        free: bool = False,
        total: float | None = None,
    ) -> scipy.optimize.OptimizeResult:
        # Columns: cells, then two a priced row (below and above its target), then one a soft row. These last ones
        # cost one a unit, or together are at most `total` and cost nothing.
        blocks = self.blocks + more
        priced = [b for b in blocks if b.price is not None and not free]
        n_priced = sum(2 * b.rows.shape[0] for b in priced)
        n_soft = 0 if soft is None else soft.rows.shape[0]
        n_extra = n_priced + n_soft
        costs, rows, low, high, start = [cost], [], [], [], 0
        for block in blocks:
            size = block.rows.shape[0]
            extra = coo_array((size, n_extra))
            if block.price is not None:
                if free:
                    continue
                at = np.arange(size)
                extra = coo_array(
                    (np.repeat([1.0, -1.0], size), (np.tile(at, 2), start + np.arange(2 * size))),
                    shape=(size, n_extra),
                )
                costs.append(np.full(2 * size, block.price))
                start += 2 * size
            rows.append(hstack([block.rows, extra]) if n_extra else block.rows)
            low.append(block.low)
            high.append(block.high)
        if soft is not None:
            at = np.arange(n_soft)
            extra = coo_array((-np.ones(n_soft), (at, n_priced + at)), shape=(n_soft, n_extra))
            rows.append(hstack([soft.rows, extra]))
            low.append(soft.low)
            high.append(soft.high)
            costs.append(np.ones(n_soft) if total is None else np.zeros(n_soft))
            if total is not None:
                ones = np.concatenate([np.zeros(len(cost) + n_priced), np.ones(n_soft)])
                rows.append(coo_array(ones[None, :]))
                low.append(np.zeros(1))
                high.append(np.array([total]))
        between = (vstack(rows).tocsr(), np.concatenate(low), np.concatenate(high)) if rows else ()
        if not len(cost) + n_extra:  # nothing is left to decide
            fits = all((a <= 0).all() and (b >= 0).all() for a, b in zip(low, high, strict=True))
            return scipy.optimize.OptimizeResult(
                x=cost if fits else None, fun=0.0, mip_dual_bound=0.0, status=OPTIMAL if fits else IMPOSSIBLE
            )
        result = minimise_integer(
            np.concatenate(costs),
            np.concatenate([np.ones(len(cost)), np.zeros(n_extra)]),
            np.concatenate([np.ones(len(cost)), np.full(n_extra, np.inf)]),
            between,
        )
        if result.x is None and result.status != IMPOSSIBLE:
            raise UndecidedError(
                f"the integer program of a split was not decided: {result.message}", code="X057"
            )
        return result

    def _answer(self, result: scipy.optimize.OptimizeResult, over: Floats) -> ProgramAnswer | None:
        if result.x is None:
            return None
        gap = abs(result.fun - result.mip_dual_bound) if result.mip_dual_bound is not None else np.inf
        optimal = bool(result.status == OPTIMAL and gap <= GAP * max(1.0, abs(result.fun)))
        return ProgramAnswer(np.rint(result.x[: len(self.cost)]).astype(np.int64), over, optimal)
