"""The solve stage: measurements in, leaf table out. Needs no confidential file and no luck.

What a release folder holds decides the result to the last byte; what a solve was made from and what came out are told
as two SHA-256 (docs/format.md, solve.json).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from msgspec import UNSET, structs
from threadpoolctl import threadpool_limits

from topdown import __version__
from topdown.arrays import Ints
from topdown.file_names import file_sha256
from topdown.formats import json_bytes
from topdown.formats.release_documents import Solve, TreeEstimate
from topdown.model import Geography, LeafTable, PackedRows, PackedTable
from topdown.plan import Plan, PublicContext
from topdown.plan.plan_values import MEASURED_PLAN
from topdown.plan.release_chain import BaseFiles
from topdown.progress import Event, Report, silent
from topdown.solve import extend, tree
from topdown.solve.noisy_answers import AnswersInMemory, ListedAnswers, MeasurementReader
from topdown.solve.objectives import OwnStatistics
from topdown.solve.release_facts import exact_tables, exact_totals, facts_of_release
from topdown.solve.slices import TreePartitioner, WorkerState, make_partitioner
from topdown.solve.solved_parts import (
    Checkpoints,
    Node,
    NodeSpan,
    SolvedPart,
    Tally,
    checkpoint_spans,
    concatenate_rows,
    node_runs,
    pack_nodes,
    renumbered,
    unpack_nodes,
)
from topdown.solve.table_changes import SoftRuleRepair
from topdown.solve.top_down import LeavesMissingError, TopDownSolver, make_top_down_solver
from topdown.solve.tree import TreeStatistics, choose_levels, exact_at_root
from topdown.solve.tree_solver import TreeSolver
from topdown.workers import Executor, ReportLoss, Workers, executor_size, workers_with

OF_EVERY_RELEASE = (
    "plan.json",
    "public/geography.parquet",
    "public/leaves.parquet",
    "measurements/exact.json",
)


def inputs_sha256(release: Path, plan: Plan) -> str:
    """Return the digest of all files that a solve reads: the SHA-256 of what sha256sum prints for them, by path.

    Args:
        release: folder with plan, public facts, measurements, the copies of a base release if there is one, and the
            plan that was measured if it is another.
    """
    paths = [release / path for path in OF_EVERY_RELEASE]
    paths += BaseFiles.of_extension(release).copies.values() if plan.base is not None else []
    paths += [release / MEASURED_PLAN] if plan.measured is not None else []
    for level in plan.levels:
        paths += (release / "measurements" / level.name).glob("part-*.parquet")
    lines = sorted((path.relative_to(release).as_posix(), file_sha256(path)) for path in paths)
    return hashlib.sha256("".join(f"{digest}  {path}\n" for path, digest in lines).encode()).hexdigest()


def records_sha256(leaves: LeafTable) -> str:
    """Return the digest of the records of every leaf and cell, whatever file holds them.

    That is the SHA-256 of the line `records N`, where N counts entries, and of the numbers of their leaves, of their
    cells and their counts, each as little-endian int64, in order of leaf and cell.
    """
    digest = hashlib.sha256(f"records {leaves.n_entries}\n".encode())
    for column in ("node", "cell", "count"):
        for piece in leaves.pieces():
            digest.update(np.ascontiguousarray(getattr(piece, column), dtype="<i8").data)
    return digest.hexdigest()


TASKS_PER_WORKER = 8  # runs, at least, where the tree has so many


SOLVE_CUT_LEAVES = 4_096  # of the largest node of the level below which runs are solved, at most


RUN_LEAVES = 4_096  # of a run, at most about: less than a second of 2,016 cells


AHEAD = 3  # tasks a worker that are under way or wait


@dataclass(frozen=True, eq=False)
class Solved:
    """The leaf table, the `topdown.solve` document, and whence estimates come where the plan asks for intervals."""

    leaves: PackedTable
    document: Solve
    numbers: tree.TreeEstimates | None = None


def solve_tree(
    solver: TreeSolver,
    context: PublicContext,
    workers: Executor,
    report: Report,
    kept: Checkpoints | None = None,
) -> tuple[PackedTable, Tally]:
    """Split from the root to the leaves, wherever workers are; returns the leaves as published.

    Above the cut a task is a node. Below it is a run of nodes, which is solved as a tree of its own. Leaves of a
    finished section are put away in few bytes.

    Args:
        solver: the solver. context: plan and public facts. workers: processes, of which 1 is this one, or a cluster.
        report: told after every subtree.
        kept: where finished parts are kept, and found after a stop; None: nowhere.
    """
    with threadpool_limits(limits=1):  # one BLAS thread: the same sums in the same order everywhere
        n_workers = executor_size(workers)
        partitioner = make_partitioner(solver)
        with workers_with(partitioner.state, workers, report_lost_workers(report)) as pool:
            stored = kept.above() if kept is not None else None
            if stored is not None:
                cut, above = stored
            else:
                cut, _ = choose_cut(context.geography, n_workers)
                above = _solve_above(partitioner, pool, cut, n_workers, report)
                if kept is not None:
                    kept.write_above(NodeSpan(cut, 0, len(context.geography.levels[cut])), above)
            found = _solve_below(partitioner, pool, cut, above, n_workers, report, kept)
    n_leaves = len(context.geography.leaves)
    report(_progress(context.geography, len(context.geography.levels) - 1))
    return PackedTable(n_leaves, context.plan.schema.n_cells, tuple(found)), above.tally


def _solve_above(
    partitioner: TreePartitioner, pool: Workers[WorkerState], cut: int, workers: int, report: Report
) -> SolvedPart:
    """Solve the root and everything above the cut."""
    geography, tally = partitioner.solver.context.geography, Tally()
    nodes = [partitioner.solver.root(tally)]
    for depth in range(cut):
        below: list[Node] = []
        order, one_level = _large_first(nodes), partitioner.one_level[depth]
        tasks = (_make_task(partitioner, _single_node(depth, n), [n], one_level=one_level) for n in order)
        found = pool.map(_split_without_leaves, tasks, AHEAD * workers, _task_name)
        for node, split in zip(order, found, strict=True):
            part, counted = split or _split_node(
                partitioner.state, _make_task(partitioner, _single_node(depth, node), [node])
            )
            below += part
            tally.merge(counted)
        nodes = sorted(below, key=lambda n: n.index)
        report(_progress(geography, depth + 1))
    return SolvedPart(pack_nodes(nodes), tally)


def _solve_below(
    partitioner: TreePartitioner,
    pool: Workers[WorkerState],
    cut: int,
    top: SolvedPart,
    workers: int,
    report: Report,
    kept: Checkpoints | None,
) -> list[PackedRows]:
    """Solve all sections that are not kept, add what is tallied to that of the top, and return the leaves of each."""
    geography = partitioner.solver.context.geography
    run_leaves = choose_cut(geography, workers)[1]
    sections = checkpoint_spans(geography, cut)
    parts = [None if kept is None else kept.section(i, span) for i, span in enumerate(sections)]
    due = [i for i, part in enumerate(parts) if part is None]
    runs = {i: list(node_runs(geography, sections[i], run_leaves, top.rows)) for i in due}
    n_done, n_runs = 0, sum(map(len, runs.values()))
    tasks = (_make_task(partitioner, run.span, unpack_nodes(run.rows)) for i in due for run in runs[i])
    solved_runs = pool.map(_solve_run, tasks, AHEAD * workers, _task_name)
    for i in due:
        leaves: list[PackedRows] = []
        tally = Tally()
        for run in islice(solved_runs, len(runs[i])):
            leaves.append(run.rows)
            tally.merge(run.tally)
            n_done += 1
            report(_progress(geography, cut, n_done / n_runs))
        parts[i] = made = SolvedPart(concatenate_rows(leaves), tally)
        if kept is not None:
            kept.write_section(i, sections[i], made)
    found = [part for part in parts if part is not None]
    for part in found:
        top.tally.merge(part.tally)
    return [part.rows for part in found]


def _progress(geography: Geography, depth: int, share: float = 0.0) -> Event:
    """Say that a level is solved, and a share of what is below."""
    sizes = [len(level) for level in geography.levels[1:]]
    done, total = sum(sizes[:depth]), sum(sizes)
    return Event(
        "solve", done + int((total - done) * share), total, geography.levels[-1 if share else depth].name
    )


def choose_cut(geography: Geography, workers: int) -> tuple[int, int]:
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


def solve_document(solver: TreeSolver, tally: Tally) -> Solve:
    """Return what solve.json says of how a release was solved."""
    plan = solver.context.plan
    return structs.replace(
        tally.to_document(plan),
        staged=UNSET if plan.base is None else True,
        statistics=_estimates_document(solver) if plan.fits_tree else UNSET,
    )


def _estimates_document(solver: TreeSolver) -> TreeEstimate:
    """Return what solve.json says of the tree estimate."""
    said = solver.statistics.document() if isinstance(solver, TopDownSolver) else None
    return said or TreeEstimate(targets=list(choose_levels(solver.context).levels))


def interval_estimates(solver: TreeSolver) -> tree.TreeEstimates | None:
    """Return whence the estimates of intervals come; None where the plan asks for none."""
    if solver.context.plan.coverage is None or not isinstance(solver, TopDownSolver):
        return None
    if isinstance(solver.statistics, TreeStatistics):
        return tree.TreeEstimates(solver.statistics)
    return tree.tree_estimates(solver.context, solver.answers, solver.at_root)


def release_estimates(release: Path, context: PublicContext) -> tree.TreeEstimates:
    """Return whence the estimates of a finished release come.

    Raises:
        CertificateError: V020 measurements or exact statistics are missing, altered or of another plan.
        ConfigError: C211 the plan has no lattice form.
    """
    reader = MeasurementReader(release, context)
    values = reader.exact()
    totals, tables = exact_totals(context, values), exact_tables(context, values)
    return tree.tree_estimates(context, reader, exact_at_root(context.plan, totals, tables))


@dataclass(frozen=True, eq=False)
class _SolveTask:
    """Nodes of a level to be solved.

    Args:
        name: first and last geocode of the run that they are of.
        part: the run with all above and below, as the partitioner cut it.
        depth: of the level. nodes: by the part's own numbers.
    """

    name: str
    part: Any
    depth: int
    nodes: list[Node]


def _single_node(depth: int, node: Node) -> NodeSpan:
    return NodeSpan(depth, node.index, node.index + 1)


def _make_task(
    partitioner: TreePartitioner, span: NodeSpan, nodes: list[Node], *, one_level: bool = False
) -> _SolveTask:
    codes = partitioner.solver.context.geography.levels[span.depth].codes
    name = " to ".join(dict.fromkeys((codes[span.first], codes[span.last - 1])))
    part, firsts = partitioner.cut(span.depth, span.first, span.last, one_level=one_level)
    return _SolveTask(name, part, span.depth, renumbered(nodes, -firsts[span.depth]))


def _task_name(task: _SolveTask) -> str:
    return task.name


def _large_first(nodes: list[Node]) -> list[Node]:
    """Return nodes of one level as they are solved; large ones start first so that no worker ends late."""
    return sorted(nodes, key=lambda n: (-int(n.counts.sum()), n.index))


def report_lost_workers(report: Report) -> ReportLoss:
    """Return what tells about lost workers in the way in which stages tell where they are."""
    return lambda text: report(Event("workers", 1, 1, text))


def _split_node(opener: WorkerState, task: _SolveTask) -> tuple[list[Node], Tally]:
    """Split one node over its children."""
    tally = Tally()
    own, firsts = opener.open(task.part)
    return renumbered(own.children(task.depth, task.nodes[0], tally), firsts[task.depth + 1]), tally


def _split_without_leaves(opener: WorkerState, task: _SolveTask) -> tuple[list[Node], Tally] | None:
    """Split one node over its children; None if its leaves are needed for that and were not sent."""
    try:
        return _split_node(opener, task)
    except LeavesMissingError:
        return None


def _solve_run(opener: WorkerState, task: _SolveTask) -> SolvedPart:
    """Solve everything below the nodes of a run."""
    tally = Tally()
    own, firsts = opener.open(task.part)
    return SolvedPart(pack_nodes(own.below(task.depth, task.nodes, tally), firsts[-1]), tally)


def write_document(path: Path, document: Solve) -> None:
    """Write solve.json; equal solves give equal bytes."""
    part = path.with_name(path.name + ".tmp")
    part.write_bytes(json_bytes(document))
    part.replace(path)


MOST_KEPT = 2**26
"""Noisy answers, two bytes each, that a process keeps for the tree estimate, which asks for them several times."""


def open_release(release: Path, context: PublicContext) -> TreeSolver:
    """Return the solver of a release, plain or extension, that reads its measurements.

    Raises:
        CertificateError: V020 measurements or exact statistics are missing, altered or of another plan.
        InfeasibleError: I020 the base table has no extension at some leaf.
    """
    if context.plan.base is not None:
        answers = ListedAnswers(release, context)
        return extend.make_extension_solver(context, answers, extend.find_patterns(context))
    plan = context.plan
    n_numbers = sum(level.n_measured * level.answers_per_node for level in plan.levels)
    again = (plan.fits_tree or plan.coverage is not None) and n_numbers <= MOST_KEPT
    reader = MeasurementReader(release, context, None) if again else MeasurementReader(release, context)
    values = reader.exact()
    tables = exact_tables(context, values)
    return make_top_down_solver(context, reader, exact_totals(context, values), tables=tables)


def try_exact_statistics(context: PublicContext, values: dict[str, Ints]) -> None:
    """Set up the solve with the exact statistics that will be published anyway; solve the top node if a table is exact.

    A census may be one that no made-up people stand for, such as one of nobody: what fails for it is to fail before
    the charge. An answer of 0 stands for every noisy one, so nothing else of the records is in what may be raised.

    Args:
        context: plan and public facts; not of an extension, which has no exact statistics of its own.
        values: (n_nodes, n_answers) of every exact statistic, by its name.

    Raises:
        InfeasibleError: exact statistics contradict each other or the public facts; the node is named.

    Cost: Rhode Island 0.2 CPU seconds; with an exact table those of the top node once more.
    """
    totals, tables = exact_totals(context, values), exact_tables(context, values)
    facts = facts_of_release(context, totals, tables)
    if not tables:
        return
    nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in context.inhabited)
    zero = np.zeros(1, dtype=np.int32)
    answers = AnswersInMemory(
        nodes,
        tuple(
            np.broadcast_to(zero, (len(here), level.answers_per_node))
            for here, level in zip(nodes, context.plan.levels, strict=True)
        ),
    )
    at_root = exact_at_root(context.plan, totals, tables)
    repair = SoftRuleRepair.of_release(context)
    TopDownSolver(context, repair, facts, OwnStatistics(answers), answers, at_root).root(Tally())


def solve_folder(
    release: Path,
    context: PublicContext,
    *,
    solver: TreeSolver | None = None,
    work: Path | None = None,
    workers: Executor = 1,
    report: Report = silent,
) -> Solved:
    """Solve a measured release; its document names what it was made from and what came out.

    Writes nothing but finished parts to `work`, and goes on from those that lie there.

    Args:
        release: folder with plan, public facts and measurements. context: of that plan.
        solver: from `open_release`, if it is there already.
        work: folder of finished parts (`Checkpoints`); None: nothing is kept.
        workers, report: see `solve_tree`.
    """
    solver = solver or open_release(release, context)
    inputs = inputs_sha256(release, context.plan)
    kept = None if work is None else Checkpoints(work, solve_inputs(context.plan.plan_hash, inputs))
    leaves, tally = solve_tree(solver, context, workers, report, kept)
    document = structs.replace(
        solve_document(solver, tally), inputs_sha256=inputs, records_sha256=records_sha256(leaves)
    )
    return Solved(leaves, document, interval_estimates(solver))


def solve_inputs(plan_hash: str, inputs: str) -> dict[str, str]:
    """Return what decides a solve to the last byte on one machine: what it reads, and the programs that compute."""
    programs = f"topdown {__version__}, numpy {np.__version__}, scipy {scipy.__version__}"
    return {"plan_hash": plan_hash, "inputs_sha256": inputs, "programs": programs}
