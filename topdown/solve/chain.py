"""How a level is rounded: its chain of tables, and whether that is a flow. Asked by the solver and by verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from topdown.model.labels import refines
from topdown.model.public import Rules
from topdown.solve.flow import laminar_places
from topdown.solve.groups import Ints
from topdown.solve.polytopes import Polytopes

Tables = tuple[Ints, ...]  # labels of the tables of a rounding chain, coarse to fine, each (n_cells,)
Places = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """The rounding chain of a level.

    Args:
        tables: labels, coarse to fine. weights: of one person of error in each.
        exact_place: which of them is the exact table that rounding keeps as mandatory flow; None if there is none.
        crossed: whether there is an exact table and neither the chain nor the limits on kinds can keep it.
    """

    tables: Tables
    weights: tuple[int, ...]
    exact_place: int | None = None
    crossed: bool = False


def bound_of_cell(rules: Rules, polytopes: Polytopes, depth: int) -> Ints:
    """Return the lower bound (or kind, where nodes have limits) of each cell of a level, -1 for none."""
    if polytopes.limited(depth):
        return polytopes.kinds.of_cell
    bound = np.full(len(rules.class_of_cell), -1, dtype=np.int64)
    for k, cells in enumerate(rules.bound_cells):
        bound[cells] = k
    return bound


def exact_beside(polytopes: Polytopes, depth: int, root: Ints | None, split: Ints | None) -> Ints | None:
    """Return the exact table of a level that the limits on kinds do not keep, as answers of cells; None without one.

    Args:
        polytopes: of the release. depth: of the level.
        root, split: answers of cells in the root's own table and in that of the deepest exact level
            (`model.exact_tables.Arrangement`); None where there is none.
    """
    if depth == 0 and root is not None:
        return root
    return None if depth > polytopes.unit_depth or polytopes.limited(depth) else split


def chain_of(
    polytopes: Polytopes, depth: int, tables: Tables, weights: tuple[int, ...], exact: Ints | None
) -> Chain:
    """Return the rounding chain, with the total in front where totals are exact or kinds have limits.

    An exact table joins it without weight behind the last table that it refines, if the next one refines it.

    Args:
        polytopes: of the release. depth: of the level.
        tables, weights: of the settings. exact: from `exact_beside`.
    """
    total = depth in polytopes.totals
    if (total or polytopes.limited(depth)) and tables[0].any():
        tables = (np.zeros_like(tables[0]), *tables)
        weights = (weights[0] if total else 0, *weights)
    if exact is None:
        return Chain(tables, weights)
    place = sum(refines(exact, table) for table in tables)
    if place == len(tables) or not refines(tables[place], exact):
        return Chain(tables, weights, crossed=True)
    return Chain((*tables[:place], exact, *tables[place:]), (*weights[:place], 0, *weights[place:]), place)


def places(rules: Rules, polytopes: Polytopes, depth: int, chain: Chain) -> Places | None:
    """Return where lower bounds sit in a level's rounding chain; None if its rounding is no flow.

    Args:
        rules: of the release, without exact tables. polytopes: with them.
        depth: of the level. chain: from `chain_of`.
    """
    if chain.crossed:
        return None
    bound = bound_of_cell(rules, polytopes, depth)
    return laminar_places(chain.tables, bound, len(rules.bound_cells), kinds=polytopes.limited(depth))


def fitting_tables(rules: Rules, polytopes: Polytopes, depth: int, exact: Ints | None) -> Tables:
    """Return tables that keep a level's disjoint bounds or its kinds apart, for a verdict without settings.

    With them rounding is a flow, unless an exact table beside the limits puts kinds together or cuts across bounds
    (tests compare with `places`); settings can name such tables.
    """
    bound = bound_of_cell(rules, polytopes, depth)
    apart = bound + 1
    if exact is not None and polytopes.limited(
        depth
    ):  # closed cells go with possible ones of the same answer
        kind = np.zeros(int(exact.max(initial=0)) + 1, dtype=np.int64)
        kind[exact[bound >= 0]] = apart[bound >= 0]
        apart = np.where(bound >= 0, apart, kind[exact])
    return np.zeros_like(bound), apart, np.arange(len(bound))


def obstacle(
    rules: Rules,
    polytopes: Polytopes,
    depth: int,
    tables: Tables,
    names: tuple[str, ...],
    bounds: tuple[str, ...],
    exact: tuple[Ints, str] | None,
) -> str:
    """Say in words why `places` is None.

    Args:
        rules, polytopes, depth: see `places`.
        tables: of the settings. names: of those tables. bounds: names of the lower bounds.
        exact: from `exact_beside`, with the table's name.
    """
    for (coarse, fine), (up, down) in zip(pairwise(tables), pairwise(names), strict=True):
        if not refines(fine, coarse):
            return f'the table "{down}" of the rounding chain does not refine "{up}"'
    if len(np.unique(tables[-1])) != len(tables[-1]):
        return f'the last table of the rounding chain, "{names[-1]}", does not tell all cells apart'
    bound = bound_of_cell(rules, polytopes, depth)
    limited = polytopes.limited(depth)
    if exact is not None:
        if chain_of(polytopes, depth, tables, (0,) * len(tables), exact[0]).crossed:
            return f'the exact table "{exact[1]}" and the tables of the rounding chain cut across each other'
        if limited and _together(exact[0], bound):
            return f'the exact table "{exact[1]}" puts kinds of cells together'
    if limited:
        for table, name in zip(tables[:-1], names, strict=False):
            if table.any() and _together(table, bound):
                return f'the table "{name}" of the rounding chain puts kinds of cells together'
    for b, name in enumerate(bounds):
        alone = any(
            len(np.unique(table[bound == b])) == 1
            and np.array_equal(table == table[bound == b][0], bound == b)
            for table in tables[:-1]
        )
        if not alone:
            return f'the cells of "{name}" are no answer of a table of the rounding chain'
    return "the rounding chain and the bounds cut across each other"


def _together(table: Ints, kind: Ints) -> bool:
    return any(len(np.unique(kind[(kind >= 0) & (table == a)])) > 1 for a in np.unique(table))
