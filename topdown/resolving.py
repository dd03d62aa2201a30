"""Solve a measurement in another way: its files, another plan, a release of its own. Nothing is drawn or charged."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

from topdown.caps import PLAN_BYTES, read_json
from topdown.errors import CertificateError, ConfigError
from topdown.ledger.book import read_book
from topdown.measure.measure import MeasureResult
from topdown.pipeline import finished, held_folder, measured_checks, warm_up
from topdown.plan.exact_files import exact_paths
from topdown.plan.plan import MEASURED_PLAN, Plan
from topdown.plan.prepare import Context, load_context
from topdown.plan.resolve import HowSolved, resolved_plan
from topdown.progress import Report, silent
from topdown.publish.atomic import write_bytes
from topdown.run_result import Clock, GenerateResult
from topdown.workers import Where

PLAN, LEDGER, MANIFEST, JOURNAL = "plan.json", "ledger.jsonl", "manifest.json", "measurements/journal.json"
FROM_MEASURE = ("public/geography.parquet", "public/leaves.parquet", JOURNAL)


def resolve(
    source: Path,
    out: Path,
    wish: HowSolved,
    *,
    ledger: Path | None = None,
    workers: Where = 1,
    csv: bool = False,
    report: Report = silent,
) -> GenerateResult:
    """Make a release from the measurement of another one, solved in another way.

    Guarantees: reads no confidential file, draws nothing and charges nothing; plan, ledger and measurements pass their
    checks before anything is solved; what was measured is the same to the last value, and the release says whose
    measurement it is. The folder has nothing in it that is not a copy or follows from the copies.

    Args:
        source: folder of a release, or of a whole measurement.
        out: new or empty folder, or one in which the same call was stopped.
        wish: how it is to be solved.
        ledger: of the data set; the copy in `source` if None.
        workers, csv, report: see `generate`.

    Raises:
        ConfigError: C085 `out` is not empty, C088 there is no ledger; or as `resolved_plan`.
        CertificateError: V181 or the code of a check: the measurement is damaged or was not paid for; V900.
        InfeasibleError: the constraints contradict each other.
    """
    from topdown.publish.certified import certified_privacy
    from topdown.solve.tree.covered import check_intervals

    clock = Clock()
    book = source / LEDGER if ledger is None else ledger
    if not book.is_file():
        raise ConfigError(
            f"there is no ledger {book}, which says that the measurement was paid for",
            code="C088",
            fix="give the ledger of the data set, or a finished release",
        )
    there = load_context(source)
    context = Context(resolved_plan(there, wish), there.geography, there.facts)
    check_intervals(context)
    _check_out(out, context.plan)
    with held_folder(out):
        _copy(source, out, context, book)
        _refuse_unsound(out)
        clock.run("compile", lambda: warm_up(report))
        privacy = clock.run("account", lambda: certified_privacy(context.policy))
        paid = privacy, _measured(out, context)
        return finished(context, out, book, paid, clock, workers=workers, csv=csv, report=report)


def _check_out(out: Path, plan: Plan) -> None:
    """Refuse a folder that is neither new nor empty, nor left by the same call that was stopped (ConfigError C085)."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        there, mine = True, False
    else:
        there = out.is_dir() and any(out.iterdir())
        mine = there and not (out / MANIFEST).exists() and _plan_in(out) == plan.plan_hash
    if there and not mine:
        raise ConfigError(
            f"{out} exists and is not an empty folder", code="C085", fix="give --out a new folder"
        )


def _plan_in(out: Path) -> object:
    try:
        return read_json(out / PLAN, PLAN_BYTES)["plan_hash"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _copy(source: Path, out: Path, context: Context, ledger: Path) -> None:
    """Put plan, public facts, measurements and ledger where a release has them; files only, never a link's target."""
    plan = context.plan
    document = plan.to_document()
    head = {"type": document.pop("type"), "version": document.pop("version")}
    text = json.dumps(head | document | {"plan_hash": plan.plan_hash}, ensure_ascii=False, indent=1)
    write_bytes(out / PLAN, (text + "\n").encode("utf-8"))  # first: whoever is stopped can go on
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


def _refuse_unsound(out: Path) -> None:
    """Refuse a measurement that is not whole, or not paid for, before it is solved."""
    for check in measured_checks(out):
        if not check.ok:
            found = check.findings[0]
            raise CertificateError(
                f"the measurement does not pass the check '{check.name}': {found.text}",
                code=found.code,
                file=found.file or None,
                fix="get the release again; nothing was solved",
            )


def _measured(out: Path, context: Context) -> MeasureResult:
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
        n_drawn=0,
        n_adopted=n_parts,
        ledger_head=book.head,
    )
