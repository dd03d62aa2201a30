"""What a solve cannot do, or takes much memory for, told from the plan alone: before anything is spent."""

from __future__ import annotations

from topdown.errors import ConfigError
from topdown.plan import LevelPlan, Plan, PublicContext
from topdown.solve.implied import public_constraints
from topdown.solve.least_squares import MOST_CROSSING
from topdown.solve.objectives import CROSSING, FEW_ROWS, WIDE_CELLS
from topdown.solve.tree import check_intervals

MOST_PIECES = 2**20  # that the limits of one area are added up from, and its flow network is made of


def check_solve(context: PublicContext) -> None:
    """Refuse a plan that asks for what its solve cannot do.

    Args:
        context: plan and public facts.

    Raises:
        ConfigError: C211 no intervals, see `check_intervals`; C235 the limits of the root have too many pieces.
    """
    check_intervals(context)
    check_pieces(context)


def check_pieces(context: PublicContext) -> None:
    """Refuse a plan whose root has limits of more than `MOST_PIECES` pieces; no other area has more (ConfigError C235).

    Extensions keep no limits: their base tables say what each area holds.

    Cost: nothing for trees of fewer leaves; a piece is one leaf, or several.
    """
    plan, geography = context.plan, context.geography
    if plan.base is not None or len(geography.leaves) <= MOST_PIECES:
        return
    constraints = public_constraints(plan.schema, plan.invariants, geography, context.rules)
    reasons = constraints.form.needed[0]
    if reasons and (n_pieces := constraints.n_pieces(0, 0)) > MOST_PIECES:
        raise ConfigError(
            f"what {geography.root.codes[0]} can hold is a sum of {n_pieces:,} pieces; {MOST_PIECES:,} are the most",
            code="C235",
            fix="leave out upper bounds and nested bounds, keep totals exact further up, or make a release for each "
            "part of the country; nothing was spent",
        )


def most_dense_rows(plan: Plan) -> int:
    """Return how many rows the largest dense matrix of a split may have: all cells, where it depends on the tables."""
    rules, n = plan.invariants, plan.schema.n_cells
    bounded = rules.bounds or rules.soft_rules or rules.exact
    own = plan.estimates is None or plan.estimates.targets == "own"
    plain = n > WIDE_CELLS and own and not bounded and all(_is_plain_level(level) for level in plan.levels)
    crossing = max(_crossing_answers(plan, level) for level in plan.levels) if plain else n
    return n if crossing > MOST_CROSSING else min(n, max(FEW_ROWS, CROSSING * (crossing + 1)))


def _crossing_answers(plan: Plan, level: LevelPlan) -> int:
    """Return the answers of the last pass that may be of more than one cell."""
    return sum(plan.query(name).n_answers for name in level.passes[-1].queries if name != "detailed")


def _is_plain_level(level: LevelPlan) -> bool:
    """Tell whether the passes of a level are total, from its own answers, and cells, from theirs among others."""
    *before, last = level.passes
    totals = all(step.table == "total" and set(step.queries) == {"total"} for step in before)
    return totals and len(before) < 2 and "detailed" in last.queries
