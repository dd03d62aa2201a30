"""What is known of a whole release before its solve: from plan, public facts and exact statistics, level by level."""

from __future__ import annotations

from topdown.model.constraint_table import exact_rows
from topdown.model.kinds import find_kinds
from topdown.model.public import with_answers
from topdown.plan.prepare import Context
from topdown.solve.chain import chain_of, places
from topdown.solve.exact import complete_totals, exact_margins
from topdown.solve.groups import Ints
from topdown.solve.implied.classify import plan_verdicts
from topdown.solve.level import build_levels
from topdown.solve.polytopes import polytopes_of
from topdown.solve.shape import Known, split_off


def known_of(context: Context, exact: dict[str, Ints], tables: dict[str, Ints]) -> Known:
    """Return the public side of a whole release; the only place where a shape is made.

    Args:
        context: plan and public facts.
        exact: exact node totals by level name.
        tables: exact tables other than totals, by name.
    """
    plan, geography = context.plan, context.geography
    verdicts = plan_verdicts(context)  # first: it holds as many numbers of every leaf as all that follows
    margins = exact_margins(context, tables, exact)
    rules = with_answers(
        context.rules, geography, exact_rows(plan.schema, plan.invariants, tables, geography)
    )
    kinds = find_kinds(rules, answers=margins.split.of_cell)
    totals = complete_totals(geography, rules, kinds, exact, margins.split.answers)
    polytopes = polytopes_of(kinds, rules, geography, totals, margins.split.answers)
    levels = build_levels(context, polytopes, margins)
    chains = tuple(
        chain_of(polytopes, v.index, v.chain, v.chain_weights, v.exact.of_cell * v.exact_beside)
        for v in levels
    )
    in_chain = tuple(places(context.rules, polytopes, i, chain) for i, chain in enumerate(chains))
    made = (context.rules, rules), polytopes, levels, (chains, in_chain), verdicts
    shape, nodes = split_off(*made)
    return Known(shape, nodes, context.rules, polytopes, levels)
