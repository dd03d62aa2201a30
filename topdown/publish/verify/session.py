"""What the checks of one verification share: files read once, and results so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from topdown.model.query import Query
from topdown.publish.verify.arithmetic import Whole, fits
from topdown.publish.verify.base_file import BASE_FILES, PLAN, BaseTable, leaves_of, load_base
from topdown.publish.verify.ledger_file import LedgerFile, load_ledger
from topdown.publish.verify.plan_file import PlanFile, load_plan
from topdown.publish.verify.population import PERSONS, Population, Table, load_population, load_table
from topdown.publish.verify.possible_answers import PossibleAnswers, possible_answers
from topdown.publish.verify.reader import UnreadableError, open_inside, read_json, sha256_of
from topdown.publish.verify.result import CheckResult, Finding
from topdown.publish.verify.tree import Tree, inhabited, load_facts, load_tree

T = TypeVar("T")
KEPT_ROWS = 1 << 21  # of published tables, 16 bytes each


class NotAvailableError(Exception):
    """Something a check needs could not be read; `owner` is the check that reports why."""

    def __init__(self, owner: str, finding: Finding) -> None:
        super().__init__(finding.text)
        self.owner, self.finding = owner, finding


@dataclass
class Session:
    """Lazily read parts of one release; a part that failed once fails the same way again.

    Args:
        root: the release.
        results: checks done so far, in order.
        hashes: SHA-256 of the files hashed so far, by path.

    """

    root: Path
    results: list[CheckResult] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    _memo: dict[str, Any] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)

    def once(self, key: str, owner: str, load: Callable[[], T]) -> T:
        """Return `load()`, computed once; NotAvailableError if it cannot be read."""
        if key not in self._memo:
            try:
                self._memo[key] = load()
            except UnreadableError as error:
                self._memo[key] = NotAvailableError(owner, error.finding)
        value = self._memo[key]
        if isinstance(value, NotAvailableError):
            raise value
        return value  # type: ignore[no-any-return]

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
        return self.once("base", "base", lambda: load_base(self.root, plan, below, tree))

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
    def facts_below(self) -> dict[str, dict[str, Whole]]:
        """The public facts of the releases that this one extends, newest first, by the path of their plans."""
        tree, plans = self.tree, self.plans_below

        def load() -> dict[str, dict[str, Whole]]:
            leaves = tree.geocodes[-1]
            return {p: load_facts(self.root, plan, leaves, leaves_of(p), "V160") for p, plan in plans.items()}

        return self.once("facts below", "base", load)

    @property
    def carried(self) -> tuple[str, ...]:
        """Paths of the files that an extension carries."""
        plans = self.plans_below
        return tuple({*BASE_FILES, *plans, *map(leaves_of, plans)}) if plans else ()

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
    def raw_population(self) -> Population:
        """The microdata as written, right or wrong."""
        plan, tree = self.plan, self.tree
        return self.once("raw population", "whole numbers", lambda: load_population(self.root, plan, tree))

    @property
    def population(self) -> Population:
        """The microdata, if every row names a known leaf and cell and the counts can be added up."""
        raw = self.raw_population

        def load() -> Population:
            if (raw.leaf < 0).any() or (raw.cell < 0).any() or not fits(raw.count):
                text = "the microdata have rows that cannot be counted"
                raise UnreadableError(Finding("V102", text, file=PERSONS))
            return raw

        return self.once("population", "whole numbers", load)

    def table(self, query: Query, level: int) -> Table:
        """Return one published table; those that are too many to keep are read again when asked for again."""
        plan, tree = self.plan, self.tree
        listed = None if plan.coverage is None else self.possible_answers.listed(query, level)
        name = f"table {query.name} {level}"
        table = self.once(name, "tables", lambda: load_table(self.root, plan, tree, query, level, listed))
        self._rows[name] = 0  # of all others that are kept
        if sum(self._rows.values()) + len(table.key) > KEPT_ROWS:
            del self._memo[name], self._rows[name]
        else:
            self._rows[name] = len(table.key)
        return table

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
