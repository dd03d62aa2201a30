"""Exact tables at any level: which of them can be kept together, what each adds to the others, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topdown.arrays import Bools, Ints
from topdown.errors import ConfigError, InfeasibleError
from topdown.model.cell_sets import NO_LIMIT, first_crossing
from topdown.model.constraint_system import BATCH_LEAVES, CellPartition, ConstraintSystem
from topdown.model.geography import Geography
from topdown.model.invariants import Invariants
from topdown.model.query import parse_query, refines
from topdown.model.schema import Schema

NO_TABLE_FITS = "the exact table of a place contradicts the public facts or the exact statistics below it"


@dataclass(frozen=True, eq=False)
class ExactTable:
    """An exact statistic: name, position of its level (0 at the root), and the answer of every cell."""

    name: str
    depth: int
    labels: Ints

    @property
    def is_total(self) -> bool:
        """Whether it is the number of all records."""
        return not self.labels.any()


@dataclass(frozen=True, eq=False)
class MergedTable:
    """The coarsest table that tells all exact tables of one level.

    Args:
        labels: int64 (n_cells,), answer of each cell.
        sources: per answer, the table and its answer with the same possible cells; None if no record may be there.
    """

    labels: Ints
    sources: tuple[tuple[int, int] | None, ...]

    @property
    def tells_more(self) -> bool:
        """Whether it tells more than the total."""
        return bool(self.labels.any())


@dataclass(frozen=True, eq=False)
class ExactArrangement:
    """How exact tables are kept.

    A rectangle is a set of leaves below one node times a set of cells. Leaves' bounds are rectangles, an exact
    answer is (leaves of its node) x (its cells), and splitting a node asks for (all leaves) x (each cell). Two
    rectangles of one laminar family are nested or disjoint; a system of two laminar families is totally unimodular
    (Edmonds 1970), so what has a fractional split has a whole one, and the splits of a node are the base polytope
    that `split_polytopes.py` writes down. The cells of the node are one family. Hence everything else must be one:

    * exact tables of one level are nested or disjoint, answer by answer;
    * every table above the deepest exact level is a sum of the deepest, and then says nothing new;
    * the cells of a leaf's bound lie in one answer of an exact table above the leaves; or they are a sum of answers,
      disjoint from other bounds' and open and closed together. The leaves of a node then split every table of the
      node that keeps their bounds' sum (Theorem 3), and the exact table alone decides whether it does.

    The root is not split from anything: its own tables take the place of the family of cells there and may cross
    all that lies below.

    Args:
        depth: deepest level with an exact statistic, -1 if there is none.
        split: its table if that is above the leaves and below the root; else one that tells no more than the total.
        root: the root's table, if it says more than the statistics below; else as `split`.
        deepest: the merged table of `depth`, total or not; None if there is none.
        root_sums: the merged table of the root, None if there is none.
    """

    depth: int
    split: MergedTable
    root: MergedTable
    deepest: MergedTable | None
    root_sums: MergedTable | None


def exact_tables_of(
    schema: Schema, invariants: Invariants, level_names: Sequence[str]
) -> tuple[ExactTable, ...]:
    """Return the exact statistics of a set of invariants; their levels must exist."""
    depth = {name: i for i, name in enumerate(level_names)}
    labels = [parse_query(schema, e.query).labels.astype(np.int64) for e in invariants.exact]
    return tuple(
        ExactTable(e.name, depth[e.level], of_cell)
        for e, of_cell in zip(invariants.exact, labels, strict=True)
    )


def arrange_exact_tables(
    tables: Sequence[ExactTable],
    rules: ConstraintSystem,
    level_names: Sequence[str],
) -> ExactArrangement:
    """Return how the tables are kept at all levels.

    Args:
        tables: exact statistics.
        rules: from public facts.
        level_names: root first.

    Raises:
        ConfigError: C033 two constraints that no complete split is known for; both are named.
    """
    leaf, reachable = len(level_names) - 1, rules.possible_cells
    depth = max((t.depth for t in tables), default=-1)
    total = MergedTable(np.zeros(len(reachable), dtype=np.int64), ())
    if depth < 0:
        return ExactArrangement(-1, total, total, None, None)
    for level in sorted({t.depth for t in tables} - {leaf}):  # at the leaves, answers are bounds like others
        _check_same_level([t for t in tables if t.depth == level], reachable, level_names[level])
    deepest = merge_tables(tables, depth, reachable)
    for table in tables:
        if 0 < table.depth < depth and not refines(deepest.labels[reachable], table.labels[reachable]):
            _refuse_levels(table, next(t for t in tables if t.depth == depth), level_names)
    split = deepest if 0 < depth < leaf and deepest.tells_more else total
    if split.tells_more:
        _check_bounds([t for t in tables if t.depth == depth], split, rules, level_names[depth])
    root = merge_tables(tables, 0, reachable) if any(t.depth == 0 for t in tables) else None
    own = root if root is not None and leaf and root.labels[reachable].any() else total
    if depth > 0 and refines(deepest.labels[reachable], own.labels[reachable]):
        own = total
    return ExactArrangement(depth, split, own, deepest, root)


def merge_tables(tables: Sequence[ExactTable], depth: int, reachable: Bools) -> MergedTable:
    """Return the coarsest table that tells all tables of a level."""
    here = [i for i, t in enumerate(tables) if t.depth == depth]
    stack = np.stack([tables[i].labels for i in here])
    labels = np.unique(stack, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
    sources: list[tuple[int, int] | None] = [None] * (int(labels.max()) + 1)
    answers, first, size = np.unique(labels[reachable], return_index=True, return_counts=True)
    for i in reversed(here):  # of several tables with the same cells the first is kept
        own = tables[i].labels[reachable]
        same = np.bincount(own)[own[first]] == size
        for answer, code in zip(answers[same].tolist(), own[first[same]].tolist(), strict=True):
            sources[answer] = i, code
    return MergedTable(labels, tuple(sources))


def coarser_answers(table: MergedTable, labels: Ints, reachable: Bools) -> Ints | None:
    """Return for every answer of `table` the answer of coarser `labels` that holds it; None if it is not coarser.

    Answers without possible cells are -1.
    """
    if not refines(table.labels[reachable], labels[reachable]):
        return None
    out = np.full(len(table.sources), -1, dtype=np.int64)
    out[table.labels[reachable]] = labels[reachable]
    return out


def _check_same_level(tables: Sequence[ExactTable], reachable: Bools, level: str) -> None:
    crossing = first_crossing(np.stack([table.labels[reachable] for table in tables]))
    if crossing is not None:
        a, b = (tables[i].name for i in crossing)
        raise ConfigError(
            f"exact tables {a!r} and {b!r} of level {level!r} cross: answers share some cells, "
            "and neither's hold the other's",
            code="C033",
            fix="keep one of them exact, or the table of both their attributes together",
        )


def _check_bounds(
    tables: Sequence[ExactTable], merged: MergedTable, rules: ConstraintSystem, level: str
) -> None:
    reachable = rules.possible_cells
    bounds = [(name, cells & reachable) for name, cells in rules.bounded]
    for name, cells in bounds:
        inside = np.unique(merged.labels[cells])
        if len(inside) <= 1:
            continue
        whole = np.array_equal(np.isin(merged.labels, inside) & reachable, cells)
        together = len(np.unique(rules.class_of_cell[cells])) == 1
        alone = all(np.array_equal(cells, c) or not (cells & c).any() for _, c in bounds)
        if not (whole and together and alone):
            table = next(t for t in tables if len(np.unique(t.labels[cells])) > 1)
            raise ConfigError(
                f"the cells of the bound {name!r} lie in several answers of the exact table {table.name!r} of "
                f"level {level!r}: no complete constraints are known for the levels above",
                code="C033",
                fix="make the table coarser where the bound is, or keep it exact at the root only",
            )


def _refuse_levels(above: ExactTable, below: ExactTable, level_names: Sequence[str]) -> None:
    raise ConfigError(
        f"the exact table {above.name!r} of level {level_names[above.depth]!r} is no sum of the exact statistic "
        f"{below.name!r} of level {level_names[below.depth]!r}: no complete constraints are known for both",
        code="C033",
        fix=f"keep {above.name!r} exact at the root only or at level {level_names[below.depth]!r}, or make "
        f"{below.name!r} as fine, or exact no deeper than level {level_names[above.depth]!r}",
    )


@dataclass(frozen=True, eq=False)
class NodeAnswers:
    """An exact table of every node of a level; without answers where nothing is exact.

    Args:
        of_cell: int64 (n_cells,), answer of each cell; zeros where nothing is exact.
        answers: int64 (n_nodes, n_answers).
    """

    of_cell: Ints
    answers: Ints

    @staticmethod
    def none(n_cells: int, n_nodes: int) -> NodeAnswers:
        """Return a table without answers."""
        return NodeAnswers(np.zeros(n_cells, dtype=np.int64), np.zeros((n_nodes, 0), dtype=np.int64))

    @property
    def tells_more(self) -> bool:
        """Whether there are more answers than the total."""
        return bool(self.answers.shape[1] > 1)

    def among(self, index: Ints, cells: Ints) -> tuple[Ints, Ints]:
        """Return the answers that some cells belong to at some nodes.

        Returns:
            answer of each cell, -1 where nothing is exact, and the numbers, int64 (n_answers, n_nodes).

        Raises:
            InfeasibleError: I013 other cells would have records.
        """
        if not self.answers.shape[1]:
            return np.full(len(cells), -1, dtype=np.int64), np.zeros((0, len(index)), dtype=np.int64)
        present, of = np.unique(self.of_cell[cells], return_inverse=True)
        answers = np.ascontiguousarray(self.answers[index][:, present].T)
        if answers.sum() != self.answers[index].sum():
            raise exact_contradiction(NO_TABLE_FITS, None)
        return of.reshape(-1), answers

    def may_hold(self, index: Ints, cells: Ints) -> Bools:
        """Return which of some cells may hold records at some nodes, bool (n_nodes, n_cells): where no answer is 0."""
        if not self.answers.shape[1]:
            return np.ones((len(index), len(cells)), dtype=bool)
        return np.asarray(self.answers[index][:, self.of_cell[cells]] > 0)


@dataclass(frozen=True, eq=False)
class ExactMargins:
    """Exact tables above the leaves that must be kept beside totals.

    Args:
        split: of the deepest exact level; the totals as one answer if nothing but totals, or a table of the leaves, is
            exact there; without answers where nothing is exact.
        root: the root's own table, without answers where there is none.
    """

    split: NodeAnswers
    root: NodeAnswers

    @staticmethod
    def of_totals(n_cells: int, geography: Geography, totals: dict[int, Ints]) -> ExactMargins:
        """Return what is kept where nothing but totals, by depth, is exact."""
        split = NodeAnswers(np.zeros(n_cells, dtype=np.int64), deepest_answers(geography, totals))
        return ExactMargins(split, NodeAnswers.none(n_cells, 1))

    def by_level(self, geography: Geography, depth: int) -> tuple[NodeAnswers, ...]:
        """Return the exact table of every level that tells more than totals: the root's own, or sums of `split`.

        Args:
            depth: of the deepest exact level.
        """
        tables = []
        for i, level in enumerate(geography.levels):
            if i == 0 and self.root.tells_more:
                tables.append(self.root)
            elif self.split.tells_more and i <= depth:
                sums = geography.upward(self.split.answers, depth, i)
                tables.append(NodeAnswers(self.split.of_cell, sums))
            else:
                tables.append(NodeAnswers.none(len(self.split.of_cell), len(level)))
        return tuple(tables)


def deepest_answers(geography: Geography, totals: dict[int, Ints]) -> Ints:
    """Return the totals of the deepest exact level as a table of one answer, (n_nodes, 1); (n_leaves, 0) for none."""
    return totals[max(totals)][:, None] if totals else np.zeros((len(geography.leaves), 0), dtype=np.int64)


def exact_margins(
    schema: Schema,
    invariants: Invariants,
    geography: Geography,
    rules: ConstraintSystem,
    totals: dict[str, Ints],
    tables: dict[str, Ints],
) -> ExactMargins:
    """Return the tables to keep above the leaves; tables that are sums of others are checked and left out.

    Args:
        schema, invariants, geography: of the release. rules: from public facts.
        totals: exact totals by level, int64 (n_nodes,).
        tables: other exact statistics by name, int64 (n_nodes, n_answers).

    Raises:
        InfeasibleError: two exact tables contradict each other; the node is named.
    """
    given = {geography.index(name): values for name, values in totals.items()}
    plain = ExactMargins.of_totals(schema.n_cells, geography, given)
    known = exact_tables_of(schema, invariants, geography.level_names)
    if all(table.is_total for table in known):
        return plain
    kept, reachable = arrange_exact_tables(known, rules, geography.level_names), rules.possible_cells
    answers = [
        totals[geography.level_names[t.depth]][:, None] if t.is_total else tables[t.name] for t in known
    ]
    for depth, merged in ((0, kept.root_sums), (kept.depth, kept.deepest)):
        if merged is None:
            continue
        held = _merged_answers(merged, answers, len(geography.levels[depth]))
        for table, values in zip(known, answers, strict=True):
            into = coarser_answers(merged, table.labels, reachable)
            if table.depth <= depth and into is not None:
                _check_sums(geography, depth, held, into, table, values)
    split = plain.split
    if kept.split.tells_more:
        n_nodes = len(geography.levels[kept.depth])
        split = NodeAnswers(kept.split.labels, _merged_answers(kept.split, answers, n_nodes))
    return ExactMargins(split, NodeAnswers(kept.root.labels, _merged_answers(kept.root, answers, 1)))


def _merged_answers(merged: MergedTable, answers: list[Ints], n_nodes: int) -> Ints:
    none = np.zeros(n_nodes, dtype=np.int64)
    columns = [none if s is None else answers[s[0]][:, s[1]] for s in merged.sources]
    return np.array(columns, dtype=np.int64).reshape(-1, n_nodes).T


def _check_sums(
    geography: Geography, depth: int, held: Ints, into: Ints, table: ExactTable, values: Ints
) -> None:
    """Compare a table with the sums of a finer one at the same level or below."""
    added = np.zeros((len(held), values.shape[1]), dtype=np.int64)
    for answer, place in enumerate(into.tolist()):
        if place >= 0:
            added[:, place] += held[:, answer]
    wrong = np.flatnonzero((geography.upward(added, depth, table.depth) != values).any(axis=1))
    if len(wrong):
        code = geography.levels[table.depth].codes[int(wrong[0])]
        raise exact_contradiction(
            "an exact table of a place is not the sum of the exact tables below it", code
        )


def complete_totals(
    geography: Geography,
    rules: ConstraintSystem,
    kinds: CellPartition,
    exact: dict[str, Ints],
    margins: ExactMargins | None = None,
) -> dict[int, Ints]:
    """Return exact totals by depth, those above the deepest exact level added up from it.

    Args:
        geography: of the release. rules: constraints of the leaves, with exact answers.
        kinds: of cells, also by the exact table of `margins`.
        exact: exact totals by level name. margins: exact tables above the leaves, if there are any.

    Raises:
        InfeasibleError: totals contradict each other, or the public facts below a node; the node is named.
    """
    given = {geography.index(name): values for name, values in exact.items()}
    if not given:
        return {}
    deepest = max(given)
    totals = {deepest: given[deepest]}
    margins = margins or ExactMargins.of_totals(len(rules.class_of_cell), geography, totals)
    found = node_without_population(geography, rules, kinds, [(deepest, margins.split)])
    if found is not None:
        what = "table" if margins.split.tells_more else "total"
        text = f"the exact {what} of a place contradicts the public facts about it"
        raise exact_contradiction(text, geography.levels[found[0]].codes[found[1]])
    for depth in range(deepest - 1, -1, -1):
        added = geography.upward(totals[depth + 1], depth + 1, depth)
        wrong = np.flatnonzero(added != given.get(depth, added))
        if len(wrong):
            text = "the exact total of a place is not the sum of the exact totals below it"
            raise exact_contradiction(text, geography.levels[depth].codes[wrong[0]])
        totals[depth] = added
    return totals


@dataclass(frozen=True, eq=False)
class _KnownPart:
    """Some kinds of cells whose records are counted at nodes of one level or more.

    Args:
        kinds: bool (n_kinds,).
        counts: depth of the level, and the count of every node, int64 (n_nodes,).
    """

    kinds: Bools
    counts: tuple[tuple[int, Ints], ...]

    @property
    def depth(self) -> int:
        """The deepest level whose counts are known, -1 for none."""
        return max((depth for depth, _ in self.counts), default=-1)


def _known_parts(kinds: CellPartition, tables: Sequence[tuple[int, NodeAnswers]]) -> list[_KnownPart]:
    """Return everybody, each answer of each table, and each bounded set that is a sum of answers."""
    everybody = np.ones(kinds.n_kinds, dtype=bool)
    counts = [(everybody, depth, table.answers.sum(axis=1)) for depth, table in tables]
    cell = np.unique(kinds.of_cell, return_index=True)[1][-kinds.n_kinds :] if kinds.n_kinds else ()
    for depth, table in tables:
        answer_of = table.of_cell[np.asarray(cell, dtype=np.int64)]
        each = enumerate(table.answers.T) if table.tells_more else ()
        counts += [(answer_of == answer, depth, values) for answer, values in each]
        for members in kinds.members:
            inside = np.unique(answer_of[members])
            if len(inside) > 1 and np.array_equal(np.isin(answer_of, inside), members):
                counts.append((members, depth, table.answers[:, inside].sum(axis=1)))
    parts: dict[bytes, list[tuple[Bools, int, Ints]]] = {everybody.tobytes(): []}
    for count in counts:
        parts.setdefault(count[0].tobytes(), []).append(count)
    return [
        _KnownPart(np.frombuffer(part, dtype=bool), tuple((depth, values) for _, depth, values in of))
        for part, of in parts.items()
    ]


def node_without_population(
    geography: Geography,
    system: ConstraintSystem,
    kinds: CellPartition,
    tables: Sequence[tuple[int, NodeAnswers]],
) -> tuple[int, int] | None:
    """Return (depth, index) of the first node of the lowest level that no population fits, or None.

    Open cells and bounds leave an interval of possible counts at every leaf; intervals add up, and an exact count cuts
    one. For all records that is the maximum flow of the tree, with lower bounds and capacities. An answer of a table is
    such a count for its cells alone, under the bounds inside them, and so is a bounded set that is a sum of answers:
    necessary, not complete.

    Args:
        geography: any tree. system: constraints of its leaves.
        kinds: of cells, by the answers of the tables too.
        tables: exact tables with the depth of their level; those of leaves are totals.

    Cost: one pass over the leaves for each answer.
    """
    leaf, family = len(geography.levels) - 1, kinds.family
    parts = _known_parts(kinds, tables)
    levels = [leaf, *(part.depth for part in parts[1:])]
    shapes = [len(geography.levels[depth]) for depth in levels]
    fewest, most = ([np.zeros(n, dtype=np.int64) for n in shapes] for _ in range(2))
    boundless, bad = ([np.zeros(n, dtype=bool) for n in shapes] for _ in range(2))
    inside = [~(kinds.members & ~part.kinds).any(axis=1) for part in parts]
    for first in range(0, len(geography.leaves), BATCH_LEAVES):
        here = slice(first, first + BATCH_LEAVES)
        is_open = system.open[-1][here][:, kinds.class_of]
        bounds = kinds.set_bounds(system.lower[-1][here], system.caps[here])
        tight = family.add_up(*bounds, family.open_directly(is_open))
        bad[0][here] = (tight.least > tight.most).any(axis=1)
        for p, part in enumerate(parts):
            chosen = inside[p] & ~np.append(inside[p], False)[family.outer]
            loose = part.kinds & ~np.append(inside[p], False)[family.innermost]
            endless = tight.most[:, chosen] >= NO_LIMIT
            node = geography.ancestors_of_leaves[levels[p]][here]
            np.add.at(fewest[p], node, tight.least[:, chosen].sum(axis=1))
            np.add.at(most[p], node, np.where(endless, 0, tight.most[:, chosen]).sum(axis=1))
            np.logical_or.at(boundless[p], node, endless.any(axis=1) | is_open[:, loose].any(axis=1))
    found = [
        _first_outside(geography, part, *interval)
        for part, interval in zip(parts, zip(levels, fewest, most, boundless, bad, strict=True), strict=True)
    ]
    return min((at for at in found if at is not None), key=lambda at: (-at[0], at[1]), default=None)


def _first_outside(
    geography: Geography, part: _KnownPart, depth: int, fewest: Ints, most: Ints, boundless: Bools, bad: Bools
) -> tuple[int, int] | None:
    """Add the intervals of a part's counts up from a level; return where the first count is outside, or None."""
    while True:
        for values in (values for d, values in part.counts if d == depth):
            bad |= (values < fewest) | (~boundless & (values > most))
            fewest = most = values
            boundless = np.zeros(len(values), dtype=bool)
        if bad.any():
            return depth, int(bad.argmax())
        if depth == 0:
            return None
        fewest, most = (
            geography.upward(of, depth, depth - 1) for of in (fewest, np.where(boundless, 0, most))
        )
        boundless = geography.upward(boundless, depth, depth - 1, np.logical_or)
        depth, bad = depth - 1, np.zeros(len(fewest), dtype=bool)


def exact_contradiction(text: str, node: str | None) -> InfeasibleError:
    """Return the error that exact statistics exclude each other, or public facts, at a node."""
    fix = "correct the records or the public leaf table, or choose other invariants"
    return InfeasibleError(text, code="I013", node=node, fix=fix)
