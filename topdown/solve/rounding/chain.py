"""How a level is rounded: its chain of tables, and whether that is a flow. Asked by the solver and by verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from topdown.arrays import Ints
from topdown.model import ConstraintSystem, refines
from topdown.solve.polytopes import SplitPolytopes

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

    def told(
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


def bound_of_cell(rules: ConstraintSystem, polytopes: SplitPolytopes, depth: int) -> Ints:
    """Return the lower bound (or kind, where nodes have limits) of each cell of a level, -1 for none."""
    if polytopes.limited(depth):
        return polytopes.kinds.of_cell
    bound = np.full(len(rules.class_of_cell), -1, dtype=np.int64)
    for k, cells in enumerate(rules.bound_cells):
        bound[cells] = k
    return bound


def exact_beside(polytopes: SplitPolytopes, depth: int, *, root: bool, split: bool) -> bool:
    """Tell whether a level has an exact table that the limits on kinds do not keep.

    Args:
        polytopes: of the release. depth: of the level.
        root, split: whether the root's own table, and that of the deepest exact level, tell more than totals
            (`model.exact_tables.Arrangement`).
    """
    return (depth == 0 and root) or (split and depth <= polytopes.unit_depth and not polytopes.limited(depth))


def chain_of(
    polytopes: SplitPolytopes, depth: int, tables: ChainTables, weights: tuple[int, ...], exact: Ints
) -> RoundingChain:
    """Return the rounding chain, with the total in front where totals are exact or kinds have limits.

    An exact table joins it without weight behind the last table that it refines, if the next one refines it.

    Args:
        polytopes: of the release. depth: of the level.
        tables, weights: of the settings.
        exact: answer of each cell in the exact table beside the limits; zeros where there is none.
    """
    total = depth in polytopes.totals
    if (total or polytopes.limited(depth)) and tables[0].any():
        tables = (np.zeros_like(tables[0]), *tables)
        weights = (weights[0] if total else 0, *weights)
    if not exact.any():
        return RoundingChain(tables, weights)
    place = sum(refines(exact, table) for table in tables)
    if place == len(tables) or not refines(tables[place], exact):
        return RoundingChain(tables, weights, crossed=True)
    return RoundingChain(
        (*tables[:place], exact, *tables[place:]), (*weights[:place], 0, *weights[place:]), place
    )


def bound_positions(
    rules: ConstraintSystem, polytopes: SplitPolytopes, depth: int, chain: RoundingChain
) -> BoundPositions | NoFlow:
    """Return where lower bounds sit in a level's rounding chain, or why its rounding is no flow.

    Args:
        rules: of the release, without exact tables. polytopes: with them.
        depth: of the level. chain: from `chain_of`.
    """
    bound = bound_of_cell(rules, polytopes, depth)
    return laminar_positions(chain, bound, len(rules.bound_cells), kinds=polytopes.limited(depth))


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


def fitting_tables(
    rules: ConstraintSystem, polytopes: SplitPolytopes, depth: int, exact: Ints
) -> ChainTables:
    """Return tables that keep a level's disjoint bounds or its kinds apart, for a verdict without settings.

    With them rounding is a flow, unless an exact table beside the limits puts kinds together or cuts across bounds
    (tests compare with `places`); settings can name such tables.
    """
    bound = bound_of_cell(rules, polytopes, depth)
    apart = bound + 1
    if polytopes.limited(depth):  # closed cells go with possible ones of the same answer
        kind = np.zeros(int(exact.max(initial=0)) + 1, dtype=np.int64)
        kind[exact[bound >= 0]] = apart[bound >= 0]
        apart = np.where(bound >= 0, apart, kind[exact])
    return np.zeros_like(bound), apart, np.arange(len(bound))


def _puts_together(table: Ints, kind: Ints) -> bool:
    return any(len(np.unique(kind[(kind >= 0) & (table == a)])) > 1 for a in np.unique(table))
