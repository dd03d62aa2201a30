"""Every kind of rule about records: how plan.json states it, and what it demands of the records of a release.

A kind is one class, found through `RULE_KINDS`; a plan with rules of another kind is refused. Nothing is taken from the
modules that plans and releases are made with: only the form of the document (`topdown.formats`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.formats.release_documents import (
    BoundRule,
    CompareRule,
    ExactRule,
    InvariantRules,
    NeverRule,
    ZeroRule,
)
from topdown.verify.query_labels import Cells, Schema

MOST_FACTOR = 1_000_000  # of a public column, or of the other side of a comparison
Marks = NDArray[np.bool_]


class PlanRule(ABC):
    """A rule as plan.json states it."""

    kind: ClassVar[str]
    stated: ExactRule | NeverRule

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.stated.name

    @property
    def legal_basis(self) -> str:
        """Why it is published without noise, as far as somebody has said so."""
        return self.stated.basis.legal_basis

    @property
    def columns(self) -> Sequence[str]:
        """Public columns of leaves that it reads."""
        return ()

    @abstractmethod
    def check(self, schema: Schema, levels: Sequence[str]) -> None:
        """Raise ValueError if it names what the plan does not know, or has a number that no plan is made with."""


@dataclass(frozen=True)
class ExactStatistic(PlanRule):
    """Answers of a query at a level are published as counted."""

    kind = "exact"
    stated: ExactRule

    @property
    def level(self) -> str:
        """Level of the areas."""
        return self.stated.level

    @property
    def query(self) -> str:
        """What is counted."""
        return self.stated.query

    def check(self, schema: Schema, levels: Sequence[str]) -> None:
        """Refuse an unknown level; the query is read with all others."""
        if self.level not in levels:
            raise ValueError(f"invariant {self.name!r} names the unknown level {self.level!r}")


class CellRule(PlanRule):
    """A hard rule on the records of some cells at every leaf."""

    stated: NeverRule

    @property
    def cells(self) -> Cells:
        """Cells that it speaks of."""
        return self.stated.cells

    def check(self, schema: Schema, levels: Sequence[str]) -> None:
        """Refuse cells that the schema does not have, and factors out of range."""
        schema.kept(self.cells)
        if not 1 <= self.factor <= MOST_FACTOR:
            raise ValueError(f"rule {self.name!r} has a factor that is not from 1 to {MOST_FACTOR:,}")

    @property
    def factor(self) -> int:
        """Whole number that multiplies what it reads."""
        return 1


class ClosingRule(CellRule):
    """No record is in its cells at some leaves."""

    @abstractmethod
    def closed(self, facts: Mapping[str, Ints], n_leaves: int) -> Marks:
        """Mark the leaves where nobody can be in its cells, bool (n_leaves,)."""


class CountBound(CellRule):
    """The records in its cells are so many at every leaf, and added up at every node: at least, at most, or both.

    Attributes:
        is_least, is_most: which of both; one of them at least.
    """

    is_least: ClassVar[bool] = False
    is_most: ClassVar[bool] = False

    @abstractmethod
    def numbers(self, facts: Mapping[str, Ints]) -> Ints:
        """Return the bound of each leaf in records, int64 (n_leaves,) of at most 2^51."""


class SoftComparison(CellRule):
    """A rule that is kept where it can be; where it is not, solve.json says so."""

    @abstractmethod
    def broken(self, some: Mapping[str, Ints]) -> Marks:
        """Mark the leaves that break it, bool (n_leaves,)."""

    @property
    @abstractmethod
    def sides(self) -> dict[str, Cells]:
        """Cells whose records it compares, by name."""


@dataclass(frozen=True)
class NeverHeld(ClosingRule):
    """Nobody is in its cells anywhere."""

    kind = "never"
    stated: NeverRule

    def closed(self, facts: Mapping[str, Ints], n_leaves: int) -> Marks:
        """Mark every leaf."""
        return np.ones(n_leaves, dtype=bool)


@dataclass(frozen=True)
class ClosedWhereZero(ClosingRule):
    """Nobody is in its cells where all of some public columns are zero."""

    kind = "none_where_zero"
    stated: ZeroRule

    @property
    def columns(self) -> Sequence[str]:
        """Public columns of leaves that it reads."""
        return self.stated.columns

    def closed(self, facts: Mapping[str, Ints], n_leaves: int) -> Marks:
        """Mark the leaves whose columns are zero."""
        total = np.zeros(n_leaves, dtype=np.int64)
        for name in self.columns:
            total += facts[name]
        return np.asarray(total == 0)


class ColumnTimes(CountBound):
    """A bound that is a whole number times a public column."""

    stated: BoundRule

    @property
    def columns(self) -> Sequence[str]:
        """Public columns of leaves that it reads."""
        return (self.stated.column,)

    @property
    def factor(self) -> int:
        """Records for each unit of the column."""
        return self.stated.per

    def numbers(self, facts: Mapping[str, Ints]) -> Ints:
        """Return the column times the factor."""
        return facts[self.stated.column] * self.factor


@dataclass(frozen=True)
class FewestRecords(ColumnTimes):
    """Its cells have at least so many records."""

    kind = "at_least"
    is_least = True
    stated: BoundRule


@dataclass(frozen=True)
class MostRecords(ColumnTimes):
    """Its cells have at most so many records."""

    kind = "at_most"
    is_most = True
    stated: BoundRule


@dataclass(frozen=True)
class NotMoreThanOthers(SoftComparison):
    """The records in its cells are at most so many times those in other cells."""

    kind = "no_more_than"
    stated: CompareRule

    @property
    def factor(self) -> int:
        """Records in its cells for each of the others."""
        return self.stated.times

    @property
    def sides(self) -> dict[str, Cells]:
        """Its cells and the others."""
        return {"some": self.cells, "others": self.stated.than}

    def broken(self, some: Mapping[str, Ints]) -> Marks:
        """Mark the leaves with more than that."""
        return np.asarray(some["some"] > self.factor * some["others"])

    def check(self, schema: Schema, levels: Sequence[str]) -> None:
        """Refuse cells that the schema does not have, on both sides."""
        super().check(schema, levels)
        schema.kept(self.stated.than)


RULE_KINDS: dict[str, type[PlanRule]] = {
    rule.kind: rule
    for rule in (ExactStatistic, FewestRecords, ClosedWhereZero, NeverHeld, MostRecords, NotMoreThanOthers)
}
"""Every kind that is checked, in the order in which open answers are listed."""

HEAD = ("name", "title", "schema", "source")  # of a plan's invariants, beside their rules


@dataclass(frozen=True)
class Rules:
    """What a plan demands of the records, kind by kind."""

    all: tuple[PlanRule, ...]

    @staticmethod
    def of_plan(stated: InvariantRules) -> Rules:
        """Return the rules that a plan states; ValueError for a kind that is not checked."""
        if strange := sorted(set(get_type_hints(type(stated))) - {*HEAD, *RULE_KINDS}):
            raise ValueError(f"its invariants have {strange[0]!r}, which is not checked")
        rules = [kind(each) for name, kind in RULE_KINDS.items() for each in getattr(stated, name) or ()]  # type: ignore[call-arg]
        return Rules(tuple(rules))

    @cached_property
    def exact(self) -> tuple[ExactStatistic, ...]:
        """Statistics that are published as counted."""
        return tuple(rule for rule in self.all if isinstance(rule, ExactStatistic))

    @cached_property
    def closing_everywhere(self) -> tuple[ClosingRule, ...]:
        """Rules that say where nobody can be, of all leaves: they read no column."""
        return tuple(rule for rule in self.all if isinstance(rule, ClosingRule) and not rule.columns)

    @cached_property
    def closing_somewhere(self) -> tuple[ClosingRule, ...]:
        """Rules that say where nobody can be, of some leaves by public columns."""
        return tuple(rule for rule in self.all if isinstance(rule, ClosingRule) and rule.columns)

    @property
    def closing(self) -> tuple[ClosingRule, ...]:
        """Both."""
        return (*self.closing_everywhere, *self.closing_somewhere)

    def open_cells(self, schema: Schema) -> Marks:
        """Mark the cells that no rule closes at all leaves, bool (n_cells,); public columns may close more of them."""
        free = np.ones(schema.n_cells, dtype=bool)
        for rule in self.closing_everywhere:
            free &= ~schema.select(rule.cells)
        return free

    @cached_property
    def bounds(self) -> tuple[CountBound, ...]:
        """Rules that bound counts: those from below first."""
        bounds = (rule for rule in self.all if isinstance(rule, CountBound))
        return tuple(sorted(bounds, key=lambda rule: rule.is_most))

    @cached_property
    def soft(self) -> tuple[SoftComparison, ...]:
        """Rules that are kept where they can be."""
        return tuple(rule for rule in self.all if isinstance(rule, SoftComparison))

    @property
    def columns(self) -> list[str]:
        """Public columns of leaves that the rules read, each once."""
        return list(dict.fromkeys(name for rule in self.all for name in rule.columns))

    def check(self, schema: Schema, levels: Sequence[str]) -> None:
        """Raise ValueError if a rule does not fit the plan."""
        for rule in self.all:
            rule.check(schema, levels)
