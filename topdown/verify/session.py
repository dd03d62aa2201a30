"""What the checks of one verification share: files read once, findings, results; `run_check` runs one check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.errors import InternalError
from topdown.formats.verify_documents import CheckResult, Finding
from topdown.verify.exact_arithmetic import narrow, tally
from topdown.verify.findings import Findings
from topdown.verify.ledger_reader import LedgerFile, load_ledger
from topdown.verify.plan_reader import PlanFile, load_plan
from topdown.verify.public_tree import (
    Facts,
    FileSections,
    PossibleAnswers,
    Tree,
    file_sections,
    inhabited,
    load_facts,
    load_tree,
    possible_answers,
)
from topdown.verify.query_labels import Query
from topdown.verify.released_records import (
    MANIFEST,
    PERSONS,
    PLAN,
    Areas,
    BaseTable,
    Population,
    Sums,
    Table,
    base_leaves_path,
    base_table_paths,
    concat_populations,
    concat_tables,
    load_base,
    tree_above,
    tree_of_section,
)
from topdown.verify.strict_reader import (
    LoadedOnce,
    NotAvailableError,
    UnreadableError,
    names_inside,
    open_inside,
    read_json,
    sha256_of,
)

Shared = TypeVar("Shared")
Found = TypeVar("Found")


class EachSection(Protocol):
    """Goes through the sections of a release, in this process or elsewhere."""

    def __call__(
        self, look: Callable[[Shared, int], Found], shared: Shared, n_sections: int, /
    ) -> Iterable[Found]:
        """Yield what is found in each section, in order; `look` changes nothing but what it returns."""
        ...


def sections_in_order(
    look: Callable[[Shared, int], Found], shared: Shared, n_sections: int, /
) -> Iterable[Found]:
    """Look at one section after the other."""
    return (look(shared, number) for number in range(n_sections))


@dataclass
class Session:
    """Lazily read parts of one release; a part that failed once fails the same way again.

    Args:
        each: how sections are gone through.
        area_checks: what is looked at section by section, by the name of the check.
        results: checks done so far, in order.
        hashes: SHA-256 of the files hashed so far, by path.
        written: of the files that this very process wrote, by path: see `ParquetTable`.
        tell: called with what is looked at next.

    """

    root: Path
    each: EachSection = sections_in_order
    area_checks: Mapping[str, AreaCheck] = field(default_factory=dict)
    results: list[CheckResult] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda _: None
    once: LoadedOnce = field(default_factory=LoadedOnce)

    @property
    def plan(self) -> PlanFile:
        """The plan."""
        return self.once("plan", "plan", lambda: load_plan(self.root))

    @property
    def tree(self) -> Tree:
        """The geography and the public facts."""
        plan = self.plan
        return self.once("tree", "plan", lambda: load_tree(self.root, plan))

    @property
    def base(self) -> BaseTable | None:
        """The table that an extension keeps; None in a release that extends nothing."""
        plan, tree = self.plan, self.tree
        if plan.base is None:
            return None
        below = next(iter(self.plans_below.values()))
        return self.once("base", "base", lambda: load_base(self.root, plan, below, tree, self.cuts))

    @property
    def plans_below(self) -> dict[str, PlanFile]:
        """The plans of the releases that this one extends, newest first, by path; none if it extends nothing."""
        plan = self.plan

        def load() -> dict[str, PlanFile]:
            found: dict[str, PlanFile] = {}
            above, path = plan, PLAN
            while above.base is not None:
                above = found[path] = load_plan(self.root, path, "V160")
                path = f"base/{path}"
            return found

        return self.once("plans below", "base", load)

    @property
    def facts_below(self) -> dict[str, Facts]:
        """The public facts of the releases that this one extends, newest first, by the path of their plans."""
        tree, plans = self.tree, self.plans_below

        def load() -> dict[str, Facts]:
            leaves = tree.geocodes[-1]
            return {
                p: load_facts(self.root, plan, leaves, base_leaves_path(p), "V160")
                for p, plan in plans.items()
            }

        return self.once("facts below", "base", load)

    @property
    def carried(self) -> tuple[str, ...]:
        """Paths of the files that an extension carries."""
        plans = self.plans_below
        return tuple({*self.base_files, *plans, *map(base_leaves_path, plans)}) if plans else ()

    @property
    def base_files(self) -> tuple[str, ...]:
        """Plan, manifest and microdata of the base release."""
        return (PLAN, MANIFEST, *base_table_paths(self.tree, self.cuts))

    @property
    def older_plans(self) -> dict[str, PlanFile]:
        """The plans of the releases that the base extends, newest first, by path."""
        return dict(list(self.plans_below.items())[1:])

    @property
    def is_measured(self) -> tuple[NDArray[np.bool_], ...]:
        """Marks the nodes of each level that are measured."""
        base, plan, tree = self.base, self.plan, self.tree
        if base is not None:
            return base.inhabited(tree)
        return self.once("is measured", "plan", lambda: inhabited(tree, plan))

    @property
    def cuts(self) -> FileSections:
        """Where the files are cut into sections."""
        tree = self.tree
        return self.once("cuts", "plan", lambda: file_sections(tree))

    def section(self, number: int) -> Areas:
        """Return the areas of a section; where there is only one they are kept, with what was read of them."""
        plan, tree, cuts = self.plan, self.tree, self.cuts
        possible = None if plan.coverage is None else self.possible_answers
        if cuts.n_sections > 1:
            here, first = tree_of_section(tree, cuts, number)
            up = tree.parent[cuts.level][slice(*cuts.span(number, cuts.level))]
            return Areas(
                self.root, plan, here, cuts.level, first, number, possible, up=up, is_own=self.is_own
            )
        zeros = (0,) * len(tree.names)
        return self.once(
            "areas",
            "plan",
            lambda: Areas(self.root, plan, tree, 0, zeros, None, possible, is_own=self.is_own),
        )

    def sections(self) -> Iterator[Areas]:
        """Yield the areas of every section."""
        for number in range(self.cuts.n_sections):
            yield self.section(number)

    def check_sections(self, name: str, out: Findings) -> SectionFindings:
        """Add what a check finds in the sections and above them to `out`; all such checks are made at once."""
        start = perf_counter()
        checked = self.once("checked sections", "plan", lambda: check_all_sections(self))
        checked.report(name, out, perf_counter() - start)
        return checked

    @property
    def persons(self) -> str:
        """Where the microdata are: a file, or a folder of parts."""
        return PERSONS if self.cuts.n_sections == 1 else PERSONS.removesuffix(".parquet")

    @property
    def n_records(self) -> int:
        """Number of records of the microdata."""
        return sum(int(areas.population.count.sum()) for areas in self.sections())

    @property
    def population(self) -> Population:
        """The microdata of all sections, if every row names a known leaf and cell and the counts can be added up."""
        if self.cuts.n_sections == 1:
            return self.section(0).population
        parts = [(areas.first[-1], areas.population) for areas in self.sections()]
        return self.once("population", "whole numbers", lambda: concat_populations(parts))

    def table(self, query: Query, level: int) -> Table:
        """Return one published table, of all sections."""
        if self.cuts.n_sections == 1:
            return self.section(0).table(query, level)
        if level < self.cuts.level:
            return self.above().table(query, level)
        at = [
            (areas.first[level - areas.top], areas.table(query, level - areas.top))
            for areas in self.sections()
        ]
        return concat_tables([table for _, table in at], [first * query.n_answers for first, _ in at])

    def above(self, given: Population | None = None, below: Sums | None = None) -> Areas:
        """Return the levels above the cut, with what was added up from sections."""
        plan, tree, level = self.plan, self.tree, self.cuts.level
        possible = None if plan.coverage is None else self.possible_answers
        here = self.once("tree above", "plan", lambda: tree_above(tree, level))
        return Areas(self.root, plan, here, 0, (0,) * level, None, possible, given, below, is_own=self.is_own)

    @property
    def possible_answers(self) -> PossibleAnswers:
        """Which answers public facts leave open."""
        plan, tree = self.plan, self.tree
        return self.once("possible answers", "plan", lambda: possible_answers(tree, plan))

    @property
    def ledger(self) -> LedgerFile:
        """The ledger."""
        return self.once("ledger", "ledger", lambda: load_ledger(self.root))

    def sha256(self, path: str) -> str:
        """Return the SHA-256 of a file, in hex; empty if it cannot be read."""
        if path not in self.hashes:
            try:
                with open_inside(self.root, path) as file:
                    self.hashes[path] = sha256_of(file)
            except (OSError, ValueError):
                return ""
        return self.hashes[path]

    def is_own(self, path: str) -> bool:
        """Tell whether a file holds the bytes that this very process wrote to it."""
        return path in self.written and self.sha256(path) == self.written[path]

    @property
    def certificate(self) -> dict[str, Any]:
        """The certificate as JSON values."""
        return self.once(
            "certificate",
            "certificate",
            lambda: read_json(self.root, "certificate.json", "V140", "topdown.certificate"),
        )


Check = Callable[[Session, Findings], str]
AreaCheck = Callable[[Session, Areas, Findings], None]
KILLED = "X046"  # a process that looked at a section, too often


def run_check(session: Session, name: str, check: Check) -> CheckResult:
    """Return what a check found; a file it cannot use is a finding, reported once by the check that owns it."""
    start, out = perf_counter(), Findings()
    try:
        text = check(session, out)
    except NotAvailableError as error:
        text = _not_available(name, error, out)
    except UnreadableError as error:
        out.add(error.finding)
        text = error.finding.text
    except Exception as error:  # the promise: a finding, never a traceback
        if isinstance(error, InternalError) and error.code == KILLED:  # that says nothing of the files
            raise
        text = f"not checked because the files cannot be read as documented ({type(error).__name__})"
        out.add(Finding("V199", text, why="the files are damaged, or this verifier has a fault"))
    out.n_checked = max(out.n_checked, out.n_failed, 1 if out.n_findings else 0)
    return out.close(name, text, perf_counter() - start + out.seconds)


def _not_available(name: str, error: NotAvailableError, out: Findings) -> str:
    if error.owner == name:
        out.add(error.finding)
        return error.finding.text
    text = f"not checked because {error.finding.text}"
    why = f"it needs what the check '{error.owner}' found unusable ({error.finding.code})"
    fix = f"look at the check '{error.owner}' first"
    out.add(Finding("V150", text, file=error.finding.file, why=why, fix=fix))
    return text


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

    found: dict[str, Findings] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
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
            self.found.setdefault(name, Findings()).merge(found)
            self.seconds[name] = self.seconds.get(name, 0) + other.seconds[name]
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
    for number, one in enumerate(session.each(check_section, session, cuts.n_sections), 1):
        session.tell(f"records and tables, section {number} of {cuts.n_sections}")
        looked.add(one)
        sums += [] if one.given is None else [one.given]
        for name, at in one.below.items():
            tables.setdefault(name, []).append(at)
    if cuts.n_sections > 1:
        n_cells = session.plan.schema.n_cells
        key, count = _tally_parts(sums)
        given = Population(key // n_cells, {}, key % n_cells, count)
        above = session.above(given, {name: _tally_parts(at) for name, at in tables.items()})
        left = [name for name in session.area_checks if name not in looked.failed]
        looked.add(_check_areas(session, above, left))
    return looked


def check_section(session: Session, number: int) -> SectionFindings:
    """Make all checks of one section, and add its records and tables up to the level above the cut."""
    areas = session.section(number)
    looked = _check_areas(session, areas, list(session.area_checks))
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
        start, out = perf_counter(), looked.found.setdefault(name, Findings())
        try:
            session.area_checks[name](session, areas, out)
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


FOLDER = "measurements"
MEASURED_PLAN = f"{FOLDER}/plan.json"  # of a release that solves another one's measurement
_PART = re.compile(r"part-[0-9]{3,}\.parquet")


def level_parts(session: Session, level: str) -> list[str]:
    """Return the paths of the parts of one level, in order of their numbers; empty if there are none."""
    names = filter(_PART.fullmatch, names_inside(session.root, f"{FOLDER}/{level}"))
    return [f"{FOLDER}/{level}/{name}" for name in sorted(names, key=lambda name: int(name[5:-8]))]


def part_paths(session: Session) -> list[str]:
    """Return the paths of all parts of the plan's levels."""
    return [path for level in session.plan.doc.levels for path in level_parts(session, level.name)]
