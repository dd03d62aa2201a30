"""Whether a level is rounded by a flow, and if not, why: asked by the solver, and for the verdict before it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from topdown.model.public import Rules
from topdown.solve.flow import laminar_places
from topdown.solve.problem import Ints
from topdown.solve.regions import Regions

Chain = tuple[Ints, ...]  # labels of the tables of a rounding chain, coarse to fine, each (n_cells,)
Places = tuple[tuple[int, int], ...]


def bound_of_cell(rules: Rules, regions: Regions, depth: int) -> Ints:
    """Return the lower bound (or kind, where nodes have limits) of each cell of a level, -1 for none."""
    if regions.limited(depth):
        return regions.kinds.of_cell
    bound = np.full(len(rules.class_of_cell), -1, dtype=np.int64)
    for k, cells in enumerate(rules.bound_cells):
        bound[cells] = k
    return bound


def with_total(
    chain: Chain, weights: tuple[int, ...], *, exact: bool, limited: bool
) -> tuple[Chain, tuple[int, ...]]:
    """Put the total in front of a rounding chain where totals are exact or kinds have limits."""
    if not (exact or limited) or not chain[0].any():
        return chain, weights
    return (np.zeros_like(chain[0]), *chain), (weights[0] if exact else 0, *weights)


def places(rules: Rules, regions: Regions, depth: int, chain: Chain) -> Places | None:
    """Return where lower bounds sit in a level's rounding chain; None if its rounding is no flow.

    Args:
        rules: of the release, without exact tables. regions: with them.
        depth: of the level. chain: tables of the settings.
    """
    limited = regions.limited(depth)
    full, _ = with_total(chain, (0,) * len(chain), exact=depth in regions.totals, limited=limited)
    return laminar_places(full, bound_of_cell(rules, regions, depth), len(rules.bound_cells), kinds=limited)


def fitting_chain(rules: Rules, regions: Regions, depth: int) -> Chain:
    """Return a chain of tables that keeps a level's disjoint bounds or its kinds apart: with it, rounding is a flow.

    A verdict without settings rests on it (tests compare it with `places`); settings can name such tables.
    """
    bound = bound_of_cell(rules, regions, depth)
    return np.zeros_like(bound), bound + 1, np.arange(len(bound))


def obstacle(
    rules: Rules, regions: Regions, depth: int, chain: Chain, tables: tuple[str, ...], bounds: tuple[str, ...]
) -> str:
    """Say in words why `places` is None.

    Args:
        rules, regions, depth, chain: see `places`.
        tables: names of the chain's tables. bounds: names of the lower bounds.
    """
    for (coarse, fine), (up, down) in zip(pairwise(chain), pairwise(tables), strict=True):
        if len(np.unique(np.stack([fine, coarse]), axis=1).T) != len(np.unique(fine)):
            return f'the table "{down}" of the rounding chain does not refine "{up}"'
    if len(np.unique(chain[-1])) != len(chain[-1]):
        return f'the last table of the rounding chain, "{tables[-1]}", does not tell all cells apart'
    bound = bound_of_cell(rules, regions, depth)
    if regions.limited(depth):
        for table, name in zip(chain[:-1], tables, strict=False):
            parts = [np.unique(bound[(bound >= 0) & (table == a)]) for a in np.unique(table)]
            if table.any() and any(len(part) > 1 for part in parts):
                return f'the table "{name}" of the rounding chain puts kinds of cells together'
    for b, name in enumerate(bounds):
        alone = any(
            len(np.unique(table[bound == b])) == 1
            and np.array_equal(table == table[bound == b][0], bound == b)
            for table in chain[:-1]
        )
        if not alone:
            return f'the cells of "{name}" are no answer of a table of the rounding chain'
    return "the rounding chain and the bounds cut across each other"
