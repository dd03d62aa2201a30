"""The solve stage: measurements in, leaf table out. Needs no confidential file and no luck."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from topdown.model.geography import Geography
from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context
from topdown.progress import Event, Report, silent
from topdown.solve.answers import NoisyAnswers
from topdown.solve.descend import Descent
from topdown.solve.groups import Ints
from topdown.solve.node import Node
from topdown.solve.tally import Tally
from topdown.solve.tree.covered import choose
from topdown.solve.tree.numbers import TreeNumbers, tree_numbers
from topdown.solve.tree.statistics import TreeStatistics
from topdown.solve.walk import Walk
from topdown.workers import workers_with

TASKS_PER_WORKER = 8  # runs, at least, where the tree has so many
CUT_LEAVES = 4_096  # of the largest node of the level below which runs are solved, at most
RUN_LEAVES = 4_096  # of a run, at most about: less than a second of 2,016 cells
RUNS_AHEAD = 3  # runs a worker that are under way or wait


@dataclass(frozen=True, eq=False)
class Solved:
    """The leaf table, the `topdown.solve` document, and whence estimates come where the plan asks for intervals."""

    leaves: Histogram
    document: dict[str, Any]
    numbers: TreeNumbers | None = None


def solve(
    context: Context,
    answers: NoisyAnswers,
    exact: dict[str, Ints],
    *,
    workers: int = 1,
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
        workers: processes; 1 solves in this one.
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


def descend(descent: Walk, context: Context, workers: int, report: Report) -> tuple[list[Node], Tally]:
    """Split from the root to the leaves, in this process or several; returns the leaves with records.

    Above the cut a task is a node. Below it is a run of nodes, which is solved as a tree of its own.
    """
    tally = Tally()
    geography = context.geography
    with threadpool_limits(limits=1):  # one BLAS thread: the same sums in the same order everywhere
        descent.prepare()
        nodes = [descent.root(tally)]
        cut, run_leaves = cut_of(geography, workers)
        total, done = sum(len(level) for level in geography.levels[1:]), 0
        with workers_with(descent, workers) as pool:
            for depth in range(cut):
                below: list[Node] = []
                for part, counted in pool.map(_split, _large_first(depth, nodes)):
                    below += part
                    tally.merge(counted)
                nodes = sorted(below, key=lambda n: n.index)
                done += len(geography.levels[depth + 1])
                report(Event("solve", done, total, geography.levels[depth + 1].name))
            leaves: list[Node] = []
            runs = _runs(geography, cut, run_leaves, nodes)
            for i, (part, counted) in enumerate(pool.map(_run, runs, most=RUNS_AHEAD * workers), start=1):
                leaves += part
                tally.merge(counted)
                report(Event("solve", done + (total - done) * i // len(runs), total, geography.leaves.name))
    report(Event("solve", total, total, geography.leaves.name))
    return leaves, tally


def cut_of(geography: Geography, workers: int) -> tuple[int, int]:
    """Return where to cut, and how many leaves a run should have; the result of a solve does not depend on them.

    The cut is the highest level whose largest node has few leaves and that has a task for every worker several times;
    failing that, the level above the leaves.
    """
    last, tasks = len(geography.levels) - 1, TASKS_PER_WORKER * workers
    for depth in range(last):
        largest = int(np.diff(geography.first_leaves(depth)).max())
        if largest <= CUT_LEAVES and len(geography.levels[depth]) >= tasks:
            break
    else:
        depth = max(last - 1, 0)
    return depth, max(min(RUN_LEAVES, len(geography.leaves) // tasks), 1)


def solved(context: Context, leaves: list[Node], tally: Tally) -> Solved:
    """Put leaves and tallies together."""
    node = np.concatenate(
        [np.full(len(n.cells), n.index, dtype=np.int64) for n in leaves] or [np.zeros(0, np.int64)]
    )
    cell = np.concatenate([n.cells for n in leaves] or [np.zeros(0, np.int64)])
    count = np.concatenate([n.counts for n in leaves] or [np.zeros(0, np.int64)])
    table = Histogram.build(len(context.geography.leaves), context.plan.schema.n_cells, node, cell, count)
    return Solved(table, tally.to_document(context.plan))


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


def _large_first(depth: int, nodes: list[Node]) -> list[tuple[int, Node]]:
    """Return the tasks of one level; large ones start first so that no worker ends late."""
    return [(depth, n) for n in sorted(nodes, key=lambda n: (-int(n.counts.sum()), n.index))]


def _split(descent: Walk, task: tuple[int, Node]) -> tuple[list[Node], Tally]:
    tally = Tally()
    return descent.children(*task, tally), tally


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes first..last-1 of the cut, of which `nodes` have records."""

    cut: int
    first: int
    last: int
    nodes: list[Node]


def _runs(geography: Geography, cut: int, run_leaves: int, nodes: list[Node]) -> list[_Nodes]:
    """Return the runs of nodes with records, in order; each ends where it has so many leaves or more."""
    index = np.array([node.index for node in nodes], dtype=np.int64)
    found = []
    for first, last in geography.stretches(cut, run_leaves):
        p, q = np.searchsorted(index, (first, last)).tolist()
        if q > p:
            found.append(_Nodes(cut, first, last, nodes[p:q]))
    return found


def _run(descent: Walk, run: _Nodes) -> tuple[list[Node], Tally]:
    tally = Tally()
    own, firsts = descent.part(run.cut, run.first, run.last)
    inside = [replace(node, index=node.index - firsts[run.cut]) for node in run.nodes]
    leaves = own.below(run.cut, inside, tally)
    return [replace(leaf, index=leaf.index + firsts[-1]) for leaf in leaves], tally


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write solve.json; equal solves give equal bytes."""
    part = path.with_name(path.name + ".tmp")
    part.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)
