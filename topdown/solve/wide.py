"""How large the dense matrices of a plan's least squares become, told from the plan alone."""

from __future__ import annotations

from topdown.plan.plan import LevelPlan, Plan
from topdown.solve.least_squares.structured import MOST_CROSSING
from topdown.solve.statistics import CROSSING, FEW_ROWS, WIDE_CELLS


def most_dense_rows(plan: Plan) -> int:
    """Return how many rows the largest dense matrix of a split may have: all cells, where it depends on the tables."""
    rules, n = plan.invariants, plan.schema.n_cells
    bounded = rules.at_least or rules.at_most or rules.no_more_than or rules.exact
    own = plan.estimates is None or plan.estimates.targets == "own"
    plain = n > WIDE_CELLS and own and not bounded and all(_is_plain(level) for level in plan.levels)
    crossing = max(_crossing(plan, level) for level in plan.levels) if plain else n
    return n if crossing > MOST_CROSSING else min(n, max(FEW_ROWS, CROSSING * (crossing + 1)))


def _crossing(plan: Plan, level: LevelPlan) -> int:
    """Return the answers of the last pass that may be of more than one cell."""
    return sum(plan.query(name).n_answers for name in level.passes[-1].queries if name != "detailed")


def _is_plain(level: LevelPlan) -> bool:
    """Tell whether the passes of a level are total, from its own answers, and cells, from theirs among others."""
    *before, last = level.passes
    totals = all(step.table == "total" and set(step.queries) == {"total"} for step in before)
    return totals and len(before) < 2 and "detailed" in last.queries
