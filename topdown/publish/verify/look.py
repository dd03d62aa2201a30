"""Make every check of records and tables: section by section, then of the levels above from what these add up to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from topdown.publish.verify.areas import Areas, Sums
from topdown.publish.verify.arithmetic import Whole, narrow, tally
from topdown.publish.verify.check_comparisons import comparisons_of
from topdown.publish.verify.check_constraints import bounds_of, exact_of, zeros_of
from topdown.publish.verify.check_population import whole_numbers_of
from topdown.publish.verify.check_tables import hierarchy_of, tables_of
from topdown.publish.verify.once import NotAvailableError
from topdown.publish.verify.population import Population
from topdown.publish.verify.reader import UnreadableError
from topdown.publish.verify.result import Findings
from topdown.publish.verify.session import Session

OF_AREAS: dict[str, Callable[[Session, Areas, Findings], None]] = {
    "whole numbers": whole_numbers_of,
    "hierarchy": hierarchy_of,
    "exact statistics": exact_of,
    "zeros": zeros_of,
    "bounds": bounds_of,
    "comparisons": comparisons_of,
    "tables": tables_of,
}
Rows = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


@dataclass(eq=False)
class Looked:
    """What the checks of some areas found.

    Args:
        found: findings by check.
        failed: why a check could not be finished, by its name.
        seconds: by check.
        rows: leaf, cell and count of the records of every section, the leaves by numbers of the section.
        given, below: what the areas add up to at the level above (`Areas`); None where there is none.
    """

    found: dict[str, Findings] = field(default_factory=lambda: {name: Findings() for name in OF_AREAS})
    failed: dict[str, Exception] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(OF_AREAS, 0))
    rows: list[Rows] = field(default_factory=list)
    given: tuple[Whole, Whole] | None = None
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

    def add(self, other: Looked) -> None:
        """Add what was found in other areas; what cannot be read there is one more finding of the check it fails."""
        for name, found in other.found.items():
            self.found[name].merge(found)
            self.seconds[name] += other.seconds[name]
        for name, error in other.failed.items():
            if name in self.failed and isinstance(error, NotAvailableError) and error.owner == name:
                self.found[name].add(error.finding)
            self.failed.setdefault(name, error)
        self.rows += other.rows


def look_at_sections(session: Session) -> Looked:
    """Make all checks of records and tables."""
    cuts, looked = session.cuts, Looked()
    sums: list[tuple[Whole, Whole]] = []
    tables: dict[str, list[tuple[Whole, Whole]]] = {}
    for one in session.each(look_at_section, session, cuts.n_sections):
        looked.add(one)
        sums += [] if one.given is None else [one.given]
        for name, at in one.below.items():
            tables.setdefault(name, []).append(at)
    if cuts.n_sections > 1:
        n_cells = session.plan.schema.n_cells
        key, count = _added(sums)
        given = Population(key // n_cells, {}, key % n_cells, count)
        above = session.above(given, {name: _added(at) for name, at in tables.items()})
        looked.add(_look(session, above, [name for name in OF_AREAS if name not in looked.failed]))
    return looked


def look_at_section(session: Session, number: int) -> Looked:
    """Make all checks of one section, and add its records and tables up to the level above the cut."""
    areas = session.section(number)
    looked = _look(session, areas, list(OF_AREAS))
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


def _look(session: Session, areas: Areas, names: list[str]) -> Looked:
    looked = Looked()
    for name in names:
        start = perf_counter()
        try:
            OF_AREAS[name](session, areas, looked.found[name])
        except UnreadableError as error:
            looked.failed[name] = NotAvailableError(name, error.finding)
        except Exception as error:  # raised again where the check reports it
            looked.failed[name] = error
        looked.seconds[name] = perf_counter() - start
    return looked


def _added(parts: list[tuple[Whole, Whole]]) -> tuple[Whole, Whole]:
    none = np.zeros(0, dtype=np.int64)
    keys, counts = ([none, *(part[i] for part in parts)] for i in (0, 1))
    return tally(np.concatenate(keys), np.concatenate(counts))
