"""Solve a measurement in another way: its files, another plan, a release of its own. Nothing is drawn or charged."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.app.calls import PathText, checked_language, checked_workers, path_of, public_function
from topdown.app.make_release import run_in_folder
from topdown.app.pipeline import RunOptions, StageClock, finish_release, locked_folder
from topdown.errors import CertificateError, ConfigError
from topdown.formats.command_documents import GenerateResult
from topdown.formats.common import Targets
from topdown.made_up import refuse_simulation
from topdown.measure import MeasureResult
from topdown.output_paths import refuse_filled
from topdown.plan import PublicContext, SolveChanges, exact_paths, load_context, make_resolved_plan
from topdown.plan.plan_values import MEASURED_PLAN, plan_file
from topdown.plan.settings import load_settings
from topdown.privacy.exact_values import threshold
from topdown.privacy.ledger import read_book
from topdown.privacy.ledger.ledger_file import read_ledger
from topdown.privacy.ledger.registry import is_newest
from topdown.process import signals_as_interrupt
from topdown.progress import Report, silent
from topdown.publish.release_certificate import certified_privacy
from topdown.publish.release_files import write_bytes
from topdown.resources import find, report_slow_kernels
from topdown.solve.tree.coverage import check_intervals
from topdown.verify import verify_measured
from topdown.workers import ExecutorChoice

if TYPE_CHECKING:
    from topdown.privacy.exact_values import Threshold


PLAN, LEDGER, MANIFEST, JOURNAL = "plan.json", "ledger.jsonl", "manifest.json", "measurements/journal.json"
FROM_MEASURE = ("public/geography.parquet", "public/leaves.parquet", JOURNAL)


def _copy_measurement(source: Path, out: Path, context: PublicContext, ledger: Path) -> None:
    """Put plan, public facts, measurements and ledger where a release has them; files only, never a link's target."""
    plan = context.plan
    write_bytes(out / PLAN, plan_file(plan))  # first: whoever is stopped can go on
    parts = [
        path
        for level in plan.levels
        for path in (source / "measurements" / level.name).glob("part-*.parquet")
    ]
    first = MEASURED_PLAN if (source / MEASURED_PLAN).is_file() else PLAN
    names = {name: source / name for name in (*FROM_MEASURE, *exact_paths(plan))}
    names |= {path.relative_to(source).as_posix(): path for path in parts}
    for name, path in (names | {MEASURED_PLAN: source / first, LEDGER: ledger}).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, out / name)


def _measured_before(out: Path, context: PublicContext) -> MeasureResult:
    """Say what the measurement cost when it was drawn."""
    book = read_book((out / LEDGER).read_bytes(), out / LEDGER)[0]
    journal = json.loads((out / JOURNAL).read_text(encoding="utf-8"))["journal"]
    intents = book.of_journal(journal)
    n_parts = len(list((out / "measurements").glob("*/part-*.parquet")))
    return MeasureResult(
        folder=out / "measurements",
        loss=sum((i.loss for i in intents.values()), Fraction(0)),
        loss_name=context.plan.loss_name,
        n_attempts=len(intents),
        drawn={},
        n_adopted=n_parts,
    )


@public_function
def resolve(
    release: PathText,
    out: PathText,
    *,
    settings: PathText | None = None,
    targets: Targets | None = None,
    coverage: Threshold | None = None,
    name: str = "resolved",
    ledger: PathText | None = None,
    registry: PathText | None = None,
    workers: ExecutorChoice = 1,
    csv: bool = False,
    language: str | None = "en",
    report: Report = silent,
) -> GenerateResult:
    """Make another release from the measurement of one: other passes, rounding or estimates, the same noisy numbers.

    Nothing is drawn or charged, and no confidential file is opened. What is said of privacy is what is said of the
    first release; whoever reads both learns nothing that the measurement in both does not tell. The new release says
    whose measurement it is, carries the plan that was charged, and `verify` compares the two. If you choose settings by
    looking at results, the chances of its intervals are no longer what they say.

    >>> import topdown
    >>> made = topdown.resolve("release", "tree", targets="tree", coverage=0.9, name="tree")
    >>> made.checks.ok, made.n_drawn
    (True, 0)

    Args:
        release: folder of a release, or of a measurement that is whole.
        out: new or empty folder; after an interrupt the same call goes on in it.
        settings: settings file, or bundled name: passes, rounding chains and [estimates] are taken from it. Its budget,
            shares and queries must be those that were measured; its invariants are not read.
        targets: "own" fits every area to its own numbers, "tree" to the estimate of the whole tree.
        coverage: of intervals in the tables, exact, 1/2 .. 9999/10000.
        name: the new release is called by the id of the one that was measured, "-" and this.
        ledger: of the data set; the copy in `release` if None.
        registry: folder of its registry, see `audit_ledger`.
        workers, csv, language, report: see `generate`.

    Raises:
        ConfigError: C251 the settings ask for another measurement, C252 nothing would be different, C253 the release
            extends another one, C085 `out` is not empty, C088 no release or no ledger, C122 a simulation.
        BudgetError: B061 the registry of the ledger knows a newer one, B016 there is none in the folder that was given.
        CertificateError: the measurement is damaged or was not paid for; V900 the new release fails its verification.
        InfeasibleError: the constraints contradict each other.
    """
    source, target = path_of(release, "release"), path_of(out, "out")
    refuse_simulation(source)
    found = None
    if settings is not None:
        found = load_settings(find("settings", str(path_of(settings, "settings")), Path.cwd()))
    wanted = None if coverage is None else threshold(coverage, "coverage")
    changes = SolveChanges(settings=found, targets=targets, coverage=wanted, name=name)
    book = source / LEDGER if ledger is None else path_of(ledger, "ledger")
    if book.is_file():
        is_newest(book, read_ledger(book), None if registry is None else path_of(registry, "registry"))
    options = RunOptions(
        checked_workers(workers), csv=csv, language=checked_language(language), report=report
    )
    with signals_as_interrupt():
        return _solve_measurement_again(source, target, changes, book, options)


def _solve_measurement_again(
    source: Path, out: Path, changes: SolveChanges, book: Path, options: RunOptions
) -> GenerateResult:
    """Copy what was measured into `out`, check it, and solve it as `changes` says; `book`: the ledger's file."""
    clock = StageClock()
    if not book.is_file():
        raise ConfigError(
            f"there is no ledger {book}, which says that the measurement was paid for",
            code="C088",
            fix="give the ledger of the data set, or a finished release",
        )
    there = load_context(source)
    context = PublicContext(make_resolved_plan(there, changes), there.geography, there.facts)
    check_intervals(context)
    is_unfinished = out.is_dir() and not out.is_symlink() and not (out / MANIFEST).exists()
    if not is_unfinished or run_in_folder(out) != context.plan.plan_hash:
        refuse_filled(out)
    with locked_folder(out):
        _copy_measurement(source, out, context, book)
        for check in verify_measured(out).checks:
            if not check.ok:
                found = check.findings[0]
                raise CertificateError(
                    f"the measurement does not pass the check '{check.name}': {found.text}",
                    code=found.code,
                    file=found.file or None,
                    fix="get the release again; nothing was solved",
                )
        report_slow_kernels("topdown", options.report)
        privacy = clock.run("account", lambda: certified_privacy(context.policy))
        paid = privacy, _measured_before(out, context)
        return finish_release(context, out, book, paid, clock, options)
