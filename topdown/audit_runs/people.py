"""Made-up people of one leaf, such that every public rule holds with and without a change of one record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from topdown.model.public import Rules, cell_classes

Marks = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LeafPeople:
    """Find people of a leaf.

    Args:
        rules: of the release.
    """

    rules: Rules

    @cached_property
    def _sets(self) -> Marks:
        """Return the cells of every bound, then of every cap: (n_sets, n_cells)."""
        sets = [*self.rules.bound_cells, *self.rules.cap_cells]
        return np.array(sets, dtype=bool).reshape(len(sets), len(self.rules.class_of_cell))

    @cached_property
    def _one_of_each(self) -> Ints:
        """Return the first of all cells that no rule tells apart, increasing."""
        return np.sort(cell_classes(self.rules).first)

    def allows(self, leaf: int, cell: int) -> bool:
        """Tell whether no rule closes a cell at a leaf."""
        return bool(self.rules.open[-1][leaf, self.rules.class_of_cell[cell]])

    def around(self, leaf: int, gone: int | None, come: int | None) -> dict[int, int] | None:
        """Return as few people as a leaf can hold so that all rules are met before and after a change.

        Args:
            leaf: index.
            gone: cell of the record that leaves; one is among the people. None: nobody leaves.
            come: cell of the record that comes. None: nobody comes.

        Returns:
            records by cell before the change, or None if no people meet the rules both times.
        """
        if not all(self.allows(leaf, cell) for cell in (gone, come) if cell is not None):
            return None
        sets, n_caps = self._sets, len(self.rules.cap_cells)
        if not len(sets):
            return {} if gone is None else {gone: 1}
        low = np.concatenate([self.rules.lower[-1][leaf], np.zeros(n_caps, dtype=np.int64)])
        high = np.concatenate([np.full(len(sets) - n_caps, np.inf), self.rules.caps[leaf]])
        change = np.zeros(len(sets), dtype=np.int64)
        if gone is not None:
            change -= sets[:, gone]
        if come is not None:
            change += sets[:, come]
        low, high = np.maximum(low, low - change), np.minimum(high, high - change)
        alone = np.zeros(len(sets)) if gone is None else sets[:, gone].astype(float)
        if (low <= alone).all() and (alone <= high).all():
            return {} if gone is None else {gone: 1}
        return self._fewest(leaf, gone, low, high)

    def _fewest(
        self, leaf: int, gone: int | None, low: Ints, high: NDArray[np.float64]
    ) -> dict[int, int] | None:
        """Solve for the fewest people; cells in the same sets are one unknown."""
        sets, usable = self._sets, self._one_of_each
        usable = usable[self.rules.open[-1][leaf, self.rules.class_of_cell[usable]]]
        kinds, first = np.unique(sets[:, usable], axis=1, return_index=True)
        cells = usable[first]
        least = np.zeros(len(cells))
        if gone is not None:
            here = (kinds == sets[:, [gone]]).all(axis=0)
            cells = np.where(here, gone, cells)
            least[here] = 1
        found = milp(
            np.ones(len(cells)),
            constraints=LinearConstraint(kinds.astype(float), low, high),
            bounds=Bounds(least, np.inf),
            integrality=np.ones(len(cells)),
        )
        if found.x is None:
            return None
        held = np.rint(found.x).astype(np.int64)
        return {int(c): int(n) for c, n in zip(cells, held, strict=True) if n}
