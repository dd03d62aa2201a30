"""`topdown verify --solve`: the independent checks, then the solve stage once more, as one check of its own.

The checks of `publish.verify` share nothing with the solver. This one is the opposite: it runs the solver that made the
release and asks whether the published records are what comes out. It runs only on files that those checks accepted.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from msgspec import to_builtins

from topdown.errors import TopdownError
from topdown.inputs import label_positions
from topdown.measure.released import read_table_rows, released_counts
from topdown.model import sections_of
from topdown.plan import PublicContext, load_context
from topdown.progress import Event, Report, silent
from topdown.publish.publish_release import verified_in
from topdown.publish.release_tables import table_path, workload
from topdown.publish.table_intervals import EstimateSource
from topdown.resources import report_slow_kernels
from topdown.solve import SecondSolve, compare_with_published, open_release, solve_folder
from topdown.solve.second_solve import ComparedSplit
from topdown.solve.solve_stage import report_lost_workers
from topdown.verify import Finding, VerifyResult, verify
from topdown.verify.findings import Findings, verify_result
from topdown.verify.run_checks import Tell
from topdown.workers import Executor, ExecutorChoice, open_executor

SOLVED_CHECK = "solved again"
NEEDED_TO_SOLVE = ("manifest", "plan", "measured", "base", "measurements", "whole numbers")
MICRODATA, SOLVED = "microdata/persons.parquet", "solve.json"
WHY_SOLVED = "the microdata do not follow from the published measurements"
FIX_SOLVED = "do not use this release; ask its publisher for one that passes this check"
UNJUDGED = (
    "they may follow from the measurements on other libraries or another processor, but that is not shown"
)
SAME_SOFTWARE = "verify it with the versions that certificate.json lists under software"


def report_checks(report: Report) -> Tell:
    """Return what tells which check is made in the way in which stages tell where they are."""
    return lambda done, total, text: report(Event("verify", done, total, text))


def verify_and_solve(release: Path, *, workers: ExecutorChoice = 1, report: Report = silent) -> VerifyResult:
    """Check a release from its files alone, and solve it again from its measurements.

    Guarantees: writes nothing; the result does not depend on the number of workers. Cost: the solve stage, in time
    and memory; up to twice its time where tables differ. Arguments and errors as `topdown.verify`.
    """
    result = verify(
        release,
        verified_in(workers if isinstance(workers, int) else 1, report_lost_workers(report)),
        report_checks(report),
    )
    start, out = perf_counter(), Findings()
    failed = [check.name for check in result.checks if check.name in NEEDED_TO_SOLVE and not check.ok]
    if failed:
        text = f"not checked because the check '{failed[0]}' failed"
        out.add(
            Finding("V150", text, why="only files that it accepts are solved", fix="look at that check first")
        )
    else:
        with open_executor(workers, release, report_lost_workers(report)) as place:
            text = _solve_and_compare(
                release if isinstance(place, int) else release.resolve(), place, report, out
            )
    out.n_checked = max(out.n_checked, out.n_failed, 1)
    check = out.close(SOLVED_CHECK, text, perf_counter() - start)
    return verify_result((*result.checks, check), result.seconds + check.seconds, ())


def _solve_and_compare(release: Path, workers: Executor, report: Report, out: Findings) -> str:
    report_slow_kernels("topdown", report)
    try:
        context = load_context(release)
        solver = open_release(release, context)
        own = solve_folder(release, context, solver=solver, workers=workers, report=report)
        stated = json.loads((release / SOLVED).read_text(encoding="utf-8"))
        published = released_counts(release / MICRODATA, context)
        again = compare_with_published(
            context, solver, own, published, stated, workers=workers, report=report
        )
        if own.numbers is not None:
            _findings_of_estimates(release, context, own.numbers, out)
    except TopdownError as error:
        text = f"could not be solved again ({error.code})"
        out.add(
            Finding(
                "V175", f"{text}: {error}", node=error.node, why="what cannot be solved cannot be compared"
            )
        )
        return text
    except Exception as error:  # as for every check: a finding, never a traceback
        text = f"could not be solved again ({type(error).__name__})"
        out.add(Finding("V199", text, why="the release is damaged, or this verifier has a fault"))
        return text
    out.n_checked = again.n_areas
    areas = f"{again.n_areas_equal:,} of {again.n_areas:,} {context.geography.leaves.name} areas equal"
    if again.equal:
        _stated_estimates(again, stated, out)
        return areas
    differ = f"{again.n_cells:,} counts differ, by {again.n_records:,} records in all"
    verdicts = again.verdicts
    if verdicts["worse"] or verdicts["unjudged"] or not again.judged:
        _refuse_unsolvable(release, again, out)
        return f"{areas}; {differ}; not optimal"
    out.warnings.append(f"{differ}, from the table solved here; both are optimal")
    worst = max(again.judged, key=lambda judged: abs(judged.weighed.over))
    out.warnings.append(
        f"{len(again.judged):,} splits have another optimum; the largest difference is at "
        f"{worst.level} {worst.node}: {worst.weighed.why}"
    )
    return f"{areas}, the others another optimum"


def _refuse_unsolvable(release: Path, again: SecondSolve, out: Findings) -> None:
    place = MICRODATA if (release / MICRODATA).is_file() else MICRODATA.removesuffix(".parquet")
    wrong = [judged for judged in again.judged if judged.weighed.verdict == "worse"]
    open_ = [judged for judged in again.judged if judged.weighed.verdict == "unjudged"]
    findings = [
        _finding_of_split(place, "V172", judged, ("is not optimal", WHY_SOLVED, FIX_SOLVED))
        for judged in wrong
    ]
    if not wrong:
        said = ("cannot be judged", UNJUDGED, SAME_SOFTWARE)
        findings = [_finding_of_split(place, "V173", judged, said) for judged in open_]
    if not findings:
        text = "the microdata differ from the table solved here, and no split shows why"
        findings = [Finding("V173", text, place, why=UNJUDGED, fix=SAME_SOFTWARE)]
    if again.stopped:
        out.warnings.append(f"levels below {again.stopped} were not judged")
    out.add_many(again.n_areas - again.n_areas_equal, findings)


def _finding_of_split(place: str, code: str, judged: ComparedSplit, said: tuple[str, str, str]) -> Finding:
    what, why, fix = said
    of = "the table" if judged.is_top else "the split"
    text = f"{of} of {judged.level} {judged.node} differs in {judged.weighed.n_cells:,} counts and {what}: "
    return Finding(code, text + judged.weighed.why, place, node=judged.node, why=why, fix=fix)


def _findings_of_estimates(
    release: Path, context: PublicContext, numbers: EstimateSource, out: Findings
) -> None:
    """Compare every published estimate and deviation that is not exact with those of the measurements."""
    rows, stored = {}, {}
    sections = sections_of(context.geography)
    for query in workload(context.plan):
        for depth, level in enumerate(context.plan.levels):
            node, answer, table = read_table_rows(
                release, context, query, level.name, ("estimate", "stddev", "basis")
            )
            noisy = label_positions(table.column("basis"), ("exact", "tree")) == 1
            rows[query.name, depth] = node[noisy], answer[noisy]
            stored[query.name, depth] = [table.column(i).to_numpy()[noisy] for i in ("estimate", "stddev")]
    for (name, depth), told in numbers.at(rows).items():
        found = [np.rint(1000 * column) for column in stored[name, depth]]
        n = int(((found[0] != told[0]) | (found[1] != told[1])).sum())
        if n:
            level = context.plan.levels[depth]
            text = f"{name} at {level.name}: {n:,} rows have another estimate or deviation than the measurements give"
            why = "on other libraries a few can end a thousandth apart; more, or farther, are no estimates"
            place = table_path(context.plan.query(name), level.name)
            if sections.paths(place, depth) != [place]:
                place = place.removesuffix(".parquet")
            out.add(Finding("V176", text, place, why=why, fix=SAME_SOFTWARE))


def _stated_estimates(again: SecondSolve, stated: dict[str, Any], out: Findings) -> None:
    """Compare what solve.json says was done to areas; residuals may differ in their last digits elsewhere."""
    own, theirs = to_builtins(again.solved.document), stated
    for key in ("repairs", "broken"):
        own = own | {key: own.get("comparisons", {}).get(key, [])}
        theirs = theirs | {key: theirs.get("comparisons", {}).get(key, [])}
    for key in ("failsafe", "repairs", "broken"):
        if own[key] != theirs.get(key):
            text = f"solve.json lists other areas under {key!r} than the solve does"
            why = "the records are right; what is said about them is not"
            expected, found = (f"{len(d.get(key) or []):,} areas" for d in (own, theirs))
            out.add(Finding("V174", text, SOLVED, None, None, expected, found, why, FIX_SOLVED))
