"""Refuse numbers of a plan that files or solver cannot hold exactly: better now than after the budget is spent."""

from __future__ import annotations

from math import prod

import numpy as np

from topdown.errors import ConfigError
from topdown.laws import LAWS
from topdown.model.geography import Geography
from topdown.model.kinds import MAX_KINDS
from topdown.plan.document import at
from topdown.plan.plan import LevelPlan, Plan

MOST_NUMBER = 2**63 - 1  # of numerator and denominator in measurement files
MOST_TIMES = 10**6  # between the variances of one level: beyond, least squares in float64 do not converge
MOST_WEIGHT = 10**6  # of one person of rounding error
MOST_COST = 2**61 // 10**6  # largest weight times nodes of a flow network: `rounding.LARGEST_COST` in persons


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
            _check_weights(plan, level, most_nodes(plan, geography, depth), is_extension=is_extension)


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


def _check_weights(plan: Plan, level: LevelPlan, n_nodes: int, *, is_extension: bool) -> None:
    """Refuse weights whose costs in a network of at most `n_nodes` nodes do not stay exact.

    An extension rounds stage by stage, in networks of its own, which only a weight itself bounds.
    """
    most = MOST_WEIGHT if is_extension else min(MOST_WEIGHT, MOST_COST // n_nodes)
    large = next((step for step in level.rounding if step.weight > most), None)
    if large is not None:
        raise ConfigError(
            f"level {level.name!r}: the rounding weight {large.weight} of {large.table!r} is too large for exact "
            "costs of that many areas below one parent",
            code="C055",
            fix=f"give at most {most:,}" if most else "give the level fewer tables in its rounding chain",
        )


def most_nodes(plan: Plan, geography: Geography, depth: int) -> int:
    """Return the most nodes that a flow network of the rounding of a level can have (`solve/flow.py`), and one more.

    * One for everybody, one for people of unknown rows, one a cell.
    * One a child and answer of each table but the last, whose nodes are the cells; of the total that may come first,
      and of the exact table that may join the chain (`chain_of`).
    * A network of kinds for each child (`region_network`): one a kind; one an answer of the exact table and area that
      has one, in all at most one an answer and leaf; one a bounded set and leaf. Sets of 14 kinds that are nested or
      disjoint are at most 27.
    """
    tables = [plan.query(step.table).n_answers for step in plan.levels[depth].rounding]
    exact = prod(plan.query(e.query).n_answers for e in plan.invariants.exact)
    answers = min(exact, plan.schema.n_cells)
    n_children, n_leaves = _most_below(geography, depth)
    by_child = sum(tables[:-1]) + 1 + answers + MAX_KINDS
    return 3 + plan.schema.n_cells + n_children * by_child + n_leaves * (answers + 2 * MAX_KINDS - 1)


def _most_below(geography: Geography, depth: int) -> tuple[int, int]:
    """Return the most children and the most leaves below one parent of the nodes of a level; all below none."""
    if depth == 0:
        return 1, len(geography.leaves)
    leaves = np.bincount(geography.ancestors_of_leaves[depth - 1])
    return int(np.diff(geography.child_pointers[depth - 1]).max()), int(leaves.max())
