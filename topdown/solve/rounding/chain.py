"""What the nodes of a level keep, its chain of rounding tables, and whether rounding is a flow.

Decided once for a release; asked by the solver and by verdicts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import final

import numpy as np

from topdown.arrays import Ints
from topdown.model import FlowArcs, LimitUse, SplitConstraints, refines
from topdown.solve.group_constraints import Bounds, LowerBounds, SubsetLimits

ChainTables = tuple[Ints, ...]  # labels of the tables of a rounding chain, coarse to fine, each (n_cells,)
BoundPositions = tuple[tuple[int, int], ...]
ConstraintNames = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RoundingChain:
    """The rounding chain of a level.

    Args:
        tables: labels, coarse to fine. weights: of one person of error in each.
        exact_place: which of them is the exact table that rounding keeps as mandatory flow; None if there is none.
        crossed: whether there is an exact table and neither the chain nor the limits on kinds can keep it.
    """

    tables: ChainTables
    weights: tuple[int, ...]
    exact_place: int | None = None
    crossed: bool = False

    @cached_property
    def stacked(self) -> Ints:
        """The tables as rows, int64 (n_tables, n_cells)."""
        return np.stack(self.tables)


class NoFlowReason(StrEnum):
    """What stands in the way of a flow, in words."""

    NOT_REFINED = 'the table "{table}" of the rounding chain does not refine "{above}"'
    NOT_APART = 'the last table of the rounding chain, "{table}", does not tell all cells apart'
    CROSSED = 'the exact table "{exact}" and the tables of the rounding chain cut across each other'
    EXACT_MIXES = 'the exact table "{exact}" puts kinds of cells together'
    MIXES = 'the table "{table}" of the rounding chain puts kinds of cells together'
    NO_ANSWER = 'the cells of "{bound}" are no answer of a table of the rounding chain'


@dataclass(frozen=True)
class NoFlow:
    """Why the rounding of a level is no flow: a table of the settings, counted from the last (-1), or a bound."""

    why: NoFlowReason
    table: int = -1
    bound: int = 0

    def explain(
        self, tables: ConstraintNames, bounds: ConstraintNames, exact: ConstraintNames
    ) -> tuple[str, ConstraintNames]:
        """Return the reason in words, and the constraints that have a part in it.

        Args:
            tables: names of the tables of the settings. bounds: of the lower bounds.
            exact: of the exact tables kept beside the limits of the level.
        """
        bound = bounds[self.bound : self.bound + 1]
        table, above = tables[self.table], tables[(self.table - 1) % len(tables)]
        text = self.why.format(table=table, above=above, exact=" and ".join(exact), bound="".join(bound))
        return text, {
            NoFlowReason.CROSSED: exact,
            NoFlowReason.EXACT_MIXES: exact,
            NoFlowReason.NO_ANSWER: bound,
        }.get(self.why, ())


@dataclass(frozen=True, eq=False)
class LevelBounds(ABC):
    """What each node of a level keeps beside exact tables.

    Args:
        depth: of the level.
        group_of_cell: int64 (n_cells,), the group that each cell counts towards, -1 for none.
        n_groups: how many there are.
        has_total: whether totals of the nodes are exact.
        exact_of_cell: int64 (n_cells,), answer of each cell in the exact table of the level; zeros for none.
        exact_beside: whether there is such a table and these bounds do not keep it.
    """

    depth: int
    group_of_cell: Ints
    n_groups: int
    has_total: bool
    exact_of_cell: Ints
    exact_beside: bool

    @property
    @abstractmethod
    def checks_exact(self) -> bool:
        """Whether a table of the root that crosses the exact one is held against these bounds and both."""

    @property
    def mandatory(self) -> Ints:
        """Answer of each cell in the exact table that rounding has to keep; zeros for none."""
        return self.exact_of_cell * self.exact_beside

    @abstractmethod
    def among(self, constraints: SplitConstraints, nodes: Ints, cells: Ints) -> Bounds:
        """Return the bounds of some nodes on some cells."""

    @abstractmethod
    def networks(self, constraints: SplitConstraints, nodes: Ints) -> tuple[FlowArcs, ...]:
        """Return the flow network that people of each node pass through; none where a rounding chain says all."""

    @abstractmethod
    def chain(self, tables: ChainTables, weights: tuple[int, ...]) -> RoundingChain:
        """Return the rounding chain of the settings, with what has to be kept exactly.

        An exact table joins it without weight behind the last table that it refines, if the next one refines it.
        """

    @abstractmethod
    def positions(self, chain: RoundingChain) -> BoundPositions | NoFlow:
        """Return (table, answer) of each lower bound in a chain, or why rounding is no flow."""

    @abstractmethod
    def fitting_tables(self) -> ChainTables:
        """Return tables that keep the groups apart, for a verdict without settings.

        With them rounding is a flow, unless an exact table beside the bounds puts groups together or cuts across them
        (tests compare with `positions`); settings can name such tables.
        """


@final
@dataclass(frozen=True, eq=False)
class DisjointBounds(LevelBounds):
    """Lower bounds that public facts give, on disjoint cells: with open cells they say which tables can be split."""

    @property
    def checks_exact(self) -> bool:
        """They are held against the exact table by a linear program."""
        return False

    def among(self, constraints: SplitConstraints, nodes: Ints, cells: Ints) -> LowerBounds:
        """Return the lower bounds of some nodes on some cells."""
        lower = constraints.numbers.lower[self.depth][nodes][:, : self.n_groups]
        return LowerBounds(self.group_of_cell[cells], np.ascontiguousarray(lower.T))

    def networks(self, constraints: SplitConstraints, nodes: Ints) -> tuple[FlowArcs, ...]:
        """Return none."""
        del constraints, nodes
        return ()

    def chain(self, tables: ChainTables, weights: tuple[int, ...]) -> RoundingChain:
        """Return the chain, with the total in front where totals are exact."""
        if self.has_total and tables[0].any():
            tables, weights = (np.zeros_like(tables[0]), *tables), (weights[0], *weights)
        return _with_exact_table(tables, weights, self.mandatory)

    def positions(self, chain: RoundingChain) -> BoundPositions | NoFlow:
        """Return where each lower bound sits, or why rounding is no flow."""
        return laminar_positions(chain, self.group_of_cell, self.n_groups)

    def fitting_tables(self) -> ChainTables:
        """Return the total, the bounds, and the cells."""
        return np.zeros_like(self.group_of_cell), self.group_of_cell + 1, np.arange(len(self.group_of_cell))


@final
@dataclass(frozen=True, eq=False)
class PolytopeBounds(LevelBounds):
    """Limits on sets of kinds of cells: the base polytope of what splits down to the leaves."""

    @property
    def checks_exact(self) -> bool:
        """Limits alone say nothing of an exact table that is kept beside them."""
        return self.exact_beside

    def among(self, constraints: SplitConstraints, nodes: Ints, cells: Ints) -> SubsetLimits:
        """Return the limits of some nodes, and the kinds of some cells."""
        return SubsetLimits(self.group_of_cell[cells], self.n_groups, constraints.limits(self.depth, nodes))

    def networks(self, constraints: SplitConstraints, nodes: Ints) -> tuple[FlowArcs, ...]:
        """Return the network of each node."""
        return tuple(constraints.arcs(self.depth, int(node)) for node in nodes)

    def chain(self, tables: ChainTables, weights: tuple[int, ...]) -> RoundingChain:
        """Return the chain with the total in front."""
        if tables[0].any():
            tables = (np.zeros_like(tables[0]), *tables)
            weights = (weights[0] * self.has_total, *weights)
        return _with_exact_table(tables, weights, self.mandatory)

    def positions(self, chain: RoundingChain) -> BoundPositions | NoFlow:
        """Return nothing where rounding is a flow: a node's own network keeps its limits."""
        return laminar_positions(chain, self.group_of_cell, 0, kinds=True)

    def fitting_tables(self) -> ChainTables:
        """Return the total, the kinds, and the cells; closed cells go with possible ones of the same answer."""
        kind, exact = self.group_of_cell, self.mandatory
        apart = np.zeros(int(exact.max(initial=0)) + 1, dtype=np.int64)
        apart[exact[kind >= 0]] = kind[kind >= 0] + 1
        return np.zeros_like(kind), np.where(kind >= 0, kind + 1, apart[exact]), np.arange(len(kind))


def level_bounds(constraints: SplitConstraints, depth: int) -> LevelBounds:
    """Return what the nodes of a level keep."""
    form, system = constraints.form, constraints.form.system
    exact, has_total = form.exact_of_cell[depth], depth in constraints.totals
    if constraints.decided(depth) is LimitUse.KEPT:
        beside = form.root_table and depth == 0
        kinds = constraints.partition
        return PolytopeBounds(depth, kinds.of_cell, kinds.n_kinds, has_total, exact, beside)
    bound = np.full(len(system.class_of_cell), -1, dtype=np.int64)
    for k, cells in enumerate(system.bound_cells[: system.n_public_bounds]):
        bound[cells] = k
    beside = bool(constraints.numbers.exact[depth].shape[1])
    return DisjointBounds(depth, bound, system.n_public_bounds, has_total, exact, beside)


def _with_exact_table(tables: ChainTables, weights: tuple[int, ...], exact: Ints) -> RoundingChain:
    if not exact.any():
        return RoundingChain(tables, weights)
    place = sum(refines(exact, table) for table in tables)
    if place == len(tables) or not refines(tables[place], exact):
        return RoundingChain(tables, weights, crossed=True)
    return RoundingChain(
        (*tables[:place], exact, *tables[place:]), (*weights[:place], 0, *weights[place:]), place
    )


def laminar_positions(
    chain: RoundingChain, bound_of: Ints, n_bounds: int, *, kinds: bool = False
) -> BoundPositions | NoFlow:
    """Return (table, answer) of each lower bound, or why the rounding is no flow.

    It is a flow when every table refines the one before, the last tells every cell apart, and the cells of each
    lower bound are exactly one answer of one table. Where kinds have limits there are no lower bounds: the first
    table is the total, and the others tell kinds apart. What holds for all cells holds for any subset of them.
    """
    own = [table for t, table in enumerate(chain.tables) if t != chain.exact_place]
    for t in range(1 - len(own), 0):
        if not refines(own[t], own[t - 1]):
            return NoFlow(NoFlowReason.NOT_REFINED, t)
    if len(np.unique(own[-1])) != len(own[-1]):
        return NoFlow(NoFlowReason.NOT_APART)
    if chain.crossed:
        return NoFlow(NoFlowReason.CROSSED)
    if kinds:
        if chain.exact_place is not None and _puts_together(chain.tables[chain.exact_place], bound_of):
            return NoFlow(NoFlowReason.EXACT_MIXES)
        mixed = [t for t in range(1 - len(own), -1) if _puts_together(own[t], bound_of)]
        return NoFlow(NoFlowReason.MIXES, mixed[0]) if mixed else ()
    found = []
    for b in range(n_bounds):
        cells = bound_of == b
        answers = [(t, np.unique(table[cells])) for t, table in enumerate(chain.tables[:-1])]
        one = [
            (t, int(a[0]))
            for t, a in answers
            if len(a) == 1 and np.array_equal(chain.tables[t] == a[0], cells)
        ]
        if not one:
            return NoFlow(NoFlowReason.NO_ANSWER, bound=b)
        found.append(one[0])
    return tuple(found)


def _puts_together(table: Ints, kind: Ints) -> bool:
    return any(len(np.unique(kind[(kind >= 0) & (table == a)])) > 1 for a in np.unique(table))
