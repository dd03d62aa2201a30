"""Run the checks of a release in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

from topdown.publish.verify.check_base import check_base
from topdown.publish.verify.check_certificate import check_certificate, check_stamps
from topdown.publish.verify.check_comparisons import check_comparisons
from topdown.publish.verify.check_constraints import check_bounds, check_exact, check_zeros
from topdown.publish.verify.check_digests import check_digests
from topdown.publish.verify.check_files import check_manifest
from topdown.publish.verify.check_intervals import check_intervals
from topdown.publish.verify.check_ledger import check_charge, check_ledger
from topdown.publish.verify.check_measured import check_measured
from topdown.publish.verify.check_measurements import check_measurements
from topdown.publish.verify.check_plan import check_plan
from topdown.publish.verify.check_population import check_whole_numbers
from topdown.publish.verify.check_privacy import check_privacy
from topdown.publish.verify.check_solver import check_solver
from topdown.publish.verify.check_tables import check_hierarchy, check_tables
from topdown.publish.verify.once import NotAvailableError
from topdown.publish.verify.one_check import Check, run_check
from topdown.publish.verify.plan_doc import PlanDoc
from topdown.publish.verify.result import CheckResult, VerifyResult
from topdown.publish.verify.session import EachSection, Session, one_by_one

CONTENT_CHECKS: dict[str, Check] = {
    "plan": check_plan,
    "measured": check_measured,
    "base": check_base,
    "ledger": check_ledger,
    "measurements": check_measurements,
    "whole numbers": check_whole_numbers,
    "hierarchy": check_hierarchy,
    "exact statistics": check_exact,
    "zeros": check_zeros,
    "bounds": check_bounds,
    "comparisons": check_comparisons,
    "tables": check_tables,
    "intervals": check_intervals,
    "digests": check_digests,
    "solver": check_solver,
}
CHECKS: dict[str, Check] = {
    "manifest": check_manifest,
    **CONTENT_CHECKS,
    "privacy": check_privacy,
    "certificate": check_certificate,
    "stamps": check_stamps,
}

_ONLY_IF: dict[str, Callable[[PlanDoc], bool]] = {
    "base": lambda plan: plan.base is not None,
    "measured": lambda plan: plan.measured is not None,
    "intervals": lambda plan: plan.estimates is not None and bool(plan.estimates.coverage),
    "comparisons": lambda plan: bool(plan.invariants.no_more_than),
}


def verify(release: Path, each: EachSection = one_by_one) -> VerifyResult:
    """Check a release from its files alone.

    Guarantees: reads nothing outside `release`, follows no symlink, writes nothing, and returns a result for
    every check whatever the files hold. Uses integers and fractions only.

    Args:
        release: the folder that holds manifest.json.
        each: how the sections of a large release are gone through; what is found does not depend on it.

    Returns:
        one result a check, in order; `ok` if every check passed.

    Raises:
        InternalError: X046 a process that looked at a section was killed too often.

    Cost: Rhode Island (50 million noisy numbers, 25,181 blocks) in a few seconds.

    """
    return _run(Session(release, each), CHECKS)


def verify_sealed(release: Path, content: VerifyResult) -> VerifyResult:
    """Check a release whose content this very run has checked: manifest, privacy, certificate and stamps.

    Args:
        release: the folder that holds manifest.json.
        content: what `verify_content` found in the same files.
    """
    return _run(Session(release), CHECKS, {check.name: check for check in content.checks})


def verify_content(release: Path, each: EachSection = one_by_one) -> VerifyResult:
    """Run the checks that need neither certificate nor manifest; their results go into the certificate."""
    return _run(Session(release, each), CONTENT_CHECKS)


def verify_planned(release: Path) -> VerifyResult:
    """Check what can be known before anything is charged.

    Args:
        release: folder with plan.json, public/, what an extension carries of its base, a ledger as the charge would
            leave it, and a certificate with the section `privacy` that would follow.
    """
    return _run(Session(release), {"plan": check_plan, "ledger": check_charge, "privacy": check_privacy})


def verify_measured(release: Path) -> VerifyResult:
    """Check what is there before anything is solved: plan, ledger and measurements."""
    checks = {name: CONTENT_CHECKS[name] for name in ("plan", "measured", "ledger", "measurements")}
    return _run(Session(release), checks)


def verify_privacy(release: Path) -> CheckResult:
    """Check only what the certificate of a release states about privacy."""
    return run_check(Session(release), "privacy", check_privacy)


def _run(
    session: Session, checks: dict[str, Check], done: Mapping[str, CheckResult] | None = None
) -> VerifyResult:
    start = perf_counter()
    for name, check in checks.items():
        if name in _ONLY_IF and not _concerns(session, _ONLY_IF[name]):
            continue
        session.results.append((done or {}).get(name) or run_check(session, name, check))
    return VerifyResult(tuple(session.results), perf_counter() - start)


def _concerns(session: Session, says: Callable[[PlanDoc], bool]) -> bool:
    try:
        return says(session.plan.doc)
    except NotAvailableError:
        return False
