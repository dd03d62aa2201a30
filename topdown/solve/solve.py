"""The solve stage: measurements in, leaf table out. Needs no confidential file and no luck."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from topdown.model.geography import Geography
from topdown.model.leaf_table import PackedRows, PackedTable
from topdown.plan.prepare import Context
from topdown.progress import Event, Report, silent
from topdown.solve.answers import NoisyAnswers
from topdown.solve.checkpoints import Checkpoints
from topdown.solve.descend import Descent, LeavesMissingError
from topdown.solve.groups import Ints
from topdown.solve.node import Node
from topdown.solve.sections import (
    NodeSpan,
    SolvedPart,
    checkpoint_spans,
    end_to_end,
    moved,
    nodes_of,
    rows_of,
    runs_of,
)
from topdown.solve.slices import Cutter, Opener, Slice, cutter_of
from topdown.solve.tally import Tally
from topdown.solve.tree.covered import choose
from topdown.solve.tree.numbers import TreeNumbers, tree_numbers
from topdown.solve.tree.statistics import TreeStatistics
from topdown.solve.walk import Walk
from topdown.workers import Lost, Place, Workers, size_of, workers_with

TASKS_PER_WORKER = 8  # runs, at least, where the tree has so many
SOLVE_CUT_LEAVES = 4_096  # of the largest node of the level below which runs are solved, at most
RUN_LEAVES = 4_096  # of a run, at most about: less than a second of 2,016 cells
AHEAD = 3  # tasks a worker that are under way or wait


@dataclass(frozen=True, eq=False)
class Solved:
    """The leaf table, the `topdown.solve` document, and whence estimates come where the plan asks for intervals."""

    leaves: PackedTable
    document: dict[str, Any]
    numbers: TreeNumbers | None = None


def solve(
    context: Context,
    answers: NoisyAnswers,
    exact: dict[str, Ints],
    *,
    workers: Place = 1,
    backend: str = "admm",
    tables: dict[str, Ints] | None = None,
    report: Report = silent,
) -> Solved:
    """Solve the whole tree.

    The result depends on the plan, the public facts and the noisy answers only: one or many workers give equal bytes.

    Args:
        context: plan and public facts.
        answers: noisy answers of every query at every inhabited node.
        exact: exact node totals by level name.
        workers: processes, of which 1 is this one, or a cluster.
        tables: exact tables of the leaves other than totals, by query.
        backend: least-squares solver; all are checked alike (`backends/quadratic.py`).
        report: told after every subtree.

    Raises:
        InfeasibleError: a split has no solution; the node is named.
    """
    descent = Descent(context, answers, exact, backend, tables or {})
    leaves, tally = descend(descent, context, workers, report)
    out = solved(context, leaves, tally)
    out.document.update(said_of_estimates(descent))
    return out


def descend(
    descent: Walk, context: Context, workers: Place, report: Report, kept: Checkpoints | None = None
) -> tuple[PackedTable, Tally]:
    """Split from the root to the leaves, wherever workers are; returns the leaves as published.

    Above the cut a task is a node. Below it is a run of nodes, which is solved as a tree of its own. Leaves of a
    finished section are put away in few bytes.

    Args:
        descent: the solver. context: plan and public facts. workers, report: see `solve`.
        kept: where finished parts are kept, and found after a stop; None: nowhere.
    """
    with threadpool_limits(limits=1):  # one BLAS thread: the same sums in the same order everywhere
        descent.prepare()
        n_workers = size_of(workers)
        cutter = cutter_of(descent)
        with workers_with(cutter.opener, workers, lost_to(report)) as pool:
            top = kept.above() if kept is not None else None
            if top is None:
                cut, _ = cut_of(context.geography, n_workers)
                top = cut, _above(cutter, pool, cut, n_workers, report)
                if kept is not None:
                    kept.write_above(NodeSpan(cut, 0, len(context.geography.levels[cut])), top[1])
            descent.let_go()
            found = _below(cutter, pool, *top, n_workers, report, kept)
    n_leaves = len(context.geography.leaves)
    report(_done(context.geography, len(context.geography.levels) - 1))
    return PackedTable(n_leaves, context.plan.schema.n_cells, tuple(found)), top[1].tally


def _above(cutter: Cutter, pool: Workers[Opener], cut: int, workers: int, report: Report) -> SolvedPart:
    """Solve the root and everything above the cut."""
    geography, tally = cutter.walk.context.geography, Tally()
    nodes = [cutter.walk.root(tally)]
    cutter.walk.let_go()
    for depth in range(cut):
        below: list[Node] = []
        order, one_level = _large_first(nodes), cutter.one_level[depth]
        tasks = (_task(cutter, _alone(depth, n), [n], one_level=one_level) for n in order)
        found = pool.map(_split_if_leaves_do, tasks, AHEAD * workers, _named)
        for node, split in zip(order, found, strict=True):
            part, counted = split or _split(cutter.opener, _task(cutter, _alone(depth, node), [node]))
            below += part
            tally.merge(counted)
        nodes = sorted(below, key=lambda n: n.index)
        report(_done(geography, depth + 1))
    return SolvedPart(rows_of(nodes), tally)


def _below(
    cutter: Cutter,
    pool: Workers[Opener],
    cut: int,
    top: SolvedPart,
    workers: int,
    report: Report,
    kept: Checkpoints | None,
) -> list[PackedRows]:
    """Solve all sections that are not kept, add what is tallied to that of the top, and return the leaves of each."""
    geography = cutter.walk.context.geography
    run_leaves = cut_of(geography, workers)[1]
    sections = checkpoint_spans(geography, cut)
    parts = [None if kept is None else kept.section(i, span) for i, span in enumerate(sections)]
    due = [i for i, part in enumerate(parts) if part is None]
    runs = {i: list(runs_of(geography, sections[i], run_leaves, top.rows)) for i in due}
    n_done, n_runs = 0, sum(map(len, runs.values()))
    tasks = (_task(cutter, run.span, nodes_of(run.rows)) for i in due for run in runs[i])
    solved_runs = pool.map(_run, tasks, AHEAD * workers, _named)
    for i in due:
        leaves: list[PackedRows] = []
        tally = Tally()
        for run in islice(solved_runs, len(runs[i])):
            leaves.append(run.rows)
            tally.merge(run.tally)
            n_done += 1
            report(_done(geography, cut, n_done / n_runs))
        parts[i] = made = SolvedPart(end_to_end(leaves), tally)
        if kept is not None:
            kept.write_section(i, sections[i], made)
    found = [part for part in parts if part is not None]
    for part in found:
        top.tally.merge(part.tally)
    return [part.rows for part in found]


def _done(geography: Geography, depth: int, share: float = 0.0) -> Event:
    """Say that a level is solved, and a share of what is below."""
    sizes = [len(level) for level in geography.levels[1:]]
    done, total = sum(sizes[:depth]), sum(sizes)
    return Event(
        "solve", done + int((total - done) * share), total, geography.levels[-1 if share else depth].name
    )


def cut_of(geography: Geography, workers: int) -> tuple[int, int]:
    """Return where to cut, and how many leaves a run should have; the result of a solve does not depend on them.

    The cut is the highest level whose largest node has few leaves and that has a task for every worker several times;
    failing that, the level above the leaves.
    """
    last, tasks = len(geography.levels) - 1, TASKS_PER_WORKER * workers
    for depth in range(last):
        largest = int(np.diff(geography.first_leaves(depth)).max())
        if largest <= SOLVE_CUT_LEAVES and len(geography.levels[depth]) >= tasks:
            break
    else:
        depth = max(last - 1, 0)
    return depth, max(min(RUN_LEAVES, len(geography.leaves) // tasks), 1)


def solved(context: Context, leaves: PackedTable, tally: Tally) -> Solved:
    """Put the table and what was tallied together."""
    return Solved(leaves, tally.to_document(context.plan))


def numbers_of(descent: Walk) -> TreeNumbers | None:
    """Return whence the estimates of intervals come; None where the plan asks for none."""
    if descent.context.plan.coverage is None or not isinstance(descent, Descent):
        return None
    if isinstance(descent.statistics, TreeStatistics):
        return TreeNumbers(descent.statistics)
    return tree_numbers(descent.context, descent.answers, descent.exact, descent.tables)


def said_of_estimates(descent: Walk) -> dict[str, Any]:
    """Return what solve.json says of the tree estimate: nothing where the plan does not ask for it."""
    if not descent.context.plan.fits_tree:
        return {}
    if isinstance(descent, Descent):
        return {"statistics": descent.statistics.document()}
    return {"statistics": {"targets": choose(descent.context).document()}}


@dataclass(frozen=True, eq=False)
class _Task:
    """Nodes of a level to be solved.

    Args:
        name: first and last geocode of the run that they are of.
        part: the run with all above and below; None where workers hold the whole tree.
        depth: of the level. nodes: by the part's own numbers.
    """

    name: str
    part: Slice | None
    depth: int
    nodes: list[Node]


def _alone(depth: int, node: Node) -> NodeSpan:
    return NodeSpan(depth, node.index, node.index + 1)


def _task(cutter: Cutter, span: NodeSpan, nodes: list[Node], *, one_level: bool = False) -> _Task:
    codes = cutter.walk.context.geography.levels[span.depth].codes
    name = " to ".join(dict.fromkeys((codes[span.first], codes[span.last - 1])))
    part, firsts = cutter.cut(span.depth, span.first, span.last, one_level=one_level)
    return _Task(name, part, span.depth, moved(nodes, -firsts[span.depth]))


def _named(task: _Task) -> str:
    return task.name


def _large_first(nodes: list[Node]) -> list[Node]:
    """Return nodes of one level as they are solved; large ones start first so that no worker ends late."""
    return sorted(nodes, key=lambda n: (-int(n.counts.sum()), n.index))


def lost_to(report: Report) -> Lost:
    """Return what tells about lost workers in the way in which stages tell where they are."""
    return lambda text: report(Event("workers", 1, 1, text))


def _split(opener: Opener, task: _Task) -> tuple[list[Node], Tally]:
    """Split one node over its children."""
    tally = Tally()
    own, firsts = opener.open(task.part)
    return moved(own.children(task.depth, task.nodes[0], tally), firsts[task.depth + 1]), tally


def _split_if_leaves_do(opener: Opener, task: _Task) -> tuple[list[Node], Tally] | None:
    """Split one node over its children; None if its leaves are needed for that and were not sent."""
    try:
        return _split(opener, task)
    except LeavesMissingError:
        return None


def _run(opener: Opener, task: _Task) -> SolvedPart:
    """Solve everything below the nodes of a run."""
    tally = Tally()
    own, firsts = opener.open(task.part)
    return SolvedPart(rows_of(moved(own.below(task.depth, task.nodes, tally), firsts[-1])), tally)


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write solve.json; equal solves give equal bytes."""
    part = path.with_name(path.name + ".tmp")
    part.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)
