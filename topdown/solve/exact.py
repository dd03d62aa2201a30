"""Exact statistics in the solver's terms: node totals by level."""

from __future__ import annotations

from typing import Any

import numpy as np

from topdown.errors import DataError, InfeasibleError
from topdown.model.geography import Geography
from topdown.model.kinds import NO_LIMIT, Kinds, outer_sets, set_ranges
from topdown.model.public import Rules
from topdown.plan.prepare import Context
from topdown.solve.problem import Ints


def exact_totals(context: Context, values: dict[str, Any]) -> dict[str, Ints]:
    """Return the exact total of every node of each level that has one.

    Args:
        context: plan and geography.
        values: by invariant name, answers of shape (n_nodes, n_answers) in the order of the level.

    Raises:
        DataError: an exact statistic is missing or has another shape.
    """
    totals: dict[str, Ints] = {}
    for invariant in context.plan.invariants.exact:
        answers = np.asarray(values.get(invariant.name, ()), dtype=np.int64)
        n_nodes = len(context.geography.levels[context.geography.index(invariant.level)])
        if answers.shape != (n_nodes, context.plan.query(invariant.query).n_answers):
            raise DataError(
                f"exact statistic {invariant.name!r} is missing or incomplete in measurements/exact.json",
                code="D051",
                fix="measure again, or get the release again",
            )
        total = answers.sum(axis=1)
        if invariant.level in totals and not np.array_equal(totals[invariant.level], total):
            raise _contradiction(f"two exact totals of level {invariant.level!r} differ", None)
        totals[invariant.level] = total
    return totals


def exact_tables(context: Context, values: dict[str, Any]) -> dict[str, Ints]:
    """Return the exact tables of the leaves other than totals, by query; `exact_totals` checks their shapes."""
    chosen = [e for e in context.plan.invariants.exact if context.plan.query(e.query).factors]
    return {e.query: np.asarray(values[e.name], dtype=np.int64) for e in chosen}


def complete_totals(
    geography: Geography, rules: Rules, kinds: Kinds, exact: dict[str, Ints]
) -> dict[int, Ints]:
    """Return exact totals by depth, those above the deepest exact level added up from it.

    Raises:
        InfeasibleError: totals contradict each other, or the public facts below a node; the node is named.
    """
    given = {geography.index(name): values for name, values in exact.items()}
    if not given:
        return {}
    deepest = max(given)
    totals = {deepest: given[deepest]}
    _check_deepest(geography, rules, kinds, deepest, given[deepest])
    for depth in range(deepest - 1, -1, -1):
        added = np.zeros(len(geography.levels[depth]), dtype=np.int64)
        np.add.at(added, geography.levels[depth + 1].parent, totals[depth + 1])
        wrong = np.flatnonzero(added != given.get(depth, added))
        if len(wrong):
            text = "the exact total of a place is not the sum of the exact totals below it"
            raise _contradiction(text, geography.levels[depth].codes[wrong[0]])
        totals[depth] = added
    return totals


def _check_deepest(geography: Geography, rules: Rules, kinds: Kinds, depth: int, totals: Ints) -> None:
    is_open = rules.open[-1][:, kinds.class_of]
    least, most, innermost = set_ranges(kinds, is_open, kinds.low, kinds.high)
    if (least > most).any():
        text = "the exact tables of a place contradict the public facts about it"
        raise _contradiction(text, geography.leaves.codes[int((least > most).any(axis=1).argmax())])
    outermost = outer_sets(kinds) < 0
    free = is_open[:, innermost < 0].any(axis=1)
    up, n_nodes = geography.ancestors_of_leaves[depth], len(totals)
    few, many = np.zeros(n_nodes, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
    boundless = np.zeros(n_nodes, dtype=bool)
    np.add.at(few, up, least[:, outermost].sum(axis=1))
    np.logical_or.at(boundless, up, free | (most[:, outermost] >= NO_LIMIT).any(axis=1))
    np.add.at(many, up, np.where(most >= NO_LIMIT, 0, most)[:, outermost].sum(axis=1))
    wrong = np.flatnonzero((totals < few) | (~boundless & (totals > many)))
    if len(wrong):
        text = "the exact total of a place contradicts the public facts about it"
        raise _contradiction(text, geography.levels[depth].codes[wrong[0]])


def _contradiction(text: str, node: str | None) -> InfeasibleError:
    fix = "correct the records or the public leaf table, or choose other invariants"
    return InfeasibleError(text, code="I013", node=node, fix=fix)
