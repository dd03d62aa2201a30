"""Many releases that might have been: real laws of noise, seeded bits, one plan, one truth, nothing charged.

The truth is made-up or public records, shown to be so before a row is read. What is left on the disk are errors, and
microdata that cannot be taken for a release's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown import __version__
from topdown.arrays import Ints
from topdown.errors import ConfigError, quoted
from topdown.file_names import file_sha256
from topdown.formats.accuracy_documents import LevelError, QueryError, SimulationErrors, SizeError, Truth
from topdown.formats.report_parts import SIZES
from topdown.inputs import MemoryTable
from topdown.made_up import (
    SIMULATION,
    STAMP,
    Origin,
    check_reason,
    origin_of,
    refuse_simulation,
)
from topdown.measure import (
    PLAIN_FORM,
    RecordsForm,
    level_drawer,
    load_records,
    plan_parts,
    records_form,
    subtract_truth,
)
from topdown.measure import Truth as truth_Truth
from topdown.measure.draw import PartPlan
from topdown.model import Histogram, Query, parse_query
from topdown.model.sections import files_at
from topdown.plan import PreparedRun, PublicContext, read_plan
from topdown.privacy import SimulationBits
from topdown.progress import Event, Report, silent
from topdown.publish.release_files import table_of_plan, write_bytes
from topdown.publish.release_tables import PERSONS, microdata_table
from topdown.solve import (
    AnswersInMemory,
    Tally,
    TopDownSolver,
    exact_tables,
    exact_totals,
    make_top_down_solver,
    records_sha256,
    solve_tree,
)
from topdown.verify.run_checks import verify
from topdown.workers import workers_with


def open_truth(
    path: Path | MemoryTable, context: PublicContext, reason: str = "", form: RecordsForm = PLAIN_FORM
) -> tuple[Origin, truth_Truth]:
    """Read the records a simulation takes for true: see `topdown.simulate`.

    Args:
        reason: why the table is public; needed where it is neither marked nor a release.
        form: columns of a table; those of a release are known.

    Returns: where they come from, without a digest if they are in memory, and the records.
    """
    table, parts = path, list[Path]()
    if isinstance(path, MemoryTable):
        if not check_reason(reason):
            raise ConfigError(
                "records given as a data frame carry no mark that they are made up; noise that is not charged is "
                "drawn on made-up or public records only",
                code="C121",
                fix="say where they come from: truth_is_public=REASON, or give the marked file; nothing was drawn",
            )
        origin = Origin("public", "data frame", "", check_reason(reason))
    elif path.is_dir():
        origin, table, form = _release_origin(path, reason), path / PERSONS, PLAIN_FORM
        parts = [part for part in files_at(table) if pq.read_metadata(part).num_rows]
    else:
        origin = origin_of(path, reason)
    truth = truth_Truth(context, load_records(table, context, form, list_errors=False, parts=parts))
    found = truth.contradiction()
    if found is not None:
        raise found.error()
    return origin, truth


def _release_origin(folder: Path, reason: str) -> Origin:
    reason = check_reason(reason)
    refuse_simulation(folder)
    checks = verify(folder)
    if not checks.ok:
        raise ConfigError(
            f"{folder} is no release that passes its verification ({checks.failed})",
            code="C121",
            file=str(folder),
            fix=f"see: topdown verify {quoted(folder)}; simulate on a published release or on made-up records; "
            "nothing was drawn",
        )
    name = read_plan(folder / "plan.json").release.id
    return Origin("release", name, file_sha256(folder / "manifest.json"), reason)


DEFAULT_SEED = 1
WAITING_PER_WORKER = 2  # finished replicates kept until they are asked for


def check_replicates(replicates: int, workers: int) -> None:
    """Refuse fewer than one replicate or worker (ConfigError C005)."""
    if replicates < 1 or workers < 1:
        raise ConfigError(
            f"cannot make {replicates} replicates with {workers} workers", code="C005", fix="give 1 or more"
        )


@dataclass(frozen=True, eq=False)
class Replicate:
    """One release that might have been.

    Args:
        number: 0, 1, ...; with the seed it decides the noise.
        leaves: records of every leaf and cell.
        noisy: per level, int32 (inhabited nodes, answers_per_node), queries of the plan side by side.
        tally: how its splits were solved, and the nodes that needed the failsafe.
    """

    number: int
    leaves: Histogram
    noisy: tuple[NDArray[np.int32], ...]
    tally: Tally

    def __repr__(self) -> str:
        return f"Replicate({self.number}, NOT-A-RELEASE, {self.leaves.n_records:,} records)"


@dataclass(frozen=True, eq=False)
class Simulation:
    """A plan and a truth with everything that replicates share; see `open_simulation`.

    Args:
        origin: why its truth may be simulated on.
        seed: of all replicates.
        truth: true counts of every level, root first.
        parts: how the levels are cut; each part has bits of its own.
        solver: the solver, set up once.
    """

    context: PublicContext
    origin: Origin
    seed: int
    truth: tuple[Histogram, ...]
    parts: tuple[PartPlan, ...]
    solver: TopDownSolver

    def run(self, replicates: int, *, workers: int = 1, report: Report = silent) -> Iterator[Replicate]:
        """Yield replicates 0 to `replicates` - 1 in order; the same ones with any number of workers.

        Args:
            workers: processes; several make a replicate each.
            report: told where the solve of a replicate is that is made in this process, and about once a second while
                others are waited for.

        Raises:
            ConfigError: C005 fewer than one replicate or worker.
        """
        check_replicates(replicates, workers)
        if min(workers, replicates) > 1:
            return _in_parallel(self, replicates, min(workers, replicates), report)
        return (
            self.replicate(number, workers=workers, report=_within_replicate(report, number, replicates))
            for number in range(replicates)
        )

    def replicate(self, number: int, *, workers: int = 1, report: Report = silent) -> Replicate:
        """Return one replicate; its noise depends on seed, number, level and part only."""
        report(Event("draw", 0, 1))
        noisy = self._draw(number)
        nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in self.context.inhabited)
        solver = self.solver.again(AnswersInMemory(nodes, noisy))
        leaves, tally = solve_tree(solver, self.context, workers, report)
        return Replicate(number, leaves.whole(), noisy, tally)

    def _draw(self, number: int) -> tuple[NDArray[np.int32], ...]:
        out = []
        for depth, plans in groupby(self.parts, lambda plan: plan.depth):
            width = self.context.plan.levels[depth].answers_per_node
            drawn = [self._part(number, plan).reshape(-1, width) for plan in plans]
            out.append(drawn[0] if len(drawn) == 1 else np.concatenate(drawn))
        return tuple(out)

    def _part(self, number: int, plan: PartPlan) -> NDArray[np.int32]:
        bits = SimulationBits(self.seed, ("replicate", number, plan.part.level, plan.part.name))
        return level_drawer(self.context, plan.depth, self.truth[plan.depth], bits).draw(plan.nodes).answers


def open_simulation(
    plan: PreparedRun | PublicContext,
    truth: Path | MemoryTable,
    *,
    seed: int = DEFAULT_SEED,
    truth_is_public: str = "",
) -> Simulation:
    """Return what draws the noise of a plan on made-up or public records and solves, as often as it is asked.

    Guarantees: nothing confidential is opened and nothing charged, because the truth is shown to be made up or
    public first; nothing is written. Arguments and errors as `topdown.simulate`.

    Args:
        plan: of a run, whose records it is said how to read; or as read from the folder of a release.
        truth: as in `topdown.simulate`; that folder for its released records.

    Cost: the set-up; then the draws and the solve of one release a replicate.
    """
    if isinstance(plan, PublicContext):
        context, form = plan, PLAIN_FORM
    else:
        context, form = plan.context, records_form(plan.run)
    if context.support is not None:
        raise ConfigError(
            "a plan that extends a release cannot be simulated yet",
            code="C097",
            fix="simulate the plan of its base release",
        )
    SimulationBits(seed)  # refuses what is no seed before anything is read
    origin, read = open_truth(truth, context, truth_is_public, form)
    leaves = read.leaves.whole()
    if isinstance(truth, MemoryTable):  # no file to name it by
        origin = replace(origin, sha256=records_sha256(leaves))
    totals, tables = exact_totals(context, read.exact), exact_tables(context, read.exact)
    parts = plan_parts(context)
    return Simulation(
        context,
        origin,
        seed,
        leaves.at_every_level(context.geography),
        parts,
        make_top_down_solver(context, AnswersInMemory((), ()), totals, tables=tables),
    )


def _within_replicate(report: Report, number: int, replicates: int) -> Report:
    """Return what tells of the stages of a replicate as a part of all."""
    return lambda event: report(
        Event("simulate", number, replicates, f"replicate {number + 1}, {event.stage} {event.text}".rstrip())
    )


def _in_parallel(
    simulation: Simulation, replicates: int, workers: int, report: Report
) -> Iterator[Replicate]:
    done = 0

    def still_waiting() -> None:
        report(Event("simulate", done, replicates, "replicates"))

    with workers_with(simulation, workers, still_waiting=still_waiting) as pool:
        for replicate in pool.map(Simulation.replicate, range(replicates), WAITING_PER_WORKER * workers):
            done = replicate.number + 1
            yield replicate


class ErrorSums:
    """Add up errors of replicates, in whole records: exact, so that order does not matter.

    Args:
        simulation: plan and truth.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._true: dict[tuple[int, str], Histogram] = {}
        self._queries: list[tuple[Query, ...]] = []
        self._sums: dict[tuple[int, str], list[tuple[int, int]]] = {}
        self._areas = [_AreasOfSize(counts.totals()) for counts in simulation.truth]
        plan = simulation.context.plan
        for depth, level in enumerate(plan.levels):
            names = dict.fromkeys(["total", *(m.query for m in level.measurements)])
            self._queries.append(tuple(parse_query(plan.schema, name) for name in names))
            for query in self._queries[depth]:
                self._true[depth, query.name] = simulation.truth[depth].sparse_answers(query)
                self._sums[depth, query.name] = []

    def add(self, replicate: Replicate) -> None:
        """Count one replicate."""
        tree = self._simulation.context.geography.levels
        released = replicate.leaves
        for depth in range(len(tree) - 1, -1, -1):
            for query in self._queries[depth]:
                gap = subtract_truth(released.sparse_answers(query), self._true[depth, query.name])
                self._sums[depth, query.name].append((int(abs(gap.count).sum()), int(gap.count.sum())))
            self._areas[depth].add(released.totals())
            if depth:
                released = released.aggregate(tree[depth].parent, len(tree[depth - 1]))

    def levels(self) -> list[LevelError]:
        """Return errors by level and query, in records an answer; released minus true.

        `mae_standard_error` is that of `mae` over the replicates; None if there is only one.
        """
        names = self._simulation.context.geography.level_names
        return [
            LevelError(
                level=names[depth],
                n_nodes=self._simulation.truth[depth].n_nodes,
                queries=[self._row(depth, query) for query in queries],
                totals_by_size=self._areas[depth].rows(len(self._sums[depth, queries[0].name])),
            )
            for depth, queries in enumerate(self._queries)
        ]

    def _row(self, depth: int, query: Query) -> QueryError:
        sums = self._sums[depth, query.name]
        n_values, n = self._simulation.truth[depth].n_nodes * query.n_answers, len(sums)
        absolute = [size for size, _ in sums]
        # n * (sum of squares) - (sum)^2 in whole numbers, so that nothing cancels
        spread = n * sum(size * size for size in absolute) - sum(absolute) ** 2
        return QueryError(
            query=query.name,
            n_answers=query.n_answers,
            mae=sum(absolute) / (n_values * n),
            mae_standard_error=sqrt(spread / (n - 1)) / (n_values * n) if n > 1 else None,
            bias=sum(signed for _, signed in sums) / (n_values * n),
        )


class _AreasOfSize:
    """Add up errors of totals by the true total of the area, in whole records."""

    def __init__(self, true: Ints) -> None:
        self._true = true
        self._size = np.searchsorted(SIZES, true, side="right") - 1
        self._absolute, self._signed = np.zeros((2, len(SIZES)), dtype=np.int64)

    def add(self, released: Ints) -> None:
        """Count the totals of one replicate."""
        gap = released - self._true
        np.add.at(self._absolute, self._size, abs(gap))
        np.add.at(self._signed, self._size, gap)

    def rows(self, replicates: int) -> list[SizeError]:
        """Return a row for each size that occurs."""
        out = []
        for size in np.unique(self._size).tolist():
            of_size = self._true[self._size == size]
            values, mean = replicates * len(of_size), float(of_size.mean())
            mae = int(self._absolute[size]) / values
            out.append(
                SizeError(
                    least=SIZES[size],
                    most=SIZES[size + 1] - 1,
                    n_areas=len(of_size),
                    mean_records=mean,
                    mae=mae,
                    mae_of_mean=mae / mean if mean else None,
                    bias=int(self._signed[size]) / values,
                )
            )
        return out


WARNING = f"""{STAMP}
This folder holds a simulation: the noise was drawn from a known seed, on made-up or public records, and nothing was
charged for it. It protects nobody and says nothing about any other records. {SIMULATION} says what it was made from.
"""


def keep_replicate(out: Path, simulation: Simulation, replicate: Replicate) -> None:
    """Write `replicate-000/microdata.parquet`: columns as in microdata, another type, and the stamp."""
    context, origin = simulation.context, simulation.origin
    stamps = {"stamp": STAMP, "seed": str(simulation.seed), "replicate": str(replicate.number)}
    stamps |= {"truth": origin.kind, "truth_sha256": origin.sha256, "truth_is_public": origin.reason}
    path = out / f"replicate-{replicate.number:03d}" / "microdata.parquet"
    table = microdata_table(context, replicate.leaves)
    write_bytes(path, table_of_plan("topdown.simulated", table, context.plan, stamps))


def simulation_document(
    simulation: Simulation, errors: ErrorSums, replicates: int, solved: Tally
) -> SimulationErrors:
    """Return the `topdown.simulation` document: what was simulated on what, how it was solved, and the errors."""
    plan = simulation.context.plan
    return SimulationErrors(
        engine=__version__,
        plan_hash=plan.plan_hash,
        unit=plan.schema.record,
        truth=Truth(**asdict(simulation.origin), n_records=simulation.truth[0].n_records),
        seed=simulation.seed,
        seed_is_default=simulation.seed == DEFAULT_SEED,
        replicates=replicates,
        n_failsafe=len(solved.failsafe),
        solver=solved.convergence(),
        levels=errors.levels(),
    )
