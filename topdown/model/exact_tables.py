"""Exact tables at any level: which of them can be kept together, and what each adds to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topdown.arrays import Bools, Ints
from topdown.errors import ConfigError
from topdown.model.constraint_rows import Invariants
from topdown.model.constraint_system import ConstraintSystem
from topdown.model.query import parse_query, refines
from topdown.model.schema import Schema


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
    that `solve/polytopes.py` writes down. The cells of the node are one family. Hence everything else must be one:

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
    return tuple(
        ExactTable(
            e.name, list(level_names).index(e.level), parse_query(schema, e.query).labels.astype(np.int64)
        )
        for e in invariants.exact
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
    leaf, reachable = len(level_names) - 1, possible_cells(rules)
    depth = max((t.depth for t in tables), default=-1)
    total = MergedTable(np.zeros(len(reachable), dtype=np.int64), ())
    if depth < 0:
        return ExactArrangement(-1, total, total, None, None)
    for level in sorted({t.depth for t in tables} - {leaf}):  # at the leaves, answers are bounds like others
        _check_same_level(tables, level, reachable, level_names[level])
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


def possible_cells(rules: ConstraintSystem) -> Bools:
    """Return the cells that may hold records somewhere, bool (n_cells,)."""
    return np.asarray(rules.open[0][0][rules.class_of_cell], dtype=bool)


def merge_tables(tables: Sequence[ExactTable], depth: int, reachable: Bools) -> MergedTable:
    """Return the coarsest table that tells all tables of a level."""
    here = [i for i, t in enumerate(tables) if t.depth == depth]
    stack = np.stack([tables[i].labels for i in here])
    labels = np.unique(stack, axis=1, return_inverse=True)[1].reshape(-1)
    sources: list[tuple[int, int] | None] = []
    for answer in range(int(labels.max()) + 1):
        cells = (labels == answer) & reachable
        found = None
        for i in here if cells.any() else ():
            code = int(tables[i].labels[cells][0])
            if np.array_equal((tables[i].labels == code) & reachable, cells):
                found = found or (i, code)
        sources.append(found)
    return MergedTable(labels.astype(np.int64), tuple(sources))


def coarser_answers(table: MergedTable, labels: Ints, reachable: Bools) -> Ints | None:
    """Return for every answer of `table` the answer of coarser `labels` that holds it; None if it is not coarser.

    Answers without possible cells are -1.
    """
    if not refines(table.labels[reachable], labels[reachable]):
        return None
    out = np.full(len(table.sources), -1, dtype=np.int64)
    out[table.labels[reachable]] = labels[reachable]
    return out


def _check_same_level(tables: Sequence[ExactTable], depth: int, reachable: Bools, level: str) -> None:
    here = [t for t in tables if t.depth == depth]
    for i, b in enumerate(here):
        for a in here[:i]:
            pairs = np.unique(np.stack([a.labels, b.labels])[:, reachable], axis=1).T
            crossed = [
                p for p in pairs if (pairs[:, 0] == p[0]).sum() > 1 and (pairs[:, 1] == p[1]).sum() > 1
            ]
            if crossed:
                raise ConfigError(
                    f"exact tables {a.name!r} and {b.name!r} of level {level!r} cross: answers share some cells, "
                    "and neither's hold the other's",
                    code="C033",
                    fix="keep one of them exact, or the table of both their attributes together",
                )


def _check_bounds(
    tables: Sequence[ExactTable], merged: MergedTable, rules: ConstraintSystem, level: str
) -> None:
    reachable = possible_cells(rules)
    bounds = [cells & reachable for cells in (*rules.bound_cells, *rules.cap_cells)]
    for name, cells in zip((*rules.bound_names, *rules.cap_names), bounds, strict=True):
        inside = np.unique(merged.labels[cells])
        if len(inside) <= 1:
            continue
        whole = np.array_equal(np.isin(merged.labels, inside) & reachable, cells)
        together = len(np.unique(rules.class_of_cell[cells])) == 1
        alone = all(np.array_equal(cells, c) or not (cells & c).any() for c in bounds)
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
