"""Public facts about leaves, and what they say about every node of the tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.model.cell_classes import CellClasses, digits, tell_apart
from topdown.model.constraint import Invariants
from topdown.model.constraint_table import ConstraintRow, leaf_rows, of_kinds
from topdown.model.geography import Geography
from topdown.model.narrow import NarrowColumns
from topdown.model.schema import Schema


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Named integer columns, one value a leaf, in the geography's leaf order.

    Args:
        columns: column name to int64 array of shape (n_leaves,), nonnegative.
    """

    columns: Mapping[str, NDArray[np.int64]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", NarrowColumns.of(self.columns))

    def at(self, places: slice | NDArray[np.int64]) -> PublicFacts:
        """Return the facts of some leaves."""
        return PublicFacts(NarrowColumns.of(self.columns).at(places))


@dataclass(frozen=True, eq=False)
class Rules:
    """Where each cell may hold records, and how many at least, at every node of every level.

    Cells that the same constraints forbid form a *class*. A class is open at a leaf if no constraint forbids
    it there, and at an inner node if it is open at one of its leaves (Census TopDown, Theorem 8). A lower
    bound of an inner node is the sum of its leaves' bounds (Theorem 3, part 2).

    Args:
        class_of_cell: class of every cell, shape (n_cells,).
        open: per level, bool array of shape (n_nodes, n_classes).
        bound_cells: per lower bound, bool array of shape (n_cells,).
        lower: per level, int64 array of shape (n_nodes, n_bounds).
        cap_cells: per upper bound, bool array of shape (n_cells,).
        caps: int64 array of shape (n_leaves, n_caps), upper bounds of the leaves.
        bound_names, cap_names: of the constraints.
    """

    class_of_cell: NDArray[np.int64]
    open: tuple[NDArray[np.bool_], ...]
    bound_cells: tuple[NDArray[np.bool_], ...]
    lower: tuple[NDArray[np.int64], ...]
    cap_cells: tuple[NDArray[np.bool_], ...]
    caps: NDArray[np.int64]
    bound_names: tuple[str, ...] = ()
    cap_names: tuple[str, ...] = ()

    @cached_property
    def nested(self) -> tuple[int, ...]:
        """Lower bounds that share cells with another one."""
        held = np.zeros(len(self.class_of_cell), dtype=np.int64)
        for cells in self.bound_cells:
            held += cells
        shared = held > 1
        return tuple(b for b, cells in enumerate(self.bound_cells) if cells[shared].any())

    @cached_property
    def inhabited(self) -> tuple[NDArray[np.bool_], ...]:
        """Per level, whether a node may hold any record at all."""
        return tuple(np.asarray(level.any(axis=1), dtype=bool) for level in self.open)


def derive_rules(schema: Schema, geography: Geography, invariants: Invariants, facts: PublicFacts) -> Rules:
    """Turn leaf constraints into open classes and lower bounds for every node."""
    return rules_of(schema, geography, leaf_rows(schema, invariants, facts.columns, geography))


def rules_of(schema: Schema, geography: Geography, rows: Iterable[ConstraintRow]) -> Rules:
    """Return the same from rows that close cells or bound them; without one, the rules without that constraint."""
    rows = tuple(rows)
    never = np.zeros(schema.n_cells, dtype=bool)
    for row in of_kinds(rows, "never"):
        never |= row.cells
    zeros, least, most = (of_kinds(rows, kind) for kind in ("none_where_zero", "at_least", "at_most"))
    cells = tell_apart([never, *(row.cells for row in zeros)], schema.n_cells)
    n_leaves = len(geography.leaves)
    leaf_open = np.repeat(~cells.marked([never]), n_leaves, axis=0)
    for row, marked in zip(zeros, cells.marked([row.cells for row in zeros]), strict=True):
        leaf_open[:, marked] &= (row.high > 0)[:, None]

    def by_leaf(numbers: Iterable[NDArray[np.int64]], k: int) -> NDArray[np.int64]:
        out = np.empty((n_leaves, k), dtype=np.int64)
        for column, values in enumerate(numbers):
            out[:, column] = values
        return out

    return Rules(
        cells.of_cell,
        geography.at_every_level(leaf_open, np.logical_or),
        tuple(row.cells for row in least),
        geography.at_every_level(by_leaf((row.low for row in least), len(least))),
        tuple(row.cells for row in most),
        by_leaf((row.high for row in most), len(most)),
        tuple(row.name for row in least),
        tuple(row.name for row in most),
    )


def only_leaves(rules: Rules, geography: Geography, leaves: NDArray[np.int64]) -> Rules:
    """Return the rules of a smaller tree.

    Args:
        rules: of a whole tree.
        geography: the tree of some of its leaves.
        leaves: int64, increasing, their places in the whole tree.
    """
    return replace(
        rules,
        open=geography.at_every_level(rules.open[-1][leaves], np.logical_or),
        lower=geography.at_every_level(rules.lower[-1][leaves]),
        caps=rules.caps[leaves],
    )


def with_answers(rules: Rules, geography: Geography, rows: Iterable[ConstraintRow]) -> Rules:
    """Return rules to which exact answers of leaves are added: each is a lower and an upper bound.

    Args:
        rows: exact statistics; those above the leaves, and the totals of leaves, are left out.
    """
    rows = [row for row in rows if row.depth == len(geography.levels) - 1 and not row.cells.all()]
    if not rows:
        return rules
    names, cells = tuple(row.name for row in rows), tuple(row.cells for row in rows)
    numbers = np.array([row.low for row in rows]).T
    return replace(
        rules,
        bound_names=(*rules.bound_names, *names),
        bound_cells=(*rules.bound_cells, *cells),
        lower=geography.at_every_level(np.hstack([rules.lower[-1], numbers])),
        cap_names=(*rules.cap_names, *names),
        cap_cells=(*rules.cap_cells, *cells),
        caps=np.hstack([rules.caps, numbers]),
    )


def cell_classes(rules: Rules, answers: NDArray[np.int64] | None = None) -> CellClasses:
    """Find the cells that no rule, and no exact table, tells apart, in order of class, bounds, caps and answer.

    Args:
        rules: of a release.
        answers: int64 (n_cells,), answer of each cell in an exact table; None without one.
    """
    n_cells = len(rules.class_of_cell)
    sets = [*digits(rules.class_of_cell), *rules.bound_cells, *rules.cap_cells]
    return tell_apart(sets if answers is None else [*sets, *digits(answers)], n_cells)
