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
from topdown.solve.groups import FixedTable, Floats, Ints
from topdown.solve.polytopes import Polytopes
from topdown.solve.refusals import no_table_fits


@dataclass(frozen=True, eq=False)
class NodeTable:
    """An exact table of every node of a level; without answers where nothing is exact.

    Args:
        of_cell: int64 (n_cells,), answer of each cell, -1 for none.
        answers: int64 (n_nodes, n_answers).
    """

    of_cell: Ints
    answers: Ints

    @staticmethod
    def none(n_cells: int, n_nodes: int) -> NodeTable:
        """Return a table without answers."""
        return NodeTable(np.full(n_cells, -1, dtype=np.int64), np.zeros((n_nodes, 0), dtype=np.int64))

    @property
    def is_told(self) -> bool:
        """Whether there are answers."""
        return bool(self.answers.shape[1])

    def at(self, index: Ints, cells: Ints) -> FixedTable:
        """Return the answers of some cells at some nodes (InfeasibleError I013: other cells would have records)."""
        if not self.is_told:
            return FixedTable.none(len(cells), len(index))
        present, of = np.unique(self.of_cell[cells], return_inverse=True)
        answers = np.ascontiguousarray(self.answers[index][:, present].T)
        if answers.sum() != self.answers[index].sum():
            raise no_table_fits()
        return FixedTable(of.reshape(-1), answers)

    def may_hold(self, index: Ints, cells: Ints) -> NDArray[np.bool_]:
        """Return which of some cells may hold records at some nodes, bool (n_nodes, n_cells): where no answer is 0."""
        if not self.is_told:
            return np.ones((len(index), len(cells)), dtype=bool)
        return self.answers[index][:, self.of_cell[cells]] > 0


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
    root, split = (None if table is None else table[0] for table in (margins.root, margins.split))
    levels = []
    for i, level in enumerate(plan.levels):
        queries = [parse_query(plan.schema, m.query) for m in level.measurements]
        sizes = np.array([q.n_answers for q in queries], dtype=np.int64)
        chain = [parse_query(plan.schema, r.table) for r in level.rounding]
        own = margins.root if i == 0 else None
        exact = own or _sums(context, polytopes, margins, i)
        none = NodeTable.none(plan.schema.n_cells, level.n_nodes)
        everybody = np.zeros(plan.schema.n_cells, dtype=np.int64)
        known = polytopes.totals.get(i)
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
                totals=none if known is None else NodeTable(everybody, known[:, None]),
                exact=NodeTable(*exact) if exact else none,
                limited=polytopes.limited(i),
                exact_told=exact is not None and exact_beside(polytopes, i, root, split) is None,
                comparisons=comparisons,
            )
        )
    return tuple(levels)


def _sums(context: Context, polytopes: Polytopes, margins: Margins, depth: int) -> tuple[Ints, Ints] | None:
    """Return the exact table of the deepest exact level, added up to a level at or above it."""
    if margins.split is None or depth > polytopes.unit_depth:
        return None
    labels, answers = margins.split
    return labels, context.geography.upward(answers, polytopes.unit_depth, depth)
