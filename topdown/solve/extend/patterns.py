"""Which leaves are alike for whom: the flow variables that make an extension's constraints complete.

At a leaf with base count B(c) the people of base cell c may be in c's cells that are open there. Leaves whose
open cells of c are the same share a *pattern* p; a node's table is kept by (cell, pattern), which are the flows
F of Census TopDown, section 7.3. Then every split is a transportation problem for each (c, p) apart: all its
cells are open in all its leaves, so every whole table that adds up to B(c, p) can be split further, always.

A lower bound is met by people who can be nowhere else, or by a *reserve*: that many people of (c, p) are put
into one of the bound's classes before anything else, see `reserves`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError, InfeasibleError
from topdown.model.cell_classes import distinct_rows
from topdown.model.histogram import Histogram
from topdown.model.public import cell_classes
from topdown.plan.prepare import Context
from topdown.solve.extend.reserves import find_reserves
from topdown.solve.groups import Ints


@dataclass(frozen=True, eq=False)
class Patterns:
    """The base table by pattern, and reserves, at every level.

    Args:
        n_patterns: P; a row is numbered cell * P + pattern, a key base cell * P + pattern.
        n_classes: K; cells that the same constraints concern form a class.
        class_of_cell: class of every cell, -1 where no record may ever be.
        family: of every base cell; base cells with the same classes are a family.
        open: bool (n_families, P, K).
        tables: per level, base table with key as cell.
        reserves: per level, people reserved, with key * K + class as cell.
        reserved: keys with a reserve at some leaf, increasing.
    """

    n_patterns: int
    n_classes: int
    class_of_cell: Ints
    family: Ints
    open: NDArray[np.bool_]
    tables: tuple[Histogram, ...]
    reserves: tuple[Histogram, ...]
    reserved: Ints

    def open_in(self, key: Ints, cells: Ints) -> NDArray[np.bool_]:
        """Tell which cells may hold records of a key (base cell and pattern), elementwise."""
        kind = self.class_of_cell[cells]
        family = self.family[key // self.n_patterns]
        return np.asarray((kind >= 0) & self.open[family, key % self.n_patterns, kind])


@lru_cache(maxsize=1)  # of one plan they are asked for more than once, and a large schema takes a while
def find_patterns(context: Context) -> Patterns:
    """Derive the patterns of a release and its extension from public facts and the base table.

    Raises:
        InfeasibleError: I020 a leaf's base table has no extension that meets the constraints there.
        ConfigError: C073 two lower bounds share some cells, and neither holds the other.
    """
    support = context.support
    if support is None:
        raise ConfigError("this plan extends no release", code="C091")
    rules, cells = context.rules, cell_classes(context.rules)
    leaf_open = rules.open[-1][:, rules.class_of_cell[cells.first]]
    class_of_cell = np.where(np.any(leaf_open, axis=0)[cells.of_cell], cells.of_cell, -1)
    n_leaves, n_classes = leaf_open.shape
    has = np.zeros((support.levels[0].n_cells, n_classes), dtype=bool)
    alive = np.flatnonzero(class_of_cell >= 0)
    has[support.of_cell[alive], class_of_cell[alive]] = True
    of_family, family = distinct_rows(has)
    found = [distinct_rows(leaf_open & mine) for mine in of_family]
    n_patterns = max(len(patterns) for patterns, _ in found)
    opened = np.zeros((len(of_family), n_patterns, n_classes), dtype=bool)
    for f, (patterns, _) in enumerate(found):
        opened[f, : len(patterns)] = patterns
    of_leaf = np.stack([which for _, which in found], axis=1)
    leaves = support.levels[-1]
    key = leaves.cell * n_patterns + of_leaf[leaves.node, family[leaves.cell]]
    here = opened[family[leaves.cell], key % n_patterns]
    _check_open(context, leaves, here)
    reserve = find_reserves(context, leaves, here, cells.marked(rules.bound_cells).T)
    table = Histogram(n_leaves, leaves.n_cells * n_patterns, leaves.node, key, leaves.count)
    kept = Histogram.build(
        n_leaves, table.n_cells * n_classes, leaves.node[reserve[0]],
        key[reserve[0]] * n_classes + reserve[1], reserve[2],
    )  # fmt: skip
    return Patterns(
        n_patterns,
        n_classes,
        class_of_cell,
        family,
        opened,
        table.at_every_level(context.geography),
        kept.at_every_level(context.geography),
        np.unique(key[reserve[0]]),
    )


def _check_open(context: Context, leaves: Histogram, here: NDArray[np.bool_]) -> None:
    nowhere = np.flatnonzero(~here.any(axis=1))
    if len(nowhere):
        code = context.geography.leaves.codes[leaves.node[nowhere[0]]]
        raise InfeasibleError(
            f"the base release has records in {code} for which the new constraints leave no cell",
            code="I020",
            node=code,
            fix="check the public facts of this area against the base release",
        )
