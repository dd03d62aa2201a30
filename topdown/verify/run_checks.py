"""Run the checks of a release in order; those of records and tables section by section, then of the levels above."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from topdown.formats.report_parts import REPORT
from topdown.formats.verify_documents import CheckResult, VerifyResult
from topdown.verify.check_certificate import check_certificate, check_manifest, check_stamps
from topdown.verify.check_constraints import (
    check_bounds,
    check_bounds_areas,
    check_comparisons,
    check_comparisons_areas,
    check_exact,
    check_exact_areas,
    check_zeros,
    check_zeros_areas,
)
from topdown.verify.check_intervals import check_intervals
from topdown.verify.check_ledger import check_charge, check_ledger
from topdown.verify.check_measurements import check_measured, check_measurements
from topdown.verify.check_plan import check_base, check_plan
from topdown.verify.check_privacy import check_privacy
from topdown.verify.check_report import check_report
from topdown.verify.check_solver import check_digests, check_solver
from topdown.verify.check_tables import (
    check_hierarchy,
    check_hierarchy_areas,
    check_tables,
    check_tables_areas,
    check_whole_numbers,
    check_whole_numbers_areas,
)
from topdown.verify.findings import NOT_SOLVED, verify_result
from topdown.verify.session import AreaCheck, Check, EachSection, Session, run_check, sections_in_order
from topdown.verify.strict_reader import NotAvailableError
from topdown.verify.verify_choice import (
    NOT_CHECKED,
    check_choice_certificate,
    check_choice_ledger,
    check_choice_manifest,
    check_choice_question,
    check_choice_result,
    is_choice,
)

Tell = Callable[[int, int, str], None]


def tell_nobody(done: int, total: int, text: str) -> None:
    """Pass over where a verification is."""


ALL_RELEASES = frozenset({"release"})
CHOICES = frozenset({"choice"})


@dataclass(frozen=True)
class ListedCheck:
    """One check of the list.

    Args:
        name, run: see there.
        of: what a folder must be, all of it: a `release` or a `choice`; a release that extends another (`extension`),
            solves the measurement of another (`resolved`), or has `intervals`, `soft_rules` or a `report`.
        areas: what it looks at section by section, if it does.
        content: whether it needs neither manifest nor certificate.
    """

    name: str
    run: Check
    of: frozenset[str] = ALL_RELEASES
    areas: AreaCheck | None = None
    content: bool = True


CHECKS = (
    ListedCheck("manifest", check_manifest, content=False),
    ListedCheck("plan", check_plan),
    ListedCheck("measured", check_measured, frozenset({"resolved"})),
    ListedCheck("base", check_base, frozenset({"extension"})),
    ListedCheck("ledger", check_ledger),
    ListedCheck("measurements", check_measurements),
    ListedCheck("whole numbers", check_whole_numbers, areas=check_whole_numbers_areas),
    ListedCheck("hierarchy", check_hierarchy, areas=check_hierarchy_areas),
    ListedCheck("exact statistics", check_exact, areas=check_exact_areas),
    ListedCheck("zeros", check_zeros, areas=check_zeros_areas),
    ListedCheck("bounds", check_bounds, areas=check_bounds_areas),
    ListedCheck("comparisons", check_comparisons, frozenset({"soft_rules"}), check_comparisons_areas),
    ListedCheck("tables", check_tables, areas=check_tables_areas),
    ListedCheck("intervals", check_intervals, frozenset({"intervals"})),
    ListedCheck("digests", check_digests),
    ListedCheck("solver", check_solver),
    ListedCheck("privacy", check_privacy, content=False),
    ListedCheck("certificate", check_certificate, content=False),
    ListedCheck("stamps", check_stamps, content=False),
    ListedCheck("report", check_report, frozenset({"report"}), content=False),
    ListedCheck("manifest", check_choice_manifest, CHOICES, content=False),
    ListedCheck("question", check_choice_question, CHOICES),
    ListedCheck("ledger", check_choice_ledger, CHOICES),
    ListedCheck("result", check_choice_result, CHOICES),
    ListedCheck("certificate", check_choice_certificate, CHOICES, content=False),
)
"""Every check of a folder that topdown writes, in order, and which kind of folder it is for."""
_CHARGE = ListedCheck("ledger", check_charge)  # of a ledger as the charge would leave it
_AREA_CHECKS = {check.name: check.areas for check in CHECKS if check.areas is not None}


def kinds_of(session: Session) -> frozenset[str]:
    """Return what a folder is, by its plan; a folder whose plan cannot be read is a release like any other."""
    if is_choice(session.root):
        return CHOICES
    try:
        plan = session.plan
    except NotAvailableError:
        return ALL_RELEASES
    more = {
        "extension": plan.base is not None,
        "resolved": plan.measured is not None,
        "intervals": plan.coverage is not None,
        "soft_rules": bool(plan.rules.soft),
        "report": os.path.lexists(session.root / REPORT),
    }
    return ALL_RELEASES | {kind for kind, has in more.items() if has}


def verify(release: Path, each: EachSection = sections_in_order, tell: Tell = tell_nobody) -> VerifyResult:
    """Check a release or a choice from its files alone.

    Guarantees: reads nothing outside `release`, follows no symlink, writes nothing, and returns a result for
    every check whatever the files hold. Records, sums, budgets and noise parameters are compared in integers and
    fractions, what noise costs and normal quantiles with a stated slack in floats, by code of verify's own.

    Args:
        release: the folder that holds manifest.json.
        each: how the sections of a large release are gone through; what is found does not depend on it.
        tell: called with how many checks are done, of how many, and what is looked at next.

    Returns:
        one result a check, in order; `ok` if every check passed.

    Raises:
        InternalError: X046 a process that looked at a section was killed too often.

    Cost: Rhode Island (50 million noisy numbers, 25,181 blocks) in a few seconds.

    """
    return _run_all(_session(release, each), CHECKS, tell=tell)


@dataclass(frozen=True, eq=False)
class CheckedContent:
    """What the checks of the content found, and what they read, for those of the sealed release."""

    result: VerifyResult
    session: Session


def verify_sealed(content: CheckedContent, tell: Tell = tell_nobody) -> VerifyResult:
    """Check a release whose content this very run has checked: manifest, privacy, certificate, stamps and report.

    Args:
        content: of the same folder, which has a manifest.json now; every file of it is hashed anew.
        tell: see `verify`.
    """
    session = replace(content.session, each=sections_in_order, results=[], hashes={})
    return _run_all(session, CHECKS, {check.name: check for check in content.result.checks}, tell)


def verify_content(
    release: Path,
    each: EachSection = sections_in_order,
    written: Mapping[str, str] | None = None,
    tell: Tell = tell_nobody,
) -> CheckedContent:
    """Run the checks that need neither certificate nor manifest; their results go into the certificate.

    Args:
        release, each, tell: see `verify`.
        written: SHA-256 of the files that this very process wrote, by path. Their values are checked as all are; that
            these bytes are the only ones to say them is known of files with such a hash.
    """
    session = replace(_session(release, each), written=written or {})
    return CheckedContent(_run_all(session, [check for check in CHECKS if check.content], tell=tell), session)


def verify_planned(release: Path) -> VerifyResult:
    """Check what can be known before anything is charged.

    Args:
        release: folder with plan.json, public/, what an extension carries of its base, a ledger as the charge would
            leave it, and a certificate with the section `privacy` that would follow.
    """
    named = {check.name: check for check in CHECKS if check.of == ALL_RELEASES}
    return _run_all(_session(release), [named["plan"], _CHARGE, named["privacy"]])


def verify_measured(release: Path) -> VerifyResult:
    """Check what is there before anything is solved: plan, ledger and measurements."""
    names = ("plan", "measured", "ledger", "measurements")
    return _run_all(_session(release), [check for check in CHECKS if check.name in names])


def verify_privacy(release: Path) -> CheckResult:
    """Check only what the certificate of a release states about privacy."""
    return run_check(_session(release), "privacy", check_privacy)


def _session(folder: Path, each: EachSection = sections_in_order) -> Session:
    return Session(folder, each, _AREA_CHECKS)


class _ReportError(BaseException):
    """What was called with the progress raised its cause; passes every check by."""


def _run_all(
    session: Session,
    checks: Iterable[ListedCheck],
    done: Mapping[str, CheckResult] | None = None,
    tell: Tell = tell_nobody,
) -> VerifyResult:
    """Run the checks that are for this kind of folder, but for those that are done."""
    start, kinds = perf_counter(), kinds_of(session)
    due = [check for check in checks if check.of <= kinds]

    def tell_text(text: str) -> None:
        try:
            tell(len(session.results), len(due), text)
        except Exception as error:  # of the caller's own code, and no finding about the release
            raise _ReportError from error

    session.tell = tell_text
    try:
        for check in due:
            tell_text(check.name)
            known = (done or {}).get(check.name)
            session.results.append(known or run_check(session, check.name, check.run))
        tell_text(f"{len(due)} checks")
    except _ReportError as raised:
        raise (raised.__cause__ or raised) from None
    not_checked = NOT_CHECKED if kinds == CHOICES else NOT_SOLVED
    return verify_result(session.results, perf_counter() - start, (not_checked,))
