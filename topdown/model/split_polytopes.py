"""Which tables of kinds can be split down to the leaves: the exact set, as subset limits and as a flow network.

At one leaf, the people of each kind that satisfy open cells, bounds on nested sets and a fixed total form the
base polytope of a submodular set function; sums over leaves add the functions up (Census TopDown, Theorem 3 and
section 7.3; Frank 1984 for the intersection of a generalised polymatroid with a plank). Both are integral, so a
whole table inside a node's limits splits into whole tables at its children, and so on down to the leaves.

An exact table of an inner level adds one plank for each of its answers. The bounds of the leaves lie in one answer
each, or the table decides them (`exact_tables.py`), so a node of that level is a direct sum of generalised
polymatroids, one an answer, and each plank cuts its own summand: again a base polytope, and sums over nodes add up
as before. Were a bound to
reach over two answers, or a total further down be exact, the planks would cut across summands, where the
intersection is no generalised polymatroid: with leaves {a, c} and {b, d} of one person at most and answers a + b
= c + d = 1, only (1, 0, 0, 1) and (0, 1, 1, 0) are left, and no limits on sets say a = d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from functools import cached_property
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.model.cell_sets import NO_LIMIT, distinct_rows, equal_numbers
from topdown.model.constraint_system import MAX_KINDS, CellPartition, ConstraintSystem, unknown_exact_rows
from topdown.model.exact_tables import (
    ExactMargins,
    MergedTable,
    NodeAnswers,
    arrange_exact_tables,
    deepest_answers,
    exact_tables_of,
)
from topdown.model.geography import Geography
from topdown.model.histogram import Narrow, narrow
from topdown.model.invariants import Invariants
from topdown.model.schema import Schema

Row = TypeVar("Row", bound=np.generic)
Ranges = tuple[slice, ...]  # of nodes, one a level


@dataclass(frozen=True, eq=False)
class LeafPieces:
    """Leaves of one node, those that add up without loss merged.

    Args:
        is_open: bool (n, n_kinds). low, high: int64 (n, n_sets).
        unit: int64 (n,), 0..n_units-1: the area with an exact total that each piece lies in.
        totals: int64 (n_units, n_answers), of the exact table or total; (1, 0) if none below the node, or at it, is
            exact.
    """

    is_open: Bools
    low: Ints
    high: Ints
    unit: Ints
    totals: Ints


@dataclass(frozen=True, eq=False)
class FlowArcs:
    """A node's flow network: node 0 holds everybody, nodes 1..n_kinds the kinds, others are in between.

    Args:
        tails, heads, low, high: int64 (n_arcs,). n_nodes: number of nodes.
    """

    tails: Ints
    heads: Ints
    low: Ints
    high: Ints
    n_nodes: int


def leaf_network(kinds: CellPartition, answer_of: Ints, pieces: LeafPieces) -> FlowArcs:
    """Return the flow network of a node.

    Args:
        kinds: of the release. answer_of: int64 (n_kinds,), answer of each kind in the exact table.
        pieces: the node's leaves.
    """
    n_kinds, outer, innermost = kinds.n_kinds, kinds.family.outer, kinds.family.innermost
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    n_nodes = 1 + n_kinds
    n_pieces, n_answers = len(pieces.unit), max(pieces.totals.shape[1], 1)
    nodes = np.full((len(outer) + n_answers, n_pieces), -1, dtype=np.int64)
    nodes[len(outer) :] = 0  # rows after the sets: in no set, by answer
    if pieces.totals.size > 1:
        units = n_nodes + np.arange(pieces.totals.size)
        n_nodes += len(units)
        parts.append((np.zeros_like(units), units, pieces.totals.reshape(-1), pieces.totals.reshape(-1)))
        nodes[len(outer) :] = units.reshape(pieces.totals.shape)[pieces.unit].T
    free_row = len(outer) + (answer_of if n_answers > 1 else np.zeros(n_kinds, dtype=np.int64))
    if n_answers > 1:  # the exact table decides lower bounds on sums of its answers
        innermost = np.where(np.append(kinds.spans_answers, False)[innermost], -1, innermost)
    for s in reversed(range(len(outer))):
        if n_answers > 1 and kinds.spans_answers[s]:
            continue
        used = pieces.is_open[:, kinds.members[s]].any(axis=1)
        nodes[s][used] = n_nodes + np.arange(int(used.sum()))
        n_nodes += int(used.sum())
        inside = kinds.members[s].any()
        top = free_row[kinds.members[s].argmax()] if inside else len(outer)
        tail = nodes[outer[s] if outer[s] >= 0 else top]
        parts.append((tail[used], nodes[s][used], pieces.low[used, s], pieces.high[used, s]))
    for k in range(n_kinds):
        where = np.flatnonzero(pieces.is_open[:, k])
        tails = np.unique(nodes[innermost[k] if innermost[k] >= 0 else free_row[k]][where])
        free = np.full(len(tails), NO_LIMIT, dtype=np.int64)
        parts.append((tails, np.full(len(tails), 1 + k, dtype=np.int64), np.zeros_like(tails), free))
    columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    return FlowArcs(columns[0], columns[1], columns[2], columns[3], n_nodes)


RANGE_LEAVES = 1 << 18  # whose ranges are found, or added up, at once


class LimitUse(StrEnum):
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


class LimitReason(Enum):
    """What makes lower bounds and open cells leave tables in that cannot be split."""

    TOTALS_BELOW = auto()
    INNER_TABLE = auto()
    UPPER_BOUNDS = auto()  # exact tables of leaves are upper bounds too
    NESTED_BOUNDS = auto()
    SPREAD_BOUNDS = auto()


@final
@dataclass(frozen=True, eq=False)
class NodeNumbers:
    """Numbers of nodes that follow each other in every level: rows of the release's tables, nothing about others.

    Args:
        open: per level, bool (n_nodes, n_classes).
        lower: per level, int64 (n_nodes, n_bounds), exact answers of the leaves behind public bounds.
        caps: int64 (n_leaves, n_caps), as `lower`.
        totals: exact node totals by depth.
        answers: int64 (n_nodes, n_answers), the exact table of the deepest level with totals, whose one answer may
            be the total; (n_leaves, 0) where nothing is exact.
        exact: per level, answers of the exact table that tells more than totals, int64 (n_nodes, n_answers or 0).
    """

    open: tuple[Bools, ...]
    lower: tuple[Ints, ...]
    caps: Ints
    totals: dict[int, Ints]
    answers: Ints
    exact: tuple[Ints, ...]

    def part(self, ranges: Ranges) -> NodeNumbers:
        """Return those of some of the nodes."""
        leaves = ranges[-1]
        return NodeNumbers(
            open=tuple(level[here] for level, here in zip(self.open, ranges, strict=True)),
            lower=tuple(level[here] for level, here in zip(self.lower, ranges, strict=True)),
            caps=self.caps[leaves],
            totals={depth: totals[ranges[depth]] for depth, totals in self.totals.items()},
            answers=self.answers[ranges[max(self.totals, default=-1)]],
            exact=tuple(level[here] for level, here in zip(self.exact, ranges, strict=True)),
        )

    def narrowed(self) -> NodeNumbers:
        """Return the same in as few bytes as the numbers need, for those that are sent."""
        return self._with(narrow)

    def widened(self) -> NodeNumbers:
        """Return the same in int64, as it is computed with."""
        return self._with(lambda numbers: numbers.astype(np.int64, copy=False))

    def _with(self, kept: Callable[[Narrow], Narrow]) -> NodeNumbers:
        columns: Any = (
            tuple(kept(level) for level in self.lower),
            kept(self.caps),
            {depth: kept(totals) for depth, totals in self.totals.items()},
            kept(self.answers),
            tuple(kept(level) for level in self.exact),
        )
        return NodeNumbers(self.open, *columns)


@final
@dataclass(frozen=True, eq=False)
class SplitForm:
    """What the constraints on splits are, for every area alike; it does not grow with areas.

    It is asked of all leaves of a release: a part of the tree is given it and cannot ask for itself, so that a run of
    areas without dormitories goes the way of the nation.

    Args:
        system: constraints of the leaves with exact answers, of no node.
        partition: kinds of cells.
        needed: per level, why nodes need limits; nothing where lower bounds and open cells say all.
        merges: whether no set of kinds has an upper bound anywhere; then limits of alike leaves add up.
        exact_of_cell: per level, answer of each cell in the exact table that tells more than totals; else zeros.
        root_table: whether the root's exact table is its own and says nothing of what lies below.
    """

    system: ConstraintSystem
    partition: CellPartition
    needed: tuple[tuple[LimitReason, ...], ...]
    merges: bool
    exact_of_cell: tuple[Ints, ...]
    root_table: bool


@final
@dataclass(frozen=True, eq=False)
class SplitConstraints:
    """What tables of the nodes of a tree, or of a part of it, must keep so that they split down to the leaves.

    Args:
        form: of the release; made by `split_constraints`.
        numbers: of the nodes. geography: of these nodes.
    """

    form: SplitForm
    numbers: NodeNumbers
    geography: Geography

    @property
    def partition(self) -> CellPartition:
        """Kinds of cells."""
        return self.form.partition

    @cached_property
    def system(self) -> ConstraintSystem:
        """Constraints of the leaves of these nodes, with exact answers."""
        numbers = self.numbers
        return replace(self.form.system, open=numbers.open, lower=numbers.lower, caps=numbers.caps)

    @property
    def totals(self) -> dict[int, Ints]:
        """Exact node totals by depth."""
        return self.numbers.totals

    @property
    def unit_depth(self) -> int:
        """Deepest level with exact totals, -1 if there is none."""
        return max(self.numbers.totals, default=-1)

    @property
    def has_exact_table(self) -> bool:
        """Whether more than totals is exact at the deepest level with exact totals."""
        return bool(self.numbers.answers.shape[1] > 1)

    def total_at(self, depth: int) -> NodeAnswers:
        """Return the exact totals of a level as a table of one answer, without answers where they are not exact."""
        none = np.zeros((len(self.geography.levels[depth]), 0), dtype=np.int64)
        of_cell = np.zeros(len(self.form.system.class_of_cell), dtype=np.int64)
        return NodeAnswers(of_cell, self.totals[depth][:, None] if depth in self.totals else none)

    def exact_at(self, depth: int) -> NodeAnswers:
        """Return the exact table of a level that tells more than totals."""
        return NodeAnswers(self.form.exact_of_cell[depth], self.numbers.exact[depth])

    def with_totals(self, totals: dict[int, Ints]) -> SplitConstraints:
        """Return the same with other exact totals, and nothing else exact."""
        answers = deepest_answers(self.geography, totals)
        return replace(self, numbers=replace(self.numbers, totals=totals, answers=answers))

    def under(self, system: ConstraintSystem) -> SplitConstraints:
        """Return the same under other constraints of the leaves, for which the same limits are needed."""
        form = replace(self.form, system=system, partition=system.partition(self.partition.answers))
        numbers = replace(self.numbers, open=system.open, lower=system.lower, caps=system.caps)
        return replace(self, form=form, numbers=numbers)

    def afresh(self) -> SplitConstraints:
        """Return the same without what was found of its leaves, which grows with them."""
        return replace(self)

    def decided(self, depth: int) -> LimitUse:
        """Decide whether nodes of a level have limits; where they are needed but too many, splits may fail.

        Lower bounds on disjoint cells and open cells say everything at leaves without upper bounds, and above if
        no total below is exact and each bound's open cells are open and closed together.
        """
        if not self.form.needed[depth]:
            return LimitUse.NOT_NEEDED
        few = self.partition.n_kinds <= MAX_KINDS - (depth > self.unit_depth)
        return LimitUse.KEPT if few else LimitUse.TOO_MANY

    @cached_property
    def _is_open(self) -> tuple[Bools, Ints]:
        # Open kinds of each leaf, and a number for each pattern of them.
        is_open = self.numbers.open[-1][:, self.partition.class_of]
        return is_open, distinct_rows(is_open)[1]

    @cached_property
    def set_bounds(self) -> tuple[Ints, Ints]:
        """Bounds of each set of kinds at every leaf, see `CellPartition.set_bounds`."""
        return self.partition.set_bounds(self.numbers.lower[-1], self.numbers.caps)

    @cached_property
    def _least(self) -> Ints:
        # Fewest people of each set at each leaf.
        (low, high), family, is_open = self.set_bounds, self.partition.family, self._is_open[0]
        out = np.empty_like(low)
        for here in _leaf_batches(len(out)):
            out[here] = family.add_up(low[here], high[here], family.open_directly(is_open[here])).least
        return out

    def leaf_range(self, depth: int, node: int) -> slice:
        """Return the leaves below a node; they follow each other."""
        return self.geography.ranges(depth, node, node + 1)[-1]

    def pieces(self, depth: int, node: int) -> LeafPieces:
        """Return the leaves of a node, merged where limits simply add up."""
        is_open, least, merge = self._is_open[0], self._least, self.form.merges
        inside, exact, at_leaves = self.leaf_range(depth, node), *self._exact_below(depth)
        first, group, unit = self._merged(depth, inside)
        low = _add_limits(least[inside], group, len(first))
        high = self.set_bounds[1][inside][first] if not merge else np.full_like(low, NO_LIMIT)
        if not exact:
            none = np.zeros((1, 0), dtype=np.int64)
            return LeafPieces(is_open[inside][first], low, high, np.zeros(len(first), dtype=np.int64), none)
        if at_leaves:
            totals = _add_limits(self.numbers.answers[inside], group, len(first))
            return LeafPieces(is_open[inside][first], low, high, np.arange(len(first)), totals)
        units, unit = np.unique(unit[first], return_inverse=True)
        return LeafPieces(is_open[inside][first], low, high, unit.reshape(-1), self.numbers.answers[units])

    def n_pieces(self, depth: int, node: int) -> int:
        """Count the pieces of a node."""
        inside = self.leaf_range(depth, node)
        return len(self._merged(depth, inside)[0]) if self.form.merges else inside.stop - inside.start

    def _exact_below(self, depth: int) -> tuple[bool, bool]:
        """Tell whether totals are exact at a level or below, and whether at the leaves."""
        exact = depth <= self.unit_depth
        return exact, exact and self.unit_depth == len(self.geography.levels) - 1

    def _merged(self, depth: int, inside: slice) -> tuple[Ints, Ints, Ints]:
        """Return the first leaf of each piece, each leaf's piece, and its area with an exact total."""
        n, merge = inside.stop - inside.start, self.form.merges
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

    def _limits(self, pieces: LeafPieces) -> Ints:
        most, least = self._limits_without_totals(pieces)
        n_units = len(pieces.totals)
        most, least = _add_limits(most, pieces.unit, n_units), _add_limits(least, pieces.unit, n_units)
        everybody = most.shape[1] - 1
        others = everybody - np.arange(everybody + 1)
        if not pieces.totals.size:
            return np.concatenate([most[0], -least[0][others]])
        held, subsets = np.zeros_like(most), np.arange(everybody + 1)
        for answer, totals in enumerate(pieces.totals.T):
            mask = int((1 << np.flatnonzero(self.partition.answer_of == answer)).sum())
            held += np.minimum(most[:, subsets & mask], totals[:, None] - least[:, others & mask])
        return np.asarray(held.sum(axis=0), dtype=np.int64)

    def _limits_without_totals(self, pieces: LeafPieces) -> tuple[Ints, Ints]:
        """Return the most and the least people in each set of kinds at each piece, one bounded set after another."""
        subsets = np.arange(1 << self.partition.n_kinds)
        holds = (subsets[:, None] >> np.arange(self.partition.n_kinds)) & 1
        most: Ints = np.where(pieces.is_open.astype(np.int64) @ holds.T > 0, NO_LIMIT, 0)
        least = np.zeros_like(most)
        for s, members in enumerate(self.partition.members):
            mask = int((members.astype(np.int64) << np.arange(self.partition.n_kinds)).sum())
            inside, rest, other = subsets & mask, subsets & ~mask, mask & ~subsets
            low, high = pieces.low[:, s, None], pieces.high[:, s, None]
            more = np.minimum(most[:, inside], high - least[:, other]) + most[:, rest]
            least = np.maximum(least[:, inside], low - most[:, other]) + least[:, rest]
            most = np.where(more >= NO_LIMIT // 2, np.int64(NO_LIMIT), more)
        return most, least

    def arcs(self, depth: int, node: int) -> FlowArcs:
        """Return the flow network of a node; its exact total, if any, is the supply of node 0."""
        return leaf_network(self.partition, self.partition.answer_of, self.pieces(depth, node))


def split_constraints(
    partition: CellPartition,
    system: ConstraintSystem,
    geography: Geography,
    totals: dict[int, Ints],
    margins: ExactMargins | None = None,
) -> SplitConstraints:
    """Return what the nodes of a whole release must keep.

    Args:
        partition: of the cells, also by the exact table of `margins`.
        system: constraints of the leaves, with exact answers. geography: of the release.
        totals: exact node totals by depth, complete.
        margins: exact tables above the leaves; nothing but the totals if left out.
    """
    margins = margins or ExactMargins.of_totals(len(system.class_of_cell), geography, totals)
    leaf, unit_depth = len(geography.levels) - 1, max(totals, default=-1)
    capped = bool((system.caps < NO_LIMIT).any())
    positive = (system.lower[0] > 0).any(axis=0)
    bounded = partition.members[partition.set_of[: len(system.bound_cells)]][positive]
    mixed = any(len(np.unique(partition.class_of[kinds])) > 1 for kinds in bounded)
    inner = margins.split.tells_more

    def needed(depth: int) -> tuple[LimitReason, ...]:
        asked = {
            LimitReason.TOTALS_BELOW: depth < unit_depth and not inner,
            # at the level of the table too, so that passes that cross it keep it
            LimitReason.INNER_TABLE: depth <= unit_depth and inner,
            LimitReason.UPPER_BOUNDS: capped,
            LimitReason.NESTED_BOUNDS: bool(system.nested),
            LimitReason.SPREAD_BOUNDS: depth < leaf and mixed,
        }
        return tuple(reason for reason, is_there in asked.items() if is_there)

    exact = margins.by_level(geography, unit_depth)
    is_open = tuple(_no_rows(level) for level in system.open)
    lower = tuple(_no_rows(level) for level in system.lower)
    form = SplitForm(
        replace(system, open=is_open, lower=lower, caps=_no_rows(system.caps)),
        partition,
        tuple(needed(depth) for depth in range(leaf + 1)),
        not capped,
        tuple(table.of_cell for table in exact),
        margins.root.tells_more,
    )
    numbers = NodeNumbers(
        system.open, system.lower, system.caps, totals, margins.split.answers, tuple(t.answers for t in exact)
    )
    return SplitConstraints(form, numbers, geography)


def public_constraints(
    schema: Schema, invariants: Invariants, geography: Geography, rules: ConstraintSystem
) -> SplitConstraints:
    """Return the constraints on splits of a release whose exact statistics are not known: they stand as zeros.

    Kinds of cells and which levels have limits are as they will be; the limits are not, where something is exact.

    Args:
        schema, invariants, geography: of the release. rules: from public facts.

    Raises:
        ConfigError: C033 as `arrange_exact_tables`, C073 two bounds share some cells, and neither's hold the other's.
    """
    system = rules.with_exact(geography, unknown_exact_rows(schema, invariants, geography))
    tables = exact_tables_of(schema, invariants, geography.level_names)
    kept = arrange_exact_tables(tables, rules, geography.level_names)
    totals = {d: np.zeros(len(geography.levels[d]), np.int64) for d in range(kept.depth + 1)}
    margins = ExactMargins.of_totals(schema.n_cells, geography, totals)
    if kept.split.tells_more:
        margins = replace(margins, split=_unknown_answers(kept.split, len(geography.levels[kept.depth])))
    margins = replace(margins, root=_unknown_answers(kept.root, 1))
    return split_constraints(system.partition(kept.split.labels), system, geography, totals, margins)


def _unknown_answers(table: MergedTable, n_nodes: int) -> NodeAnswers:
    return NodeAnswers(table.labels, np.zeros((n_nodes, len(table.sources)), dtype=np.int64))


def _no_rows(rows: NDArray[Row]) -> NDArray[Row]:
    """Return no row, without holding on to those there were."""
    return rows[:0].copy()


def _add_limits(values: Ints, group: Ints, n_groups: int) -> Ints:
    # Sums of "no limit" stay "no limit".
    out = np.zeros((n_groups, values.shape[1]), dtype=np.int64)
    boundless = np.zeros(out.shape, dtype=bool)
    for here in _leaf_batches(len(values)):
        no_limit = values[here] >= NO_LIMIT
        np.add.at(out, group[here], np.where(no_limit, 0, values[here]))
        np.logical_or.at(boundless, group[here], no_limit)
    out[boundless] = NO_LIMIT
    return out


def _leaf_batches(n: int) -> Iterator[slice]:
    return (slice(first, first + RANGE_LEAVES) for first in range(0, n, RANGE_LEAVES))
