"""What the checks of one verification share: files read once, and results so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from topdown.model.query import Query
from topdown.publish.verify.areas import Areas, Sums, tree_above, tree_of_section
from topdown.publish.verify.base_file import MANIFEST, PLAN, BaseTable, leaves_of, load_base, tables_of_base
from topdown.publish.verify.cuts import Cuts, cuts_of
from topdown.publish.verify.ledger_file import LedgerFile, load_ledger
from topdown.publish.verify.once import Once
from topdown.publish.verify.plan_file import PlanFile, load_plan
from topdown.publish.verify.population import PERSONS, Population, Table, all_of, end_to_end
from topdown.publish.verify.possible_answers import PossibleAnswers, possible_answers
from topdown.publish.verify.reader import open_inside, read_json, sha256_of
from topdown.publish.verify.result import CheckResult, Findings
from topdown.publish.verify.tree import Facts, Tree, inhabited, load_facts, load_tree

if TYPE_CHECKING:
    from topdown.publish.verify.look import Looked


Shared = TypeVar("Shared")
Found = TypeVar("Found")


class EachSection(Protocol):
    """Goes through the sections of a release, in this process or elsewhere."""

    def __call__(
        self, look: Callable[[Shared, int], Found], shared: Shared, n_sections: int, /
    ) -> Iterable[Found]:
        """Yield what is found in each section, in order; `look` changes nothing but what it returns."""
        ...


def one_by_one(look: Callable[[Shared, int], Found], shared: Shared, n_sections: int, /) -> Iterable[Found]:
    """Look at one section after the other."""
    return (look(shared, number) for number in range(n_sections))


@dataclass
class Session:
    """Lazily read parts of one release; a part that failed once fails the same way again.

    Args:
        root: the release.
        each: how sections are gone through.
        results: checks done so far, in order.
        hashes: SHA-256 of the files hashed so far, by path.

    """

    root: Path
    each: EachSection = one_by_one
    results: list[CheckResult] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    once: Once = field(default_factory=Once)

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
        if plan.doc.base is None:
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
            while above.doc.base is not None:
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
            return {p: load_facts(self.root, plan, leaves, leaves_of(p), "V160") for p, plan in plans.items()}

        return self.once("facts below", "base", load)

    @property
    def carried(self) -> tuple[str, ...]:
        """Paths of the files that an extension carries."""
        plans = self.plans_below
        return tuple({*self.base_files, *plans, *map(leaves_of, plans)}) if plans else ()

    @property
    def base_files(self) -> tuple[str, ...]:
        """Plan, manifest and microdata of the base release."""
        return (PLAN, MANIFEST, *tables_of_base(self.tree, self.cuts))

    @property
    def older_plans(self) -> dict[str, PlanFile]:
        """The plans of the releases that the base extends, newest first, by path."""
        return dict(list(self.plans_below.items())[1:])

    @property
    def marks(self) -> tuple[NDArray[np.bool_], ...]:
        """Per level, the nodes that are measured."""
        base, plan, tree = self.base, self.plan, self.tree
        if base is not None:
            return base.inhabited(tree)
        return self.once("marks", "plan", lambda: inhabited(tree, plan))

    @property
    def cuts(self) -> Cuts:
        """Where the files are cut into sections."""
        tree = self.tree
        return self.once("cuts", "plan", lambda: cuts_of(tree))

    def section(self, number: int) -> Areas:
        """Return the areas of a section; where there is only one they are kept, with what was read of them."""
        plan, tree, cuts = self.plan, self.tree, self.cuts
        possible = None if plan.coverage is None else self.possible_answers
        if cuts.n_sections > 1:
            here, first = tree_of_section(tree, cuts, number)
            up = tree.parent[cuts.level][slice(*cuts.span(number, cuts.level))]
            return Areas(self.root, plan, here, cuts.level, first, number, possible, up=up)
        zeros = (0,) * len(tree.names)
        return self.once("areas", "plan", lambda: Areas(self.root, plan, tree, 0, zeros, None, possible))

    def sections(self) -> Iterator[Areas]:
        """Yield the areas of every section."""
        for number in range(self.cuts.n_sections):
            yield self.section(number)

    def looked(self, name: str, out: Findings) -> Looked:
        """Add what a check finds in the sections and above them to `out`; all such checks are made at once."""
        from topdown.publish.verify.look import look_at_sections

        start = perf_counter()
        looked = self.once("looked", "plan", lambda: look_at_sections(self))
        looked.report(name, out, perf_counter() - start)
        return looked

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
        return self.once("population", "whole numbers", lambda: all_of(parts))

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
        return end_to_end([table for _, table in at], [first * query.n_answers for first, _ in at])

    def above(self, given: Population | None = None, below: Sums | None = None) -> Areas:
        """Return the levels above the cut, with what was added up from sections."""
        plan, tree, level = self.plan, self.tree, self.cuts.level
        possible = None if plan.coverage is None else self.possible_answers
        here = self.once("tree above", "plan", lambda: tree_above(tree, level))
        return Areas(self.root, plan, here, 0, (0,) * level, None, possible, given, below)

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

    @property
    def certificate(self) -> dict[str, Any]:
        """The certificate as JSON values."""
        return self.once(
            "certificate",
            "certificate",
            lambda: read_json(self.root, "certificate.json", "V140", "topdown.certificate"),
        )
