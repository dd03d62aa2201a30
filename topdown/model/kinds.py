"""Cells that no constraint tells apart, and the sets of them that leaf constraints bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from topdown.model.constraint_table import NO_LIMIT, Ints, Marks
from topdown.model.nested import Nest, nest
from topdown.model.public import Rules, cell_classes

MAX_KINDS = 14  # a table over all subsets of the kinds is kept at some nodes


@dataclass(frozen=True, eq=False)
class Kinds:
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
    members: Marks
    low: Ints
    high: Ints
    answer_of: Ints
    set_of: Ints

    def at(self, lower: Ints, caps: Ints) -> Kinds:
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
    def nest(self) -> Nest:
        """Which set lies in which."""
        return nest(self.members)

    @property
    def answers(self) -> Ints:
        """Answer of each possible cell in the exact table above the leaves, as `find_kinds` takes it."""
        return np.where(self.of_cell >= 0, self.answer_of[self.of_cell], 0)

    @property
    def spread(self) -> Marks:
        """Sets whose kinds lie in several answers of the exact table, bool (n_sets,)."""
        return np.array([len(np.unique(self.answer_of[row])) > 1 for row in self.members], dtype=bool)

    def ranges(self, is_open: Marks, low: Ints, high: Ints) -> tuple[Ints, Ints]:
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


def find_kinds(rules: Rules, answers: Ints | None = None) -> Kinds:
    """Group the cells of a release by the constraints they are under, with the bounds of every leaf.

    As `kinds_of_cells`, which see.
    """
    return kinds_of_cells(rules, answers).at(rules.lower[-1], rules.caps)


def kinds_of_cells(rules: Rules, answers: Ints | None = None) -> Kinds:
    """Group the cells of a release by the constraints they are under, with bounds of no leaf.

    Args:
        rules: of the release.
        answers: int64 (n_cells,), answer of each cell in the exact table above the leaves; None if there is none.

    Raises:
        ConfigError: two bounds share some cells, and neither's hold the other's.
    """
    cells = cell_classes(rules, answers)
    class_of = rules.class_of_cell[cells.first]
    reachable = rules.open[0][0][class_of]
    kind = np.where(reachable, np.cumsum(reachable) - 1, -1)
    groups = cells.marked([*rules.bound_cells, *rules.cap_cells])[:, reachable]
    nest(groups, (*rules.bound_names, *rules.cap_names))  # refuses those that cross
    answer = np.zeros(len(reachable), dtype=np.int64) if answers is None else answers[cells.first]
    members, set_of = np.unique(groups, axis=0, return_inverse=True)
    order = np.argsort(members.sum(axis=1), kind="stable")
    members, set_of = members[order], np.argsort(order)[set_of.reshape(-1)]
    none = np.zeros((0, len(members)), dtype=np.int64)
    return Kinds(kind[cells.of_cell], class_of[reachable], members, none, none, answer[reachable], set_of)
