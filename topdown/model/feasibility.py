"""Constraints of a release as zeros, nested bounds and totals: is there a population? Decided in whole numbers.

At a leaf, open cells and bounds on nested sets leave an interval of possible totals; intervals add up from the leaves,
and an exact total cuts one. This is the maximum flow of the tree (leaves to root, with lower bounds and capacities),
solved in closed form, so a whole state takes milliseconds. An answer of an exact table above the leaves is such a total
for its cells alone, under the bounds inside them: necessary, not complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from topdown.model.constraint_table import BATCH_LEAVES, NO_LIMIT, ConstraintRow, Ints, Kind, Marks
from topdown.model.geography import Geography
from topdown.model.nested import Nest, nest


@dataclass(frozen=True, eq=False)
class Bound:
    """What a row asks of the leaves, with its cells as atoms: bool (n_atoms,)."""

    rule: int
    atoms: Marks
    row: ConstraintRow


@dataclass(frozen=True, eq=False)
class Total:
    """Exact numbers of records in some cells at the nodes of one level: bool (n_atoms,) and int64 (n_nodes,)."""

    rule: int
    depth: int
    atoms: Marks
    values: Ints


@dataclass(frozen=True, eq=False)
class Promises:
    """The constraints below some node.

    Args:
        geography: the whole tree.
        rules: kind and name of every constraint; a set of constraints is a set of positions here.
        closes: bool (n_rules, n_atoms), cells a constraint closes where it applies; atoms are cells that no
            constraint tells apart.
        shut: bool (n_patterns, n_rules), where it applies; pattern: int64 (n_leaves,).
        bounds: small sets of atoms first, nested or disjoint.
        totals: exact totals, and exact answers above the leaves.
        leaves, top: the leaves concerned, all those of some nodes of level `top`.
    """

    geography: Geography
    rules: tuple[tuple[Kind, str], ...]
    closes: Marks
    shut: Marks
    pattern: Ints
    bounds: tuple[Bound, ...]
    totals: tuple[Total, ...]
    leaves: Ints
    top: int = 0

    @property
    def all(self) -> frozenset[int]:
        """Every constraint."""
        return frozenset(range(len(self.rules)))

    @cached_property
    def relevant(self) -> frozenset[int]:
        """Constraints that ask anything of these leaves or of the nodes above them."""
        closing = self.closes.any(axis=1) & self.shut[np.unique(self.pattern)].any(axis=0)
        asked = {b.rule for b in self.bounds if b.row.asks.any()}
        asked |= {t.rule for t in self.totals if t.depth >= self.top}
        return frozenset(asked | set(np.flatnonzero(closing).tolist()))

    def below(self, depth: int, node: int) -> Promises:
        """Return what concerns one node and everything below it."""
        inside = np.flatnonzero(self.geography.ancestors_of_leaves[depth][self.leaves] == node)
        bounds = tuple(replace(b, row=b.row.at(inside)) for b in self.bounds)
        return replace(
            self, pattern=self.pattern[inside], bounds=bounds, leaves=self.leaves[inside], top=depth
        )

    def without_population(self, kept: frozenset[int]) -> tuple[int, int] | None:
        """Return (depth, index) of the first node of the lowest level that no population fits, or None.

        Args:
            kept: constraints to look at.
        """
        everything = np.ones(self.closes.shape[1], dtype=bool)
        parts = {everything.tobytes(): everything}
        parts |= {total.atoms.tobytes(): total.atoms for total in self.totals if total.rule in kept}
        found = [self._part_without_population(kept, atoms) for atoms in parts.values()]
        return min((at for at in found if at is not None), key=lambda at: (-at[0], at[1]), default=None)

    def _part_without_population(self, kept: frozenset[int], atoms: Marks) -> tuple[int, int] | None:
        """Return the same for records in some cells alone, under the bounds inside them."""
        fewest, most, boundless, bad = self._leaf_totals(kept, atoms)
        node: Ints = self.leaves
        levels = self.geography.levels
        totals = [t for t in self.totals if t.rule in kept and np.array_equal(t.atoms, atoms)]
        for depth in reversed(range(self.top, len(levels))):
            for total in totals:
                if total.depth == depth:
                    here = total.values[node]
                    bad |= (here < fewest) | (~boundless & (here > most))
                    fewest, most, boundless = here, here, np.zeros(len(node), dtype=bool)
            if bad.any():
                return depth, int(node[bad.argmax()])
            above, up = np.unique(levels[depth].parent[node], return_inverse=True)
            up = up.reshape(-1)
            node, n = above.astype(np.int64), len(above)
            fewest, most = _sums(fewest, up, n), _sums(np.where(boundless, 0, most), up, n)
            boundless = _sums(boundless.astype(np.int64), up, n) > 0
            bad = np.zeros(n, dtype=bool)
        return None

    def _leaf_totals(self, kept: frozenset[int], atoms: Marks) -> tuple[Ints, Ints, Marks, Marks]:
        """Return fewest and most records of every leaf, where there is no upper end, and leaves without a table."""
        chosen = np.array(sorted(kept), dtype=np.int64)
        closed = self.shut[:, chosen].astype(np.float32) @ self.closes[chosen].astype(np.float32)
        is_open = (closed == 0) & atoms
        bounds = [b for b in self.bounds if b.rule in kept and not (b.atoms & ~atoms).any()]
        order = nest(np.array([b.atoms for b in bounds], dtype=bool).reshape(-1, len(atoms)))
        fewest, most = np.zeros(len(self.leaves), np.int64), np.zeros(len(self.leaves), np.int64)
        bad = np.zeros(len(self.leaves), dtype=bool)
        for first in range(0, len(self.leaves), BATCH_LEAVES):
            here = slice(first, first + BATCH_LEAVES)
            numbers = [(b.row.low[here].copy(), b.row.high[here].copy()) for b in bounds]
            fewest[here], most[here], bad[here] = _ranges(is_open, self.pattern[here], order, numbers)
        return fewest, most, most >= NO_LIMIT, bad


def _ranges(
    is_open: Marks, pattern: Ints, order: Nest, numbers: Sequence[tuple[Ints, Ints]]
) -> tuple[Ints, Ints, Marks]:
    """Return fewest and most records of some leaves, NO_LIMIT without an upper end, and leaves without a table.

    Args:
        is_open: bool (n_patterns, n_atoms). pattern: int64 (n,), of each leaf.
        order: of the bounded sets. numbers: fewest and most records in each at each leaf.
    """
    n = len(pattern)
    least, room = np.zeros((len(numbers) + 1, n), np.int64), np.zeros((len(numbers) + 1, n), np.int64)
    bad = np.zeros(n, dtype=bool)
    for s in range(len(numbers) + 1):  # the last set is everybody
        inside = s if s < len(numbers) else -1
        direct = np.asarray(is_open[:, order.innermost == inside].any(axis=1))[pattern]
        room[s] = np.minimum(room[s] + np.where(direct, NO_LIMIT, 0), NO_LIMIT)
        if inside < 0:
            break
        low, high = numbers[s]
        least[s], room[s] = np.maximum(least[s], low), np.minimum(room[s], high)
        bad |= least[s] > room[s]
        least[order.outer[s]] += least[s]
        room[order.outer[s]] += room[s]
    return least[-1], room[-1], np.asarray(bad)


def _sums(values: Ints, group: Ints, n_groups: int) -> Ints:
    out = np.zeros(n_groups, dtype=np.int64)
    np.add.at(out, group, values)
    return out
