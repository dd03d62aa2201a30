"""Generate: measure, solve, publish, verify, with files between the stages, so that any stage can go on later."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET

from topdown import __version__
from topdown.app.preflight import preflight, remove_preflight
from topdown.app.resource_needs import check_memory, check_open_files
from topdown.arrays import Ints
from topdown.errors import CertificateError, quoted
from topdown.formats.command_documents import GenerateResult, Measure
from topdown.formats.release_documents import CertifiedPrivacy
from topdown.measure import measurement
from topdown.measure.run_ledger import check_one_ledger
from topdown.plan import PreparedRun, PublicContext, load_context
from topdown.plan.plan_values import WORK
from topdown.privacy.ledger import Disk, disk_errors, folder_lock
from topdown.process import check_stopped
from topdown.progress import Event, Report, silent
from topdown.publish.publish_release import OptionalFiles, PublishOptions, publish
from topdown.publish.release_certificate import certified_privacy
from topdown.resources import report_slow_kernels
from topdown.solve import extend
from topdown.solve.solve_stage import solve_folder, try_exact_statistics, write_document
from topdown.solve.tree import check_solve
from topdown.verify.run_checks import verify, verify_sealed
from topdown.workers import Executor, ExecutorChoice, open_executor

if TYPE_CHECKING:
    from topdown.inputs import MemoryTable
    from topdown.measure import MeasureResult
    from topdown.solve import Solved


T = TypeVar("T")


@dataclass(frozen=True)
class RunOptions:
    """How a release is made, given once and handed whole to what uses a part of it.

    Args:
        workers: processes that draw and solve, or "ray", where the release is solved; no file depends on it.
        csv: also write one row a record.
        language: of report.html; None leaves it out.
        again: measure although the ledger has this release or plan already, in another folder.
        records: the confidential records in memory; those that the run file names if None.
        report: called with each `Event`.
    """

    workers: ExecutorChoice = 1
    csv: bool = False
    language: str | None = "en"
    again: bool = False
    records: MemoryTable | None = None
    report: Report = silent

    @property
    def processes(self) -> int:
        """Processes of this machine: noise is drawn where the records are."""
        return self.workers if isinstance(self.workers, int) else 1


USUAL = RunOptions()


@dataclass
class StageClock:
    """Wall seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, stage: str, work: Callable[[], T]) -> T:
        """Do the work of a stage, if no stop came, and note how long it took."""
        check_stopped()
        start = time.monotonic()
        result = work()
        self.seconds[stage] = time.monotonic() - start
        return result

    def rounded(self) -> dict[str, float]:
        """Return the seconds for a document."""
        return {stage: round(value, 2) for stage, value in self.seconds.items()}


def peak_memory_bytes(workers: ExecutorChoice) -> int:
    """Return the most memory of this process, and of its largest child for each worker process on this machine."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if workers == "ray" or workers == 1:
        return int(own * unit)
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return int((own + workers * child) * unit)


def check_base(prepared: PreparedRun, base: Path, report: Report = silent) -> None:
    """Refuse an extension whose base fails its verification, was paid for elsewhere, or cannot be extended."""
    report(Event("base", 0, 1, "verifying the base release"))
    checks = verify(
        base, tell=lambda _, __, text: report(Event("base", 0, 1, f"verifying the base release: {text}"))
    )
    if not checks.ok:
        raise CertificateError(
            f"the base release {base} fails its verification ({checks.failed})",
            code="V164",
            fix=f"see: topdown verify {quoted(base)}; nothing was spent",
        )
    check_one_ledger(prepared)
    extend.check_stages(prepared.context, extend.find_patterns(prepared.context))
    report(Event("base", 1, 1, f"{checks.n_checks} checks"))


def generate_release(
    prepared: PreparedRun, out: Path, options: RunOptions = USUAL, *, base: Path | None = None
) -> GenerateResult:
    """Make a release, or an extension of a published one, or go on with one that was interrupted.

    Everything that can fail without noise is tried before anything is spent. Measures only what is not measured
    yet; everything after the measurement is made again from its files, the same bytes each time, without the
    confidential records. Of an extension, the base release passes its own verification first, and the same ledger paid
    for it.

    Args:
        prepared: run file, plan, public facts; of an extension, made with the same base release.
        out: release folder.
        options: see `RunOptions`.
        base: folder of the release that is extended, if one is.

    Raises:
        ConfigError: C173 another run has the folder, C096 an area's least squares would be too large.
        DataError: D050 the disk is full or may not be written to.
        BudgetError: B020 the ledger did not pay for the base release.
        InfeasibleError: I020 an area cannot be extended.
        TopdownError: as the stages do; CertificateError if the finished release fails its own verification (V900), or
            the base release does (V164).
    """
    clock = StageClock()
    if base is not None:
        check_base(prepared, base, options.report)
    with locked_folder(out):
        paid = _measure_once(prepared, out, clock, options)
        context = load_context(out, prepared.context)
        return finish_release(context, out, prepared.ledger_path, paid, clock, options)


def measure_release(
    prepared: PreparedRun, out: Path, options: RunOptions = USUAL, *, base: Path | None = None
) -> Measure:
    """Do the part of `generate_release` that opens the records."""
    clock = StageClock()
    if base is not None:
        check_base(prepared, base, options.report)
    with locked_folder(out):
        _, measured = _measure_once(prepared, out, clock, options)
    plan = prepared.plan
    return Measure(
        release_id=plan.release.id,
        release=str(out),
        plan_hash=plan.plan_hash,
        loss_name=plan.loss_name,
        loss=str(measured.loss),
        delta=str(plan.delta_of(measured.loss)) if plan.delta else UNSET,
        seconds=clock.rounded(),
        n_attempts=measured.n_attempts,
        n_drawn=measured.n_drawn,
        n_adopted=measured.n_adopted,
    )


@contextmanager
def locked_folder(out: Path) -> Iterator[None]:
    """Hold the folder of a run; DataError D050 for what the disk refuses."""
    with disk_errors(out), folder_lock(out, Disk()):
        yield


def finish_release(
    context: PublicContext,
    out: Path,
    ledger: Path,
    paid: tuple[CertifiedPrivacy, MeasureResult],
    clock: StageClock,
    options: RunOptions,
) -> GenerateResult:
    """Solve, publish and verify what lies measured in `out`; `paid`: the privacy statement, and what was drawn."""
    workers, report = options.workers, options.report
    privacy, measured = paid
    with open_executor(workers, out, lambda text: report(Event("workers", 1, 1, text))) as executor:
        release = out if isinstance(executor, int) else out.resolve()
        solved = clock.run(
            "solve", lambda: _solve_and_note(release, context, release / WORK, executor, report)
        )
    context.release_derived()
    content = clock.run(
        "publish",
        lambda: publish(
            out,
            context,
            solved.leaves,
            ledger,
            optional=OptionalFiles(options.csv, options.language),
            privacy=privacy,
            numbers=solved.numbers,
            running=PublishOptions(report, 1 if workers == "ray" else workers, measured.drawn),
        ),
    )
    report(Event("certify", 0, 1, "checks"))
    checks = clock.run(
        "verify",
        lambda: verify_sealed(content, lambda _, __, text: report(Event("certify", 0, 1, f"checks: {text}"))),
    )
    report(Event("certify", 1, 1, f"{len(checks.checks)} checks"))
    if not checks.ok:
        raise CertificateError(
            f"the finished release fails its own verification ({checks.failed}); do not publish it",
            code="V900",
            fix=f"see: topdown verify {quoted(out)} --all; the noise is kept, nothing more is spent by trying again",
        )
    plan = context.plan
    return GenerateResult(
        engine=__version__,
        release_id=plan.release.id,
        release=str(out),
        plan_hash=plan.plan_hash,
        loss_name=plan.loss_name,
        loss=str(plan.loss),
        delta=str(plan.delta_of(plan.loss)) if plan.delta else UNSET,
        seconds=clock.rounded(),
        peak_memory_bytes=peak_memory_bytes(workers),
        n_records=solved.leaves.n_records,
        n_splits=sum(level.n_splits for level in solved.document.levels),
        n_failsafe=len(solved.document.failsafe),
        n_attempts=measured.n_attempts,
        n_drawn=measured.n_drawn,
        checks=checks,
    )


def _measure_once(
    prepared: PreparedRun, out: Path, clock: StageClock, options: RunOptions
) -> tuple[CertifiedPrivacy, MeasureResult]:
    """Try all that can fail without noise, then charge and draw what is not measured yet."""
    report, again = options.report, options.again
    check_open_files()
    check_solve(prepared.context)
    measured_before = measurement.is_measured(prepared, out, again=again)
    remove_preflight(out)
    if not measured_before:
        check_memory(prepared.plan)
    report_slow_kernels("topdown", report)
    privacy = clock.run("account", lambda: certified_privacy(prepared.context.policy))
    if not measured_before:
        clock.run("preflight", lambda: preflight(prepared, out, privacy, _solve_and_publish, report))
    return privacy, clock.run(
        "measure",
        lambda: measurement.measure(
            prepared,
            out,
            report,
            again=again,
            records=options.records,
            workers=options.processes,
            try_exact=lambda values: _try_exact(prepared.context, values),
        ),
    )


def _try_exact(context: PublicContext, values: dict[str, Ints]) -> None:
    if context.plan.base is None:
        try_exact_statistics(context, values)


def _solve_and_publish(prepared: PreparedRun, release: Path, report: Report) -> None:
    """Make a release of a measured folder, with one process and no statements about privacy."""
    solved = _solve_and_note(release, prepared.context, report=report)
    publish(
        release,
        prepared.context,
        solved.leaves,
        prepared.ledger_path,
        numbers=solved.numbers,
        running=PublishOptions(report),
    )


def _solve_and_note(
    release: Path,
    context: PublicContext,
    work: Path | None = None,
    workers: Executor = 1,
    report: Report = silent,
) -> Solved:
    """Solve what lies measured in a folder, and write solve.json."""
    solved = solve_folder(release, context, work=work, workers=workers, report=report)
    write_document(release / "solve.json", solved.document)
    return solved
