"""Warnings of a plan that spends budget on answers which tell nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topdown.plan.plan import Plan
from topdown.publish.intervals import is_exact


def spent_on_exact(plan: Plan) -> list[dict[str, str]]:
    """Name the measurements of a plan with estimates whose answers are all exact by policy, from 1 % of the loss on."""
    found = []
    for depth, level in enumerate(plan.levels if plan.estimates is not None else ()):
        for m in level.measurements:
            per_cent = int(100 * m.loss / plan.loss)
            if per_cent and is_exact(plan, plan.query(m.query), depth):
                text = f"{per_cent} % of the budget measures {m.query} of level {level.name}, which is exact"
                found.append({"code": "B030", "text": text})
    return found


def fitted_by_no_pass(plan: Plan, estimates: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Name the queries that are measured at a level and fitted by none of its passes.

    Nothing is said of extensions, whose stages choose their queries, and of levels fitted to the whole tree's
    estimate, which takes every answer.

    Args:
        plan: any.
        estimates: level and targets of each level, for a plan that asks for the tree's estimate.
    """
    whole = {at["level"] for at in estimates if at["targets"] == "tree"}
    found = []
    for level in plan.levels if plan.base is None else ():
        fitted = {query for each in level.passes for query in each.queries}
        for m in level.measurements:
            if level.name not in whole and m.query not in fitted:
                text = f"{m.query} of level {level.name} is measured, and no pass fits it: no table is nearer to it"
                found.append({"code": "B032", "text": text})
    return found
