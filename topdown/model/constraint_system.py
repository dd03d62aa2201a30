"""The constraints of a release: open cells and bounds at every node, cells that no rule tells apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.model.cell_sets import CellClasses, LaminarFamily, binary_digits, group_cells, laminar_family
from topdown.model.constraint_rows import NO_LIMIT, ConstraintRow, Invariants, leaf_rows, rows_of_kinds
from topdown.model.geography import Geography
from topdown.model.histogram import NarrowColumns
from topdown.model.schema import Schema


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Named integer columns, one value a leaf, in the geography's leaf order.

    Args:
        columns: column name to int64 array of shape (n_leaves,), nonnegative.
    """

    columns: Mapping[str, NDArray[np.int64]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", NarrowColumns.pack(self.columns))

    def at(self, places: slice | NDArray[np.int64]) -> PublicFacts:
        """Return the facts of some leaves."""
        return PublicFacts(NarrowColumns.pack(self.columns).at(places))


@dataclass(frozen=True, eq=False)
class ConstraintSystem:
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


def constraints_of_facts(
    schema: Schema, geography: Geography, invariants: Invariants, facts: PublicFacts
) -> ConstraintSystem:
    """Turn leaf constraints into open classes and lower bounds for every node."""
    return constraints_of_rows(schema, geography, leaf_rows(schema, invariants, facts.columns, geography))


def constraints_of_rows(
    schema: Schema, geography: Geography, rows: Iterable[ConstraintRow]
) -> ConstraintSystem:
    """Return the same from rows that close cells or bound them; without one, the rules without that constraint."""
    rows = tuple(rows)
    never = np.zeros(schema.n_cells, dtype=bool)
    for row in rows_of_kinds(rows, "never"):
        never |= row.cells
    zeros, least, most = (rows_of_kinds(rows, kind) for kind in ("none_where_zero", "at_least", "at_most"))
    cells = group_cells([never, *(row.cells for row in zeros)], schema.n_cells)
    n_leaves = len(geography.leaves)
    leaf_open = np.repeat(~cells.marked([never]), n_leaves, axis=0)
    for row, marked in zip(zeros, cells.marked([row.cells for row in zeros]), strict=True):
        leaf_open[:, marked] &= (row.high > 0)[:, None]

    def by_leaf(numbers: Iterable[NDArray[np.int64]], k: int) -> NDArray[np.int64]:
        out = np.empty((n_leaves, k), dtype=np.int64)
        for column, values in enumerate(numbers):
            out[:, column] = values
        return out

    return ConstraintSystem(
        cells.of_cell,
        geography.at_every_level(leaf_open, np.logical_or),
        tuple(row.cells for row in least),
        geography.at_every_level(by_leaf((row.low for row in least), len(least))),
        tuple(row.cells for row in most),
        by_leaf((row.high for row in most), len(most)),
        tuple(row.name for row in least),
        tuple(row.name for row in most),
    )


def constraints_of_leaves(
    rules: ConstraintSystem, geography: Geography, leaves: NDArray[np.int64]
) -> ConstraintSystem:
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


def with_exact_answers(
    rules: ConstraintSystem, geography: Geography, rows: Iterable[ConstraintRow]
) -> ConstraintSystem:
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


def constraint_classes(rules: ConstraintSystem, answers: NDArray[np.int64] | None = None) -> CellClasses:
    """Find the cells that no rule, and no exact table, tells apart, in order of class, bounds, caps and answer.

    Args:
        rules: of a release.
        answers: int64 (n_cells,), answer of each cell in an exact table; None without one.
    """
    n_cells = len(rules.class_of_cell)
    sets = [*binary_digits(rules.class_of_cell), *rules.bound_cells, *rules.cap_cells]
    return group_cells(sets if answers is None else [*sets, *binary_digits(answers)], n_cells)


MAX_KINDS = 14  # a table over all subsets of the kinds is kept at some nodes


@dataclass(frozen=True, eq=False)
class CellPartition:
    """Kinds of cells, and bounded sets of kinds.

    Two cells are of one kind if the same constraints close, bound and limit them. Sets are nested or disjoint,
    small ones first.

    Args:
        of_cell: int64 (n_cells,), kind of each cell, -1 for cells that are closed everywhere.
        class_of: int64 (n_kinds,), class of each kind (see `Rules`).
        members: bool (n_sets, n_kinds).
        low, high: int64 (n_leaves, n_sets), bounds of each set at every leaf; NO_LIMIT for none.
        answer_of: int64 (n_kinds,), answer of each kind in the exact table above the leaves; 0 if there is none.
        set_of: int64 (n_bounds + n_caps,), set of each lower bound and each upper bound of the rules.
    """

    of_cell: Ints
    class_of: Ints
    members: Bools
    low: Ints
    high: Ints
    answer_of: Ints
    set_of: Ints

    def at(self, lower: Ints, caps: Ints) -> CellPartition:
        """Return the same kinds with the bounds of some leaves, int64 (n_leaves, n_bounds) and (n_leaves, n_caps)."""
        shape = len(caps), len(self.members)
        low, high = np.zeros(shape, dtype=np.int64), np.broadcast_to(np.int64(NO_LIMIT), shape)
        if caps.shape[1]:
            high = high.copy()
        for g, s in enumerate(self.set_of[: lower.shape[1]].tolist()):
            low[:, s] = np.maximum(low[:, s], lower[:, g])
        for g, s in enumerate(self.set_of[lower.shape[1] :].tolist()):
            high[:, s] = np.minimum(high[:, s], caps[:, g])
        return replace(self, low=low, high=high)

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""
        return len(self.class_of)

    @cached_property
    def nest(self) -> LaminarFamily:
        """Which set lies in which."""
        return laminar_family(self.members)

    @property
    def answers(self) -> Ints:
        """Answer of each possible cell in the exact table above the leaves, as `find_kinds` takes it."""
        return np.where(self.of_cell >= 0, self.answer_of[self.of_cell], 0)

    @property
    def spread(self) -> Bools:
        """Sets whose kinds lie in several answers of the exact table, bool (n_sets,)."""
        return np.array([len(np.unique(self.answer_of[row])) > 1 for row in self.members], dtype=bool)

    def ranges(self, is_open: Bools, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return the fewest and most records each set can hold.

        Args:
            is_open: bool (n, n_kinds). low, high: int64 (n, n_sets).
        """
        least, most = np.zeros_like(low), np.zeros_like(high)
        for s in self.nest.inside_out:
            inner, direct = self.nest.outer == s, is_open[:, self.nest.innermost == s].any(axis=1)
            room = np.minimum(most[:, inner].sum(axis=1) + np.where(direct, NO_LIMIT, 0), NO_LIMIT)
            least[:, s] = np.maximum(low[:, s], least[:, inner].sum(axis=1))
            most[:, s] = np.minimum(high[:, s], room)
        return least, most


def partition_cells(rules: ConstraintSystem, answers: Ints | None = None) -> CellPartition:
    """Group the cells of a release by the constraints they are under, with the bounds of every leaf.

    As `kinds_of_cells`, which see.
    """
    return partition_without_bounds(rules, answers).at(rules.lower[-1], rules.caps)


def partition_without_bounds(rules: ConstraintSystem, answers: Ints | None = None) -> CellPartition:
    """Group the cells of a release by the constraints they are under, with bounds of no leaf.

    Args:
        rules: of the release.
        answers: int64 (n_cells,), answer of each cell in the exact table above the leaves; None if there is none.

    Raises:
        ConfigError: two bounds share some cells, and neither's hold the other's.
    """
    cells = constraint_classes(rules, answers)
    class_of = rules.class_of_cell[cells.first]
    reachable = rules.open[0][0][class_of]
    kind = np.where(reachable, np.cumsum(reachable) - 1, -1)
    groups = cells.marked([*rules.bound_cells, *rules.cap_cells])[:, reachable]
    laminar_family(groups, (*rules.bound_names, *rules.cap_names))  # refuses those that cross
    answer = np.zeros(len(reachable), dtype=np.int64) if answers is None else answers[cells.first]
    members, set_of = np.unique(groups, axis=0, return_inverse=True)
    order = np.argsort(members.sum(axis=1), kind="stable")
    members, set_of = members[order], np.argsort(order)[set_of.reshape(-1)]
    none = np.zeros((0, len(members)), dtype=np.int64)
    return CellPartition(
        kind[cells.of_cell], class_of[reachable], members, none, none, answer[reachable], set_of
    )
