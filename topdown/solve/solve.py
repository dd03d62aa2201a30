"""The solve stage: measurements in, leaf table out. Needs no confidential file and no luck."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context
from topdown.progress import Event, Report, silent
from topdown.solve.descend import Descent
from topdown.solve.node import Node
from topdown.solve.problem import Ints
from topdown.solve.tally import Tally
from topdown.solve.targets import Targets

TASKS_PER_WORKER = 8


@dataclass(frozen=True, eq=False)
class Solved:
    """The leaf table and the `topdown.solve` document."""

    leaves: Histogram
    document: dict[str, Any]


class AnyDescent(Protocol):
    """What can be descended: plain or extension."""

    def prepare(self) -> None:
        """Make everything that forked workers should inherit."""

    def root(self, tally: Tally) -> Node:
        """Solve the top node."""

    def children(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node."""

    def subtree(self, depth: int, node: Node, tally: Tally) -> list[Node]:
        """Solve everything below one node."""

    def finish(self, leaf: Node, tally: Tally) -> Node:
        """Return a leaf as it is published."""


_descent: AnyDescent | None = None  # inherited by forked workers, so that tasks stay small


def solve(
    context: Context,
    targets: Targets,
    exact: dict[str, Ints],
    *,
    workers: int = 1,
    backend: str = "admm",
    tables: dict[str, Ints] | None = None,
    report: Report = silent,
) -> Solved:
    """Solve the whole tree.

    The result depends on the plan, the public facts and the targets only: one or many workers give equal bytes.

    Args:
        context: plan and public facts.
        targets: answers of every query at every inhabited node.
        exact: exact node totals by level name.
        workers: processes; 1 solves in this one.
        tables: exact tables of the leaves other than totals, by query.
        backend: least-squares solver; all are checked alike (`backends/quadratic.py`).
        report: told after every subtree.

    Raises:
        InfeasibleError: a split has no solution; the node is named.
    """
    descent = Descent(context, targets, exact, backend, tables or {})
    leaves, tally = descend(descent, context, workers, report)
    return solved(context, leaves, tally)


def descend(descent: AnyDescent, context: Context, workers: int, report: Report) -> tuple[list[Node], Tally]:
    """Split from the root to the leaves, in this process or several; returns the leaves with records."""
    global _descent
    tally = Tally()
    geography = context.geography
    _descent = descent
    with threadpool_limits(limits=1):  # one BLAS thread: the same sums in the same order everywhere
        _descent.prepare()
        nodes = [_descent.root(tally)]
        last = len(geography.levels) - 1
        cut = next(
            (i for i in range(last) if len(geography.levels[i]) >= TASKS_PER_WORKER * workers),
            max(last - 1, 0),
        )
        total = sum(len(level) for level in geography.levels[1:])
        done = 0
        with _Pool(workers) as pool:
            for depth in range(cut):
                nodes = sorted(pool.run(_split, [(depth, n) for n in nodes], tally), key=lambda n: n.index)
                done += len(geography.levels[depth + 1])
                report(Event("solve", done, total, geography.levels[depth + 1].name))
            leaves: list[Node] = []
            if last == 0:
                leaves = [_descent.finish(node, tally) for node in nodes]
            else:
                n_tasks = len(nodes)
                for i, part in enumerate(pool.stream(_subtree, [(cut, n) for n in nodes], tally), start=1):
                    leaves += part
                    report(Event("solve", done + (total - done) * i // n_tasks, total, geography.leaves.name))
    _descent = None
    report(Event("solve", total, total, geography.leaves.name))
    return leaves, tally


def solved(context: Context, leaves: list[Node], tally: Tally) -> Solved:
    """Put leaves and tallies together."""
    node = np.concatenate(
        [np.full(len(n.cells), n.index, dtype=np.int64) for n in leaves] or [np.zeros(0, np.int64)]
    )
    cell = np.concatenate([n.cells for n in leaves] or [np.zeros(0, np.int64)])
    count = np.concatenate([n.counts for n in leaves] or [np.zeros(0, np.int64)])
    table = Histogram.build(len(context.geography.leaves), context.plan.schema.n_cells, node, cell, count)
    return Solved(table, tally.to_document(context.plan))


Task = tuple[int, Node]


def _split(task: Task) -> tuple[list[Node], Tally]:
    tally = Tally()
    if _descent is None:
        raise RuntimeError("no descent in this process")
    return _descent.children(*task, tally), tally


def _subtree(task: Task) -> tuple[list[Node], Tally]:
    tally = Tally()
    if _descent is None:
        raise RuntimeError("no descent in this process")
    return [_descent.finish(leaf, tally) for leaf in _descent.subtree(*task, tally)], tally


class _Pool:
    """Run tasks here or in forked workers; results may come in any order, the caller sorts."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.pool: Any = None

    def __enter__(self) -> _Pool:
        if self.workers > 1:
            self.pool = multiprocessing.get_context("fork").Pool(self.workers, initializer=_start_worker)
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.terminate()
            self.pool.join()

    def stream(self, work: Any, tasks: list[Task], tally: Tally) -> Iterator[list[Node]]:
        """Yield each task's nodes; large tasks start first so that no worker ends late."""
        tasks = sorted(tasks, key=lambda t: (-int(t[1].counts.sum()), t[1].index))
        results = map(work, tasks) if self.pool is None else self.pool.imap_unordered(work, tasks)
        for nodes, part in results:
            tally.merge(part)
            yield nodes

    def run(self, work: Any, tasks: list[Task], tally: Tally) -> list[Node]:
        """Run all tasks and return their nodes in any order."""
        return [node for nodes in self.stream(work, tasks, tally) for node in nodes]


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threadpool_limits(limits=1)


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write solve.json; equal solves give equal bytes."""
    part = path.with_name(path.name + ".tmp")
    part.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(path)
