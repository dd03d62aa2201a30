"""Which tables of kinds can be split down to the leaves: the exact set, as subset limits and as a flow network.

At one leaf, the people of each kind that satisfy open cells, bounds on nested sets and a fixed total form the
base polytope of a submodular set function; sums over leaves add the functions up (Census TopDown, Theorem 3 and
section 7.3; Frank 1984 for the intersection of a generalised polymatroid with a plank). Both are integral, so a
whole table inside a node's limits splits into whole tables at its children, and so on down to the leaves.

An exact table of an inner level adds one plank for each of its answers. The bounds of the leaves lie in one answer
each, or the table decides them (`model/exact_tables.py`), so a node of that level is a direct sum of generalised
polymatroids, one an answer, and each plank cuts its own summand: again a base polytope, and sums over nodes add up
as before. Were a bound to
reach over two answers, or a total further down be exact, the planks would cut across summands, where the
intersection is no generalised polymatroid: with leaves {a, c} and {b, d} of one person at most and answers a + b
= c + d = 1, only (1, 0, 0, 1) and (0, 1, 1, 0) are left, and no limits on sets say a = d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.model.cell_classes import distinct_rows, equal_numbers
from topdown.model.constraint_table import NO_LIMIT
from topdown.model.geography import Geography
from topdown.model.kinds import MAX_KINDS, Kinds
from topdown.model.public import Rules
from topdown.solve.groups import Ints
from topdown.solve.region_network import Arcs, Pieces, network

RANGE_LEAVES = 1 << 18  # whose ranges are found, or added up, at once
Marks = NDArray[np.bool_]


class Limits(StrEnum):
    """Whether the nodes of a level keep limits on sets of kinds, and what follows, in words."""

    NOT_NEEDED = "lower bounds and open cells say which tables can be split"
    KEPT = (
        "every area keeps the most people that each set of its {k} kinds of cells can hold (2^{k} numbers), "
        "added up from its leaves"
    )
    TOO_MANY = (
        "the {k} kinds of cells are more than the {most} whose limits are kept, so a table that cannot be split goes "
        "to the failsafe, which changes it least and reports it"
    )


class Reason(Enum):
    """What makes lower bounds and open cells leave tables in that cannot be split."""

    TOTALS_BELOW = auto()
    INNER_TABLE = auto()
    UPPER_BOUNDS = auto()  # exact tables of leaves are upper bounds too
    NESTED_BOUNDS = auto()
    SPREAD_BOUNDS = auto()


@dataclass(frozen=True)
class AllLeaves:
    """What is asked of all leaves of a release. A part of the tree is given the answers and cannot ask for itself.

    Args:
        needed: per level, why nodes need limits; nothing where lower bounds and open cells say all.
        merges: whether no set of kinds has an upper bound anywhere; then limits of alike leaves add up.
    """

    needed: tuple[tuple[Reason, ...], ...]
    merges: bool


@dataclass(frozen=True, eq=False)
class Polytopes:
    """The limits of every node of a tree, or of a part of it; made by `polytopes_of`.

    Args:
        kinds, rules, geography: of the tree.
        totals: exact node totals by depth.
        answers: int64 (n_nodes, n_answers), the exact table of the deepest level with totals, whose one answer may
            be the total; (n_leaves, 0) where nothing is exact.
        all_leaves: of the whole release.
    """

    kinds: Kinds
    rules: Rules
    geography: Geography
    totals: dict[int, Ints]
    answers: Ints
    all_leaves: AllLeaves

    @cached_property
    def unit_depth(self) -> int:
        """Deepest level with exact totals, -1 if there is none."""
        return max(self.totals, default=-1)

    @property
    def by_answer(self) -> bool:
        """Whether the deepest exact level has more than totals."""
        return bool(self.answers.shape[1] > 1)

    def totals_at(self, depth: int) -> Ints:
        """Return the exact totals of a level, (n_nodes, 1), or (n_nodes, 0) where they are not exact."""
        none = np.zeros((len(self.geography.levels[depth]), 0), dtype=np.int64)
        return self.totals[depth][:, None] if depth in self.totals else none

    def with_totals(self, totals: dict[int, Ints]) -> Polytopes:
        """Return the same with other exact totals, and nothing else exact."""
        return replace(self, totals=totals, answers=exact_answers(self.geography, totals, None))

    def decided(self, depth: int) -> Limits:
        """Decide whether nodes of a level have limits; where they are needed but too many, splits may fail.

        Lower bounds on disjoint cells and open cells say everything at leaves without upper bounds, and above if
        no total below is exact and each bound's open cells are open and closed together.
        """
        if not self.all_leaves.needed[depth]:
            return Limits.NOT_NEEDED
        return Limits.KEPT if self.kinds.n_kinds <= MAX_KINDS - (depth > self.unit_depth) else Limits.TOO_MANY

    def limited(self, depth: int) -> bool:
        """Tell whether nodes of a level have limits."""
        return self.decided(depth) is Limits.KEPT

    @cached_property
    def _is_open(self) -> tuple[Marks, Ints]:
        # Open kinds of each leaf, and a number for each pattern of them.
        is_open = self.rules.open[-1][:, self.kinds.class_of]
        return is_open, distinct_rows(is_open)[1]

    @cached_property
    def _least(self) -> Ints:
        # Fewest people of each set at each leaf.
        kinds, is_open, out = self.kinds, self._is_open[0], np.empty_like(self.kinds.low)
        for here in _batches(len(out)):
            out[here] = kinds.ranges(is_open[here], kinds.low[here], kinds.high[here])[0]
        return out

    def leaf_range(self, depth: int, node: int) -> slice:
        """Return the leaves below a node; they follow each other."""
        first, last = node, node + 1
        for pointers in self.geography.child_pointers[depth:]:
            first, last = int(pointers[first]), int(pointers[last])
        return slice(first, last)

    def pieces(self, depth: int, node: int) -> Pieces:
        """Return the leaves of a node, merged where limits simply add up."""
        is_open, least, merge = self._is_open[0], self._least, self.all_leaves.merges
        inside, exact, at_leaves = self.leaf_range(depth, node), *self._exact_below(depth)
        first, group, unit = self._merged(depth, inside)
        low = _add(least[inside], group, len(first))
        high = self.kinds.high[inside][first] if not merge else np.full_like(low, NO_LIMIT)
        if not exact:
            none = np.zeros((1, 0), dtype=np.int64)
            return Pieces(is_open[inside][first], low, high, np.zeros(len(first), dtype=np.int64), none)
        if at_leaves:
            totals = _add(self.answers[inside], group, len(first))
            return Pieces(is_open[inside][first], low, high, np.arange(len(first)), totals)
        units, unit = np.unique(unit[first], return_inverse=True)
        return Pieces(is_open[inside][first], low, high, unit.reshape(-1), self.answers[units])

    def n_pieces(self, depth: int, node: int) -> int:
        """Count the pieces of a node."""
        inside = self.leaf_range(depth, node)
        return len(self._merged(depth, inside)[0]) if self.all_leaves.merges else inside.stop - inside.start

    def _exact_below(self, depth: int) -> tuple[bool, bool]:
        """Tell whether totals are exact at a level or below, and whether at the leaves."""
        exact = depth <= self.unit_depth
        return exact, exact and self.unit_depth == len(self.geography.levels) - 1

    def _merged(self, depth: int, inside: slice) -> tuple[Ints, Ints, Ints]:
        """Return the first leaf of each piece, each leaf's piece, and its area with an exact total."""
        n, merge = inside.stop - inside.start, self.all_leaves.merges
        exact, at_leaves = self._exact_below(depth)
        unit = np.zeros(n, dtype=np.int64)
        if exact:
            unit = self.geography.ancestors_of_leaves[self.unit_depth][inside]
        pattern = self._is_open[1][inside]
        kept = unit * (not (at_leaves and merge))
        key = kept * (int(pattern.max(initial=0)) + 1) + pattern
        if merge:
            return *equal_numbers(key), unit
        first = np.argsort(key, kind="stable")  # each leaf is a piece
        return first, np.argsort(first), unit

    def limits(self, depth: int, nodes: Ints) -> Ints:
        """Return the most people each set of kinds can hold at each node, int64 (n, 2^k).

        Bit i of a column's number stands for kind i. Where no total is exact there is one more kind, last, whose
        count is minus the total of the others, so that every row of limits is a base polytope.

        Cost: number of distinct leaves times 2^k times bounded sets.
        """
        return np.stack([self._limits(self.pieces(depth, int(node))) for node in nodes])

    def _limits(self, pieces: Pieces) -> Ints:
        most, least = self._pieces_limits(pieces)
        n_units = len(pieces.totals)
        most, least = _add(most, pieces.unit, n_units), _add(least, pieces.unit, n_units)
        everybody = most.shape[1] - 1
        others = everybody - np.arange(everybody + 1)
        if not pieces.totals.size:
            return np.concatenate([most[0], -least[0][others]])
        held, subsets = np.zeros_like(most), np.arange(everybody + 1)
        for answer, totals in enumerate(pieces.totals.T):
            mask = int((1 << np.flatnonzero(self.kinds.answer_of == answer)).sum())
            held += np.minimum(most[:, subsets & mask], totals[:, None] - least[:, others & mask])
        return np.asarray(held.sum(axis=0), dtype=np.int64)

    def _pieces_limits(self, pieces: Pieces) -> tuple[Ints, Ints]:
        """Most and least people in each set of kinds at each piece, without totals."""
        subsets = np.arange(1 << self.kinds.n_kinds)
        holds = (subsets[:, None] >> np.arange(self.kinds.n_kinds)) & 1
        most: Ints = np.where(pieces.is_open.astype(np.int64) @ holds.T > 0, NO_LIMIT, 0)
        least = np.zeros_like(most)
        for s, members in enumerate(self.kinds.members):
            mask = int((members.astype(np.int64) << np.arange(self.kinds.n_kinds)).sum())
            inside, rest, other = subsets & mask, subsets & ~mask, mask & ~subsets
            low, high = pieces.low[:, s, None], pieces.high[:, s, None]
            more = np.minimum(most[:, inside], high - least[:, other]) + most[:, rest]
            least = np.maximum(least[:, inside], low - most[:, other]) + least[:, rest]
            most = np.where(more >= NO_LIMIT // 2, np.int64(NO_LIMIT), more)
        return most, least

    def arcs(self, depth: int, node: int) -> Arcs:
        """Return the flow network of a node; its exact total, if any, is the supply of node 0."""
        return network(self.kinds, self.kinds.answer_of, self.pieces(depth, node))


def polytopes_of(
    kinds: Kinds,
    rules: Rules,
    geography: Geography,
    totals: dict[int, Ints],
    answers: Ints | None = None,
) -> Polytopes:
    """Return the limits of every node of a whole release; see `Polytopes`. No `answers`: those of the totals."""
    table = exact_answers(geography, totals, answers)
    capped = bool((kinds.high < NO_LIMIT).any())
    leaf, unit_depth = len(geography.levels) - 1, max(totals, default=-1)
    classes = [len(np.unique(kinds.class_of[row])) for row in kinds.members]
    mixed = (np.array(classes, dtype=np.int64) > 1) & (kinds.low > 0).any(axis=0)

    inner = table.shape[1] > 1

    def needed(depth: int) -> tuple[Reason, ...]:
        asked = {
            Reason.TOTALS_BELOW: depth < unit_depth and not inner,
            Reason.INNER_TABLE: depth <= unit_depth
            and inner,  # there: so that passes that cross the table keep it
            Reason.UPPER_BOUNDS: capped,
            Reason.NESTED_BOUNDS: bool(rules.nested),
            Reason.SPREAD_BOUNDS: depth < leaf and bool(mixed.any()),
        }
        return tuple(reason for reason, is_there in asked.items() if is_there)

    all_leaves = AllLeaves(tuple(needed(depth) for depth in range(leaf + 1)), not capped)
    return Polytopes(kinds, rules, geography, totals, table, all_leaves)


def exact_answers(geography: Geography, totals: dict[int, Ints], answers: Ints | None) -> Ints:
    """Return the exact table of the deepest level with totals: the answers given, or the totals as one answer."""
    if answers is not None:
        return answers
    none = np.zeros((len(geography.leaves), 0), dtype=np.int64)
    return totals[max(totals)][:, None] if totals else none


def _add(values: Ints, group: Ints, n_groups: int) -> Ints:
    # Sums of "no limit" stay "no limit".
    out = np.zeros((n_groups, values.shape[1]), dtype=np.int64)
    boundless = np.zeros(out.shape, dtype=bool)
    for here in _batches(len(values)):
        no_limit = values[here] >= NO_LIMIT
        np.add.at(out, group[here], np.where(no_limit, 0, values[here]))
        np.logical_or.at(boundless, group[here], no_limit)
    out[boundless] = NO_LIMIT
    return out


def _batches(n: int) -> Iterator[slice]:
    return (slice(first, first + RANGE_LEAVES) for first in range(0, n, RANGE_LEAVES))
