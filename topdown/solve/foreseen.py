"""What a solve cannot do, refused with the plan: before anything is spent."""

from __future__ import annotations

from topdown.errors import ConfigError
from topdown.plan.prepare import Context
from topdown.solve.implied.causes import public_regions
from topdown.solve.tree.covered import check_intervals

MOST_PIECES = 2**20  # that the limits of one area are added up from, and its flow network is made of


def check_solve(context: Context) -> None:
    """Refuse a plan that asks for what its solve cannot do.

    Args:
        context: plan and public facts.

    Raises:
        ConfigError: C211 no intervals, see `check_intervals`; C235 the limits of the root have too many pieces.
    """
    check_intervals(context)
    check_pieces(context)


def check_pieces(context: Context) -> None:
    """Refuse a plan whose root has limits of more than `MOST_PIECES` pieces; no other area has more (ConfigError C235).

    Extensions keep no limits: their base tables say what each area holds.

    Cost: nothing for trees of fewer leaves; a piece is one leaf, or several.
    """
    plan, geography = context.plan, context.geography
    if plan.base is not None or len(geography.leaves) <= MOST_PIECES:
        return
    polytopes = public_regions(plan.schema, plan.invariants, geography, context.rules)
    reasons = polytopes.all_leaves.needed[0]
    if reasons and (n_pieces := polytopes.n_pieces(0, 0)) > MOST_PIECES:
        raise ConfigError(
            f"what {geography.root.codes[0]} can hold is a sum of {n_pieces:,} pieces; {MOST_PIECES:,} are the most",
            code="C235",
            fix="leave out upper bounds and nested bounds, keep totals exact further up, or make a release for each "
            "part of the country; nothing was spent",
        )
