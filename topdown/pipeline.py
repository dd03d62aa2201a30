"""Generate: measure, solve, publish, verify, with files between the stages, so that any stage can go on later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown.errors import CertificateError, DataError
from topdown.extending import check_base
from topdown.held import held
from topdown.ledger.durable import Disk
from topdown.plan.plan import WORK
from topdown.plan.prepare import Context, Prepared, load_context
from topdown.progress import Event, Report, silent
from topdown.run_result import Clock, GenerateResult, peak_memory_bytes
from topdown.workers import Place, Where, opened

if TYPE_CHECKING:
    from topdown.frames import HeldTable
    from topdown.measure.measure import MeasureResult
    from topdown.publish.verify import CheckResult
    from topdown.solve.solve import Solved


def generate(
    prepared: Prepared,
    out: Path,
    *,
    workers: Where = 1,
    csv: bool = False,
    again: bool = False,
    records: HeldTable | None = None,
    report: Report = silent,
) -> GenerateResult:
    """Make a release, or go on with one that was interrupted.

    Everything that can fail without noise is tried before anything is spent. Measures only what is not measured
    yet; everything after the measurement is made again from its files, the same bytes each time, without the
    confidential records.

    Args:
        prepared: run file, plan, public facts.
        out: release folder.
        workers: processes that draw and solve, or "ray", where the release is solved; what is solved does not depend on
            it.
        csv: also write one row a record.
        again: measure although the ledger holds this release or plan already, in another folder.
        records: given in memory; those that the run file names if None.
        report: told about progress.

    Raises:
        ConfigError: C173 another run holds the folder.
        DataError: D050 the disk is full or may not be written to.
        TopdownError: as the stages do; CertificateError if the finished release fails its own verification.
    """
    with held_folder(out):
        return _generate(prepared, out, workers, csv, again, records, report)


def measure(
    prepared: Prepared,
    out: Path,
    *,
    base: Path | None = None,
    workers: int = 1,
    again: bool = False,
    records: HeldTable | None = None,
    report: Report = silent,
) -> tuple[MeasureResult, dict[str, float]]:
    """Do the part of `generate`, or `extend`, that opens the records; returns what was drawn, and seconds by stage."""
    clock = Clock()
    if base is not None:
        check_base(prepared, base, report)
    with held_folder(out):
        _, measured = _measure(prepared, out, clock, workers, again, records, report)
    return measured, clock.seconds


@contextmanager
def held_folder(out: Path) -> Iterator[None]:
    """Hold the folder of a run; DataError D050 for what the disk refuses."""
    try:
        with held(out, Disk()):
            yield
    except OSError as error:
        raise DataError(
            f"cannot write {error.filename or out}: {error.strerror}",
            code="D050",
            file=str(error.filename or out),
            fix="make room or correct the rights, then go on with --resume; noise that is drawn is kept",
        ) from None


def _generate(
    prepared: Prepared,
    out: Path,
    workers: Where,
    csv: bool,
    again: bool,
    records: HeldTable | None,
    report: Report,
) -> GenerateResult:
    clock = Clock()
    drawing = workers if isinstance(workers, int) else 1  # noise is drawn where the records are
    paid = _measure(prepared, out, clock, drawing, again, records, report)
    context = load_context(out, prepared.context)
    return finished(context, out, prepared.ledger_path, paid, clock, workers=workers, csv=csv, report=report)


def finished(
    context: Context,
    out: Path,
    ledger: Path,
    paid: tuple[dict[str, Any], MeasureResult],
    clock: Clock,
    *,
    workers: Where,
    csv: bool,
    report: Report,
) -> GenerateResult:
    """Solve, publish and verify what lies measured in `out`; `paid`: what is said of privacy, and what was drawn."""
    from topdown.publish.publish import Running, publish
    from topdown.publish.verify import verify_sealed

    privacy, measured = paid
    with opened(workers, out, lambda text: report(Event("workers", 1, 1, text))) as place:
        there = out if isinstance(place, int) else out.resolve()
        solved = clock.run("solve", lambda: _solve(there, context, there / WORK, place, report))
    context.let_go()
    content = clock.run(
        "publish",
        lambda: publish(
            out,
            context,
            solved.leaves,
            ledger,
            csv=csv,
            privacy=privacy,
            numbers=solved.numbers,
            running=Running(report, 1 if workers == "ray" else workers),
        ),
    )
    report(Event("certify", 0, 1, "checks"))
    checks = clock.run("verify", lambda: verify_sealed(out, content))
    report(Event("certify", 1, 1, f"{len(checks.checks)} checks"))
    if not checks.ok:
        failed = ", ".join(check.name for check in checks.checks if not check.ok)
        raise CertificateError(
            f"the finished release fails its own verification ({failed}); do not publish it",
            code="V900",
            fix=f"see: topdown verify {out} --all; the noise is kept, nothing more is spent by trying again",
        )
    return GenerateResult(
        release=out,
        seconds=clock.seconds,
        n_records=solved.leaves.n_records,
        n_splits=sum(level["n_splits"] for level in solved.document["levels"]),
        n_failsafe=len(solved.document["failsafe"]),
        peak_memory_bytes=peak_memory_bytes(workers),
        checks=checks,
        measured=measured,
    )


def _measure(
    prepared: Prepared,
    out: Path,
    clock: Clock,
    workers: int,
    again: bool,
    records: HeldTable | None,
    report: Report,
) -> tuple[dict[str, Any], MeasureResult]:
    """Try all that can fail without noise, then charge and draw what is not measured yet."""
    from topdown.measure.measure import is_measured, measure
    from topdown.publish.certified import certified_privacy
    from topdown.rehearse.memory import check_memory
    from topdown.rehearse.rehearse import rehearse
    from topdown.solve.foreseen import check_solve

    check_solve(prepared.context)
    measured_before = is_measured(prepared, out, again=again)
    if not measured_before:
        check_memory(prepared.context.plan)
    clock.run("compile", lambda: warm_up(report))
    privacy = clock.run("account", lambda: certified_privacy(prepared.context.policy))
    if not measured_before:
        report(Event("rehearse", 0, 1, "a few areas with made-up people"))
        clock.run("rehearse", lambda: rehearse(prepared, out, privacy, _solve_and_publish))
        report(Event("rehearse", 1, 1, "passed, uncharged"))
    return privacy, clock.run(
        "measure", lambda: measure(prepared, out, report, again=again, records=records, workers=workers)
    )


def extend(
    prepared: Prepared,
    base: Path,
    out: Path,
    *,
    workers: Where = 1,
    csv: bool = False,
    again: bool = False,
    records: HeldTable | None = None,
    report: Report = silent,
) -> GenerateResult:
    """Extend a published release by the attributes of another schema, or go on with that.

    Guarantees, beside those of `generate`: the base release passes its own verification first; its loss is in
    the same ledger; nothing is spent if some area's base table has no extension that meets the constraints.

    Args:
        prepared: run file, plan, public facts, made with the same base release.
        base: folder of the base release.
        out, workers, csv, again, records, report: see `generate`.

    Raises:
        CertificateError: V164 the base release fails its verification.
        BudgetError: B020 the ledger did not pay for the base release.
        InfeasibleError: I020 an area cannot be extended.
        ConfigError: C096 an area's least squares would be too large.
        TopdownError: as `generate` does.
    """
    check_base(prepared, base, report)
    return generate(prepared, out, workers=workers, csv=csv, again=again, records=records, report=report)


def _solve_and_publish(prepared: Prepared, release: Path) -> None:
    """Make a release of a measured folder, with one process and no statements about privacy."""
    from topdown.publish.publish import publish

    solved = _solve(release, prepared.context)
    publish(release, prepared.context, solved.leaves, prepared.ledger_path, numbers=solved.numbers)


def measured_checks(out: Path) -> tuple[CheckResult, ...]:
    """Check plan, ledger and measurements, before anything is solved."""
    from topdown.publish.verify import verify_measured

    return verify_measured(out).checks


def solve_release(release: Path, *, workers: int = 1, report: Report = silent) -> tuple[Any, dict[str, Any]]:
    """Solve a measured release from its files alone and write solve.json.

    Returns: (leaf table, `topdown.solve` document).
    """
    solved = _solve(release, load_context(release), workers=workers, report=report)
    return solved.leaves.whole(), solved.document


def _solve(
    release: Path, context: Context, work: Path | None = None, workers: Place = 1, report: Report = silent
) -> Solved:
    from topdown.solve.release import solve_folder
    from topdown.solve.solve import write_document

    solved = solve_folder(release, context, work=work, workers=workers, report=report)
    write_document(release / "solve.json", solved.document)
    return solved


def warm_up(report: Report = silent) -> None:
    """Compile the kernels if this installation has not done so yet, and say so."""
    from topdown.solve.warm import compile_kernels, is_compiled

    if not is_compiled():
        report(Event("compile", 0, 1, "compiling numeric kernels, once per installation (about 15 s)"))
        compile_kernels()
        report(Event("compile", 1, 1, "kernels compiled and cached"))
