"""Refuse numbers of a plan that files or solver cannot hold exactly: better now than after the budget is spent."""

from __future__ import annotations

import numpy as np

from topdown.errors import ConfigError
from topdown.laws import LAWS
from topdown.model.geography import Geography
from topdown.plan.document import at
from topdown.plan.plan import LevelPlan, Plan

MOST_NUMBER = 2**63 - 1  # of numerator and denominator in measurement files
MOST_TIMES = 10**6  # between the variances of one level: beyond, least squares in float64 do not converge
MOST_WEIGHT = 10**6  # of one person of rounding error
MOST_COST = 2**52 // 10**6  # persons of weight 1 that a flow network may cost in all


def check_solvable(plan: Plan, geography: Geography, *, is_extension: bool) -> None:
    """Refuse a plan whose noise cannot be written, or whose levels cannot be solved and rounded.

    Raises:
        ConfigError: C072 a variance is too long a fraction, C078 too large for 32-bit answers, C076 the variances of
            a level are too far apart, C055 a rounding weight is too large for the areas below one parent; `key` is
            that of the level.
    """
    for depth, level in enumerate(plan.levels):
        with at("level", str(depth)):
            _check_variances(level)
            _check_weights(plan, level, _most_children(geography, depth), is_extension=is_extension)


def _check_variances(level: LevelPlan) -> None:
    for m in level.measurements:
        if max(m.variance.numerator, m.variance.denominator) > MOST_NUMBER:
            raise ConfigError(
                f"the variance of query {m.query!r} at level {level.name!r} is too long a fraction",
                code="C072",
                fix="choose budget and shares with smaller numerators and denominators",
            )
        if m.parameter > LAWS[m.law].most:
            raise ConfigError(
                f"the noise of query {m.query!r} at level {level.name!r} is too large for 32-bit answers",
                code="C078",
                fix="raise the budget or the share of the query",
            )
    by_variance = sorted(level.measurements, key=lambda m: m.variance)
    if by_variance and by_variance[-1].variance > MOST_TIMES * by_variance[0].variance:
        raise ConfigError(
            f"the noise of {by_variance[-1].query!r} at level {level.name!r} has more than {MOST_TIMES:,} times the "
            f"variance of that of {by_variance[0].query!r}",
            code="C076",
            fix="bring the shares nearer to each other, or leave the query with the smallest share out",
        )


def _check_weights(plan: Plan, level: LevelPlan, n_children: int, *, is_extension: bool) -> None:
    """Bound the nodes of the network from above: a node an answer and child for each table, one a cell.

    An extension rounds stage by stage, in networks of its own, which only a weight itself bounds.
    """
    answers = [plan.query(step.table).n_answers for step in level.rounding]
    n_nodes = sum(answers) * n_children + plan.schema.n_cells
    most = MOST_WEIGHT if is_extension else min(MOST_WEIGHT, MOST_COST // max(n_nodes, 1))
    large = next((step for step in level.rounding if step.weight > most), None)
    if large is not None:
        raise ConfigError(
            f"level {level.name!r}: the rounding weight {large.weight} of {large.table!r} is too large for exact "
            f"costs of {n_children:,} areas below one parent",
            code="C055",
            fix=f"give at most {most:,}" if most else "give the level fewer tables in its rounding chain",
        )


def _most_children(geography: Geography, depth: int) -> int:
    return 1 if depth == 0 else int(np.diff(geography.child_pointers[depth - 1]).max())
