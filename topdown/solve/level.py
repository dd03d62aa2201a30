"""What all problems of one level share: query labels, weights, passes, rounding chain, bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.comparison import comparison_rows
from topdown.model.query import parse_query
from topdown.plan.plan import Pass
from topdown.plan.prepare import Context
from topdown.solve.chain import bound_of_cell, exact_beside
from topdown.solve.exact import Margins
from topdown.solve.problem import Floats, Ints
from topdown.solve.regions import Regions


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
        exact: exact node totals of the level, or None.
        limited: whether nodes have limits on sets of kinds (`Regions`), which take the place of lower bounds.
        exact_of_cell: answer of each cell in the exact table of the level, int64 (n_cells,); None without one.
        exact_table: its answers, int64 (n_nodes, n_answers).
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
    exact: Ints | None
    limited: bool
    comparisons: Ints
    exact_of_cell: Ints | None = None
    exact_table: Ints | None = None
    exact_told: bool = False


def build_levels(context: Context, regions: Regions, margins: Margins) -> tuple[LevelModel, ...]:
    """Describe every level of a plan.

    Args:
        context: plan and public facts.
        regions: what splits down to the leaves, with the exact totals.
        margins: exact tables above the leaves.
    """
    plan, rules = context.plan, context.rules
    comparisons = comparison_rows(plan.schema, plan.invariants)
    root, split = (None if table is None else table[0] for table in (margins.root, margins.split))
    levels = []
    for i, level in enumerate(plan.levels):
        queries = [parse_query(plan.schema, m.query) for m in level.measurements]
        sizes = np.array([q.n_answers for q in queries], dtype=np.int64)
        chain = [parse_query(plan.schema, r.table) for r in level.rounding]
        own = margins.root if i == 0 else None
        exact = own or _sums(context, regions, margins, i)
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
                bound_of_cell=bound_of_cell(rules, regions, i),
                class_of_cell=rules.class_of_cell,
                open=rules.open[i],
                lower=rules.lower[i],
                exact=regions.totals.get(i),
                limited=regions.limited(i),
                exact_of_cell=None if exact is None else exact[0],
                exact_table=None if exact is None else exact[1],
                exact_told=exact is not None and exact_beside(regions, i, root, split) is None,
                comparisons=comparisons,
            )
        )
    return tuple(levels)


def _sums(context: Context, regions: Regions, margins: Margins, depth: int) -> tuple[Ints, Ints] | None:
    """Return the exact table of the deepest exact level, added up to a level at or above it."""
    if margins.split is None or depth > regions.unit_depth:
        return None
    labels, answers = margins.split
    for level in range(regions.unit_depth, depth, -1):
        up = np.zeros((len(context.geography.levels[level - 1]), answers.shape[1]), dtype=np.int64)
        np.add.at(up, context.geography.levels[level].parent, answers)
        answers = up
    return labels, answers
