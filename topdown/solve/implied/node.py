"""The constraints of one concrete area, with its numbers from public facts; exact statistics stay symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topdown.model.constraint_table import CLOSING, leaf_rows, of_kinds
from topdown.solve.groups import Ints
from topdown.solve.implied.causes import Ground
from topdown.solve.implied.describe import soft_lines
from topdown.solve.implied.naming import kind_names, selection_text
from topdown.solve.implied.node_limits import Combination, KindPatterns, limit_lines
from topdown.solve.polytopes import Marks

Line = tuple[str, str]  # algebra, reason


@dataclass(frozen=True)
class KindOfCells:
    """Cells that no constraint tells apart: name, cells of the schema, leaves of the area where they are open."""

    name: str
    n_cells: int
    n_leaves: int


@dataclass(frozen=True)
class NodeConstraints:
    """What the table of one area must satisfy so that it splits down to the leaves.

    Args:
        level, node: the area. leaf_level: name of the lowest level. n_leaves: leaves of the area.
        kinds: of cells.
        lines: bounds, zeros and exact statistics, added up.
        leaves: combinations of open kinds among the leaves, by frequency.
        total_level: level of the areas below whose totals are exact, empty if there are none.
        totals: combinations of open kinds among them.
        limits: on sets of kinds, where needed, those that follow from no others.
        n_more: limits beyond those listed.
    """

    level: str
    node: str
    leaf_level: str
    n_leaves: int
    kinds: tuple[KindOfCells, ...]
    lines: tuple[Line, ...]
    leaves: tuple[Combination, ...]
    total_level: str
    totals: tuple[Combination, ...]
    limits: tuple[str, ...]
    n_more: int


def node_constraints(
    ground: Ground, columns: Mapping[str, Ints], depth: int, node: int, *, most_limits: int
) -> NodeConstraints:
    """Add up what the leaves of a node ask of it.

    Args:
        ground: rules and polytopes from public facts.
        columns: the public facts. depth, node: the area.
        most_limits: limits on sets of kinds to list.
    """
    polytopes = ground.polytopes
    names = kind_names(ground.schema, polytopes.kinds)
    inside = polytopes.leaf_range(depth, node)
    is_open = polytopes.rules.open[-1][inside][:, polytopes.kinds.class_of]
    n_leaves = inside.stop - inside.start
    totals_below = depth < polytopes.unit_depth
    units = polytopes.geography.ancestors_of_leaves[max(polytopes.unit_depth, depth)][inside]
    patterns = _patterns(is_open, units)
    limits: list[str] = []
    if polytopes.limited(depth):
        limits = limit_lines(ground, names, patterns, depth, node)
    return NodeConstraints(
        ground.level_names[depth],
        polytopes.geography.levels[depth].codes[node],
        ground.level_names[-1],
        n_leaves,
        tuple(
            KindOfCells(name, int((polytopes.kinds.of_cell == k).sum()), int(is_open[:, k].sum()))
            for k, name in enumerate(names)
        ),
        tuple(_lines(ground, columns, depth, inside)),
        _patterns(is_open, np.arange(n_leaves)).combinations(names, symbols=False),
        ground.level_names[polytopes.unit_depth] if totals_below else "",
        patterns.combinations(names, symbols=True) if totals_below else (),
        tuple(limits[:most_limits]),
        max(len(limits) - most_limits, 0),
    )


def _lines(ground: Ground, columns: Mapping[str, Ints], depth: int, inside: slice) -> list[Line]:
    """Write bounds, zeros and exact statistics with their numbers."""
    schema, invariants, levels = ground.schema, ground.invariants, ground.level_names
    out: list[Line] = []
    rows = leaf_rows(schema, invariants, columns, ground.polytopes.geography)
    for row in of_kinds(rows, "never", "none_where_zero", "at_least", "at_most"):
        low, high, name = int(row.low[inside].sum()), row.high[inside], selection_text(schema, row.selection)
        if row.kind in CLOSING and not high.any():
            out.append((f"x[{name}] = 0", row.name))
        elif low:
            out.append((f"x[{name}] >= {low}", row.name))
        elif row.kind == "at_most":
            out.append((f"x[{name}] <= {int(high.sum())}", row.name))
    for exact in invariants.exact:
        at = levels.index(exact.level)
        if at == depth:
            out.append((f"x[{exact.query}] = the {exact.level}'s {exact.query}", exact.name))
        elif at > depth:
            out.append((f"x[{exact.query}] = the sum of every {exact.level}'s {exact.query}", exact.name))
    return out + soft_lines(schema, invariants)


def _patterns(is_open: Marks, areas: Ints) -> KindPatterns:
    _, area = np.unique(areas, return_inverse=True)
    area_open = np.zeros((int(area.max(initial=-1)) + 1, is_open.shape[1]), dtype=bool)
    np.logical_or.at(area_open, area, is_open)
    found, pattern, count = np.unique(area_open, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    return KindPatterns(found[order], count[order], np.argsort(order)[pattern.reshape(-1)][area])
