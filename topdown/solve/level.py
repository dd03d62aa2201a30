"""What all problems of one level share: query labels, weights, passes, rounding chain, bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from topdown.model.comparison import comparison_rows
from topdown.model.query import parse_query
from topdown.plan.plan import Pass
from topdown.plan.prepare import Context
from topdown.solve.chain import bound_of_cell, exact_beside
from topdown.solve.exact import Margins, NodeTable
from topdown.solve.groups import Floats, Ints
from topdown.solve.polytopes import Polytopes


@dataclass(frozen=True, eq=False)
class LevelModel:
    """One level of a plan in the solver's terms.

    Args:
        index: position of the level, 0 at the root.
        query_names: measured queries, in the order of the answers.
        labels: int64 (n_queries, n_cells), answer of each cell in each measured query.
        offsets: int64 (n_queries,), where each query's answers start in a node's answer row.
        weights: float64 (n_queries,), inverse variance.
        passes: solving order.
        tables: labels of every table the passes fix, by name.
        chain: labels of the rounding chain, coarse to fine, each int64 (n_cells,).
        chain_weights: int64, weight of one person of rounding error in each table of the chain.
        bound_of_cell: lower bound (or kind, where there are limits) each cell belongs to, -1 for none.
        class_of_cell, open, lower: see `Rules`, of this level.
        totals: exact node totals of the level.
        exact: exact table of the level that tells more than totals.
        limited: whether nodes have limits on sets of kinds (`Polytopes`), which take the place of lower bounds.
        exact_told: whether the limits tell that table too: it is exact at this level or sums up one below.
        comparisons: int64 (n_rules, n_cells), soft rules (`model.comparison`).
    """

    index: int
    query_names: tuple[str, ...]
    labels: Ints
    offsets: Ints
    weights: Floats
    passes: tuple[Pass, ...]
    tables: dict[str, Ints]
    chain: tuple[Ints, ...]
    chain_weights: tuple[int, ...]
    bound_of_cell: Ints
    class_of_cell: Ints
    open: NDArray[np.bool_]
    lower: Ints
    totals: NodeTable
    exact: NodeTable
    exact_told: bool
    limited: bool
    comparisons: Ints

    @property
    def exact_beside(self) -> bool:
        """Whether the exact table is kept beside the limits."""
        return self.exact.is_told and not self.exact_told


def build_levels(context: Context, polytopes: Polytopes, margins: Margins) -> tuple[LevelModel, ...]:
    """Describe every level of a plan.

    Args:
        context: plan and public facts.
        polytopes: what splits down to the leaves, with the exact totals.
        margins: exact tables above the leaves.
    """
    plan, rules = context.plan, context.rules
    comparisons = comparison_rows(plan.schema, plan.invariants)
    root, split = margins.root.tells_more, margins.split.tells_more
    levels = []
    for i, level in enumerate(plan.levels):
        queries = [parse_query(plan.schema, m.query) for m in level.measurements]
        sizes = np.array([q.n_answers for q in queries], dtype=np.int64)
        chain = [parse_query(plan.schema, r.table) for r in level.rounding]
        exact = margins.root if root and i == 0 else _sums(context, polytopes, margins, i)
        beside = exact_beside(polytopes, i, root=root, split=split)
        levels.append(
            LevelModel(
                index=i,
                query_names=tuple(q.name for q in queries),
                labels=np.stack([q.labels.astype(np.int64) for q in queries]),
                offsets=np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64),
                weights=np.array([float(1 / m.variance) for m in level.measurements]),
                passes=level.passes,
                tables={
                    p.table: parse_query(plan.schema, p.table).labels.astype(np.int64) for p in level.passes
                },
                chain=tuple(q.labels.astype(np.int64) for q in chain),
                chain_weights=tuple(r.weight for r in level.rounding),
                bound_of_cell=bound_of_cell(rules, polytopes, i),
                class_of_cell=rules.class_of_cell,
                open=rules.open[i],
                lower=rules.lower[i],
                totals=NodeTable(np.zeros(plan.schema.n_cells, dtype=np.int64), polytopes.totals_at(i)),
                exact=exact,
                limited=polytopes.limited(i),
                exact_told=exact.is_told and not beside,
                comparisons=comparisons,
            )
        )
    return tuple(levels)


def _sums(context: Context, polytopes: Polytopes, margins: Margins, depth: int) -> NodeTable:
    """Return the exact table of the deepest exact level, added up to a level at or above it."""
    split = margins.split
    if not split.tells_more or depth > polytopes.unit_depth:
        return NodeTable.none(len(split.of_cell), len(context.geography.levels[depth]))
    return replace(split, answers=context.geography.upward(split.answers, polytopes.unit_depth, depth))
