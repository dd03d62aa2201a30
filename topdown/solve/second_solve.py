"""Compare the published table of a release with a second solve of it, down to every split if they differ.

If both tables are equal nothing more is to be said. If not, every split whose children differ is solved once more
from the *published* table of its parent, so that one difference is not counted again below it, and its published
children are weighed against the optimum (`weigh`). This goes from the root down until a level holds a table that is
not optimal. The table that was split is the published one only where nothing below was changed afterwards: where the
failsafe or a repair did so, at a node or below it, the split above it is not judged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from topdown.arrays import Ints
from topdown.model import Geography, Histogram, LeafTable
from topdown.plan import PublicContext
from topdown.progress import Event, Report, silent
from topdown.solve.published_gap import GapReport
from topdown.solve.solve_stage import Solved, report_lost_workers
from topdown.solve.solved_parts import Node
from topdown.solve.tree_solver import TreeSolver
from topdown.workers import Executor, workers_with

LEAVES = 2**16  # of both tables that are compared at once
CHANGED = "records of an area below were moved after the split, by the failsafe or to keep a rule"
Flags = tuple[NDArray[np.bool_], ...]  # per level, one a node
_ComparisonTask = tuple[int, Node | None, list[Node]]


@dataclass(frozen=True)
class ComparedSplit:
    """One split of the published table: the parent's level and code, and how its children compare.

    Where the top node itself is judged it is its own parent and `is_top` holds.
    """

    level: str
    node: str
    weighed: GapReport
    is_top: bool = False


@dataclass(frozen=True, eq=False)
class SecondSolve:
    """A release solved again.

    Args:
        solved: table and document found here.
        n_areas: leaves. n_areas_equal: of them with the same published table.
        n_cells: published counts that differ. n_records: records by which they differ (L1).
        judged: splits whose published children differ, root first.
        stopped: level at which judging ended because it has a table that is not optimal; empty if all were judged.
    """

    solved: Solved
    n_areas: int
    n_areas_equal: int
    n_cells: int
    n_records: int
    judged: tuple[ComparedSplit, ...] = ()
    stopped: str = ""

    @property
    def equal(self) -> bool:
        """Whether the published table is the one found here."""
        return not self.n_cells

    @property
    def verdicts(self) -> Counter[str]:
        """Number of judged splits by verdict."""
        return Counter(judged.weighed.verdict for judged in self.judged)


def compare_with_published(
    context: PublicContext,
    solver: TreeSolver,
    own: Solved,
    published: LeafTable,
    stated: dict[str, Any],
    *,
    workers: Executor = 1,
    report: Report = silent,
) -> SecondSolve:
    """Compare a published table with one solved here, and judge every split in which they differ.

    The result does not depend on the number of workers. Takes no time to speak of where tables are equal, and at most
    about that of the solve where they differ.

    Args:
        context: plan and public facts. solver: the solver. own: what it found.
        published: the leaf table to compare. stated: the document published with it.
        workers, report: see `solve`.
    """
    change, n_areas = _difference(own.leaves, published), len(context.geography.leaves)
    if not len(change.count):
        return SecondSolve(own, n_areas, n_areas, 0, 0)
    n_equal, moved = n_areas - len(np.unique(change.node)), int(np.abs(change.count).sum())
    rows = solver.rows_of(published.whole())
    splits = _PublishedSplits(
        context.geography,
        rows.at_every_level(context.geography),
        _difference(solver.rows_of(own.leaves.whole()), rows).at_every_level(context.geography),
        _changed_afterwards(context.geography, to_builtins(own.document), stated),
    )
    judged, stopped = _compare_levels(solver, splits, workers, report)
    return SecondSolve(own, n_areas, n_equal, len(change.count), moved, judged, stopped)


@dataclass(frozen=True, eq=False)
class _PublishedSplits:
    """The published tables and their signed difference from those found here, by level, root first.

    `changed` marks the nodes whose published table is not the one that their parent's split gave.
    """

    geography: Geography
    published: tuple[Histogram, ...]
    difference: tuple[Histogram, ...]
    changed: Flags

    def tasks(self, depth: int) -> list[_ComparisonTask]:
        """Return the splits of level `depth` (-1: the top node itself) whose children differ."""
        differs = np.unique(self.difference[depth + 1].node)
        if depth < 0:
            return [(-1, None, [_node_of_table(self.published[0], 0)])] if len(differs) else []
        pointers = self.geography.child_pointers[depth]
        out: list[_ComparisonTask] = []
        for parent in np.unique(self.geography.levels[depth + 1].parent[differs]).tolist():
            children = range(int(pointers[parent]), int(pointers[parent + 1]))
            nodes = [_node_of_table(self.published[depth + 1], child) for child in children]
            out.append(
                (depth, _node_of_table(self.published[depth], parent), [n for n in nodes if len(n.cells)])
            )
        return out

    def settled(self, task: _ComparisonTask) -> GapReport | None:
        """Return what can be said of a split without solving it; None if it has to be solved."""
        depth, parent, _ = task
        first, last = (0, 1) if parent is None else self.geography.child_pointers[depth][parent.index :][:2]
        if self.changed[depth + 1][first:last].any():
            places = np.searchsorted(self.difference[depth + 1].node, (first, last))
            return GapReport(int(places[1] - places[0]), unproved=CHANGED)
        return GapReport() if parent is not None and not len(parent.cells) else None


def _compare_levels(
    solver: TreeSolver, splits: _PublishedSplits, workers: Executor, report: Report
) -> tuple[tuple[ComparedSplit, ...], str]:
    """Judge level by level; returns the splits that are not equal, and the level at which that ended early."""
    judged: list[ComparedSplit] = []
    levels = splits.geography.levels
    with threadpool_limits(limits=1):
        for depth in range(-1, len(levels) - 1):
            here = _compare_level(solver, splits, depth, workers, report)
            judged += here
            if any(j.weighed.verdict == "worse" for j in here) and depth < len(levels) - 2:
                return tuple(judged), levels[depth + 1].name
    return tuple(judged), ""


def _compare_level(
    solver: TreeSolver, splits: _PublishedSplits, depth: int, workers: Executor, report: Report
) -> list[ComparedSplit]:
    tasks, name = splits.tasks(depth), splits.geography.levels[depth + 1].name
    known = [(task, splits.settled(task)) for task in tasks]
    found = [(task[1], weighed) for task, weighed in known if weighed is not None]
    unsettled = [task for task, weighed in known if weighed is None]
    place = max(1, min(workers, len(unsettled))) if isinstance(workers, int) else workers
    with workers_with(solver, place, report_lost_workers(report)) as pool:
        for pair in pool.map(_compare_task, unsettled, name=partial(_name_of_parent, splits.geography)):
            found.append(pair)
            report(Event("judge", len(found), len(tasks), name))
    found.sort(key=lambda pair: -1 if pair[0] is None else pair[0].index)
    return [_compared_split(splits.geography, depth, parent, w) for parent, w in found if w.n_cells]


def _name_of_parent(geography: Geography, task: _ComparisonTask) -> str:
    depth, parent, _ = task
    return geography.root.codes[0] if parent is None else geography.levels[depth].codes[parent.index]


def _compare_task(solver: TreeSolver, task: _ComparisonTask) -> tuple[Node | None, GapReport]:
    return task[1], solver.judge(*task)


def _compared_split(
    geography: Geography, depth: int, parent: Node | None, weighed: GapReport
) -> ComparedSplit:
    level = geography.levels[max(depth, 0)]
    return ComparedSplit(
        level.name, level.codes[0 if parent is None else parent.index], weighed, parent is None
    )


def _node_of_table(table: Histogram, index: int) -> Node:
    first, last = np.searchsorted(table.node, (index, index + 1))
    return Node(index, table.cell[first:last], table.count[first:last])


def _difference(own: LeafTable, published: LeafTable) -> Histogram:
    """Return where two tables differ, published minus own; as long as they agree little is held of them."""
    out = [_difference_between(own, published, first) for first in range(0, own.n_nodes, LEAVES)]
    return Histogram(own.n_nodes, own.n_cells, *(np.concatenate(column) for column in zip(*out, strict=True)))


def _difference_between(own: LeafTable, published: LeafTable, first: int) -> tuple[Ints, Ints, Ints]:
    one, other = (table.between(first, first + LEAVES) for table in (own, published))
    node, cell = (np.concatenate([getattr(t, name) for t in (one, other)]) for name in ("node", "cell"))
    counts = np.concatenate([-one.count, other.count])
    found = Histogram.build(own.n_nodes, own.n_cells, node, cell, counts)
    return found.node, found.cell, found.count


def _changed_afterwards(geography: Geography, *documents: dict[str, Any]) -> Flags:
    """Mark the nodes below or at which a document says that records were moved after a split."""
    flags = tuple(np.zeros(len(level), dtype=bool) for level in geography.levels)
    for document in documents:
        uses = [(use["level"], use["node"]) for use in document.get("failsafe", [])]
        repairs = document.get("comparisons", {}).get("repairs", [])
        uses += [(geography.leaves.name, repair["node"]) for repair in repairs]
        for flag, level in zip(flags, geography.levels, strict=True):
            named = {node for name, node in uses if name == level.name}
            flag |= np.array([code in named for code in level.codes], dtype=bool)
    for depth in range(len(flags) - 1, 0, -1):
        flags[depth - 1][:] |= geography.upward(flags[depth], depth, depth - 1, np.logical_or)
    return flags
