"""Which constraints exclude each other where a table cannot be split: the smallest set, or an irreducible one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from topdown.model.constraint_table import ConstraintRow, leaf_rows, of_kinds
from topdown.model.kinds import find_kinds
from topdown.model.public import rules_of, with_answers
from topdown.model.smallest import smallest_conflict
from topdown.plan.prepare import Context
from topdown.solve.failsafe import splits
from topdown.solve.groups import Ints
from topdown.solve.polytopes import Polytopes

MAX_TRIES = 300  # sets that are tried; each is a maximum flow


@dataclass(frozen=True)
class NodeConflict:
    """Constraints without a common table at a node.

    Args:
        names: of bounds and of rules that close cells, in the order of the invariants.
        smallest: whether no set with fewer members conflicts; otherwise only none of these can be left out.
    """

    names: tuple[str, ...]
    smallest: bool


def conflicting(
    context: Context, polytopes: Polytopes, depth: int, parent: int, cells: Ints, counts: Ints
) -> NodeConflict:
    """Return why a node's table does not split; exact totals, exact tables of leaves and `never` are taken as given.

    Args:
        context: plan and public facts. polytopes: of the release.
        depth: level of the children. parent: index of the node at the level above.
        cells, counts: the node's table.
    """
    invariants, geography = context.plan.invariants, polytopes.geography
    children = np.arange(*geography.child_pointers[depth - 1][parent : parent + 2])
    inside = polytopes.leaf_range(depth - 1, parent)
    rows = leaf_rows(context.plan.schema, invariants, context.facts.columns, geography)
    asking = [row for row in rows if row.kind != "never" and row.asks[inside].any()]
    names, n_asking = [row.name for row in asking], len(asking)
    exact = _exact_rows(context, polytopes)
    if polytopes.by_answer and depth <= polytopes.unit_depth:  # the exact table is one more constraint
        level = geography.level_names[polytopes.unit_depth]
        tables = [e for e in invariants.exact if e.level == level and context.plan.query(e.query).factors]
        names.append(" and ".join(e.name for e in tables))

    def conflicts(kept: frozenset[int]) -> bool:
        left = [*of_kinds(rows, "never"), *(row for i, row in enumerate(asking) if i in kept)]
        weaker = with_answers(rules_of(context.plan.schema, geography, left), geography, exact)
        kinds = find_kinds(weaker, answers=polytopes.kinds.answers)
        relaxed = replace(polytopes, kinds=kinds, rules=weaker)
        if n_asking < len(names) and n_asking not in kept:
            relaxed = relaxed.with_totals(polytopes.totals)
        return not splits(relaxed, depth, children, cells, counts)

    found = smallest_conflict(len(names), conflicts, max_tests=MAX_TRIES)
    return NodeConflict(tuple(names[i] for i in sorted(found.members)), found.is_smallest)


def _exact_rows(context: Context, polytopes: Polytopes) -> tuple[ConstraintRow, ...]:
    """Return the exact answers of leaves, which stand behind the bounds that public facts give."""
    rules, depth = polytopes.rules, len(polytopes.geography.levels) - 1
    rule = {e.name: e for e in context.plan.invariants.exact}
    bounds = tuple(zip(rules.bound_names, rules.bound_cells, rules.lower[-1].T, strict=True))
    return tuple(
        ConstraintRow("exact", rule[name], depth, cells, len(n), partial(np.array, n))
        for name, cells, n in bounds[len(context.rules.bound_cells) :]
    )
