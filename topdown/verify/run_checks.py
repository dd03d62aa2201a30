"""Run the checks of a release in order; those of records and tables section by section, then of the levels above."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from topdown.arrays import Ints
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
from topdown.verify.check_solver import check_digests, check_solver
from topdown.verify.check_tables import (
    check_hierarchy,
    check_hierarchy_areas,
    check_tables,
    check_tables_areas,
    check_whole_numbers,
    check_whole_numbers_areas,
)
from topdown.verify.exact_arithmetic import narrow, tally
from topdown.verify.findings import CheckResult, Findings, VerifyResult
from topdown.verify.plan_reader import PlanFile
from topdown.verify.released_records import Areas, Population, Sums
from topdown.verify.session import Check, EachSection, Session, run_check, sections_in_order
from topdown.verify.strict_reader import NotAvailableError, UnreadableError

AREA_CHECKS: dict[str, Callable[[Session, Areas, Findings], None]] = {
    "whole numbers": check_whole_numbers_areas,
    "hierarchy": check_hierarchy_areas,
    "exact statistics": check_exact_areas,
    "zeros": check_zeros_areas,
    "bounds": check_bounds_areas,
    "comparisons": check_comparisons_areas,
    "tables": check_tables_areas,
}


Rows = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


@dataclass(eq=False)
class SectionFindings:
    """What the checks of some areas found.

    Args:
        found: findings by check.
        failed: why a check could not be finished, by its name.
        seconds: by check.
        rows: leaf, cell and count of the records of every section, the leaves by numbers of the section.
        given, below: what the areas add up to at the level above (`Areas`); None where there is none.
    """

    found: dict[str, Findings] = field(default_factory=lambda: {name: Findings() for name in AREA_CHECKS})
    failed: dict[str, Exception] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(AREA_CHECKS, 0))
    rows: list[Rows] = field(default_factory=list)
    given: tuple[Ints, Ints] | None = None
    below: Sums = field(default_factory=dict)

    def report(self, name: str, out: Findings, waited: float) -> None:
        """Add what a check found to `out`; raise why it could not be finished.

        Args:
            waited: seconds since it asked, that were spent on all checks.
        """
        if name in self.found:
            out.merge(self.found[name])
            out.seconds += self.seconds[name] - waited
        if name in self.failed:
            raise self.failed[name].with_traceback(None)  # which would hold what was read

    def add(self, other: SectionFindings) -> None:
        """Add what was found in other areas; what cannot be read there is one more finding of the check it fails."""
        for name, found in other.found.items():
            self.found[name].merge(found)
            self.seconds[name] += other.seconds[name]
        for name, error in other.failed.items():
            if name in self.failed and isinstance(error, NotAvailableError) and error.owner == name:
                self.found[name].add(error.finding)
            self.failed.setdefault(name, error)
        self.rows += other.rows


def check_all_sections(session: Session) -> SectionFindings:
    """Make all checks of records and tables."""
    cuts, looked = session.cuts, SectionFindings()
    sums: list[tuple[Ints, Ints]] = []
    tables: dict[str, list[tuple[Ints, Ints]]] = {}
    for one in session.each(check_section, session, cuts.n_sections):
        looked.add(one)
        sums += [] if one.given is None else [one.given]
        for name, at in one.below.items():
            tables.setdefault(name, []).append(at)
    if cuts.n_sections > 1:
        n_cells = session.plan.schema.n_cells
        key, count = _tally_parts(sums)
        given = Population(key // n_cells, {}, key % n_cells, count)
        above = session.above(given, {name: _tally_parts(at) for name, at in tables.items()})
        looked.add(_check_areas(session, above, [name for name in AREA_CHECKS if name not in looked.failed]))
    return looked


def check_section(session: Session, number: int) -> SectionFindings:
    """Make all checks of one section, and add its records and tables up to the level above the cut."""
    areas = session.section(number)
    looked = _check_areas(session, areas, list(AREA_CHECKS))
    looked.below = areas.passed
    try:
        population = areas.population
    except NotAvailableError as error:
        looked.failed["digests"] = error
        return looked
    rows = (population.leaf, population.cell, population.count)
    if areas.up is None:
        looked.rows = [rows]
        return looked
    looked.rows = [(narrow(population.leaf), narrow(population.cell), narrow(population.count))]
    node = areas.up[areas.tree.ancestors[0][population.leaf]]
    looked.given = tally(node * session.plan.schema.n_cells + population.cell, population.count)
    return looked


def _check_areas(session: Session, areas: Areas, names: list[str]) -> SectionFindings:
    looked = SectionFindings()
    for name in names:
        start = perf_counter()
        try:
            AREA_CHECKS[name](session, areas, looked.found[name])
        except UnreadableError as error:
            looked.failed[name] = NotAvailableError(name, error.finding)
        except Exception as error:  # raised again where the check reports it
            looked.failed[name] = error
        looked.seconds[name] = perf_counter() - start
    return looked


def _tally_parts(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    none = np.zeros(0, dtype=np.int64)
    keys, counts = ([none, *(part[i] for part in parts)] for i in (0, 1))
    return tally(np.concatenate(keys), np.concatenate(counts))


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


_ONLY_FOR: dict[str, Callable[[PlanFile], bool]] = {
    "base": lambda plan: plan.base is not None,
    "measured": lambda plan: plan.measured is not None,
    "intervals": lambda plan: plan.coverage is not None,
    "comparisons": lambda plan: bool(plan.rules.no_more_than),
}


def verify(release: Path, each: EachSection = sections_in_order) -> VerifyResult:
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
    return _run_all(Session(release, each), CHECKS)


def verify_sealed(release: Path, content: VerifyResult) -> VerifyResult:
    """Check a release whose content this very run has checked: manifest, privacy, certificate and stamps.

    Args:
        release: the folder that holds manifest.json.
        content: what `verify_content` found in the same files.
    """
    return _run_all(Session(release), CHECKS, {check.name: check for check in content.checks})


def verify_content(release: Path, each: EachSection = sections_in_order) -> VerifyResult:
    """Run the checks that need neither certificate nor manifest; their results go into the certificate."""
    return _run_all(Session(release, each), CONTENT_CHECKS)


def verify_planned(release: Path) -> VerifyResult:
    """Check what can be known before anything is charged.

    Args:
        release: folder with plan.json, public/, what an extension carries of its base, a ledger as the charge would
            leave it, and a certificate with the section `privacy` that would follow.
    """
    return _run_all(Session(release), {"plan": check_plan, "ledger": check_charge, "privacy": check_privacy})


def verify_measured(release: Path) -> VerifyResult:
    """Check what is there before anything is solved: plan, ledger and measurements."""
    checks = {name: CONTENT_CHECKS[name] for name in ("plan", "measured", "ledger", "measurements")}
    return _run_all(Session(release), checks)


def verify_privacy(release: Path) -> CheckResult:
    """Check only what the certificate of a release states about privacy."""
    return run_check(Session(release), "privacy", check_privacy)


def _run_all(
    session: Session, checks: dict[str, Check], done: Mapping[str, CheckResult] | None = None
) -> VerifyResult:
    start = perf_counter()
    for name, check in checks.items():
        if name in _ONLY_FOR and not _applies(session, _ONLY_FOR[name]):
            continue
        session.results.append((done or {}).get(name) or run_check(session, name, check))
    return VerifyResult(tuple(session.results), perf_counter() - start)


def _applies(session: Session, says: Callable[[PlanFile], bool]) -> bool:
    try:
        return says(session.plan)
    except NotAvailableError:
        return False
