"""Public knowledge that a release must reproduce: every kind of invariant, its tables, and what is made of them.

A kind is one class. It says everything that depends on the kind: the keys of its TOML table, the public columns that it
reads, its numbers, its words. Whoever handles invariants finds the kinds through `KINDS` and asks what they are: rows
that close or bound cells of leaves, exact statistics of a level, soft rules. `topdown/verify/rule_kinds.py` reads and
checks every kind once more, by its own code; a kind that is missing there is refused.

Invariants are made of the same tables whether a file holds them or a program: `InvariantsFile`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, get_type_hints

import numpy as np
from msgspec import Struct, ValidationError, convert, defstruct

from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.formats import InvariantKindName
from topdown.formats.common import OneLine
from topdown.formats.strict_toml import locating_errors
from topdown.model.cell_sets import NO_LIMIT
from topdown.model.schema import Schema
from topdown.notebook import card

Selection = tuple[tuple[str, tuple[str, ...]], ...]  # ((attribute, labels), ...): cells with all of them
NameCells = Callable[[Selection], str]
Line = tuple[str, str]  # algebra, reason


@dataclass(frozen=True)
class TableKey:
    """A key of the tables of invariants files: what it means, an example in TOML, errors that a wrong value ends in."""

    text: str
    example: str
    codes: str


KEYS = {
    "level": TableKey("Of an exact table.", '"country"', "C032"),
    "query": TableKey("total, an attribute, a recode, or several joined by ` * `.", '"total"', "C024"),
    "cells": TableKey(
        "Labels by attribute or recode; {} is everybody.", '{ age = ["65+"] }', "C024 C025 C134"
    ),
    "column": TableKey("Public column of the leaves.", '"beds"', "D004"),
    "columns": TableKey("Public columns of the leaves.", '["homes"]', "D004"),
    "per": TableKey("Factor of the column.", "2", "C031"),
    "than": TableKey("As cells, of the other side.", "{}", "C134"),
    "times": TableKey("Factor of the other side.", "3", "C031"),
}
"""Every key of some kind, beside its name and legal basis. A whole number is a factor, and may be left out."""


@dataclass(frozen=True)
class Basis:
    """Why a statistic is published without noise; answers a person must give, "?" while open."""

    legal_basis: str = "?"
    decided_by: str = "?"
    date: str = "?"


class InvariantKind(ABC):
    """What every invariant says of its kind; its fields, other than name and basis, are the keys of its TOML table.

    Attributes:
        kind: name of its tables in an invariants file.
        text, error_codes: what it promises, and what wrong tables of it end in, for the reference of invariants files.
        closes: whether it says where nobody can be.
        is_lower, is_upper: whether its numbers are lower bounds, upper bounds, or both.
        always_listed: whether plans that have none say so, as the first kinds do.
    """

    kind: ClassVar[InvariantKindName]
    text: ClassVar[str]
    error_codes: ClassVar[str] = "C031"
    closes: ClassVar[bool] = False
    is_lower: ClassVar[bool] = False
    is_upper: ClassVar[bool] = False
    always_listed: ClassVar[bool] = False
    name: str
    basis: Basis

    @classmethod
    def table_keys(cls) -> dict[str, bool]:
        """Return the keys of its table, beside name and legal basis, and whether each is needed."""
        return {f.name: f.default is MISSING for f in fields(cls) if f.name not in ("name", "basis")}  # type: ignore[arg-type]

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Public leaf columns that it reads."""
        return ()

    @property
    def closes_everywhere(self) -> bool:
        """Whether nobody is in its cells, by definition."""
        return self.closes and not self.read_columns

    @abstractmethod
    def algebra(self, name_cells: NameCells) -> Line:
        """Write what it asks of any area above the leaves, whose numbers are sums over them, and why."""


class LeafRule(InvariantKind):
    """A hard rule on the records of some cells at every leaf."""

    cells: Selection

    @abstractmethod
    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return the bound at each leaf, int64 (n_leaves,); NO_LIMIT for none.

        Args:
            columns: public facts, int64 (n_leaves,), by name.
        """

    def made_columns(self, n_people: Ints) -> dict[str, Ints]:
        """Return its columns as a made-up census needs them: the least numbers with which so many people keep it.

        Of kinds that bound counts from above; where people are made for columns instead, there is nothing to return.

        Args:
            n_people: in its cells at each leaf, int64 (n_leaves,).
        """
        raise NotImplementedError(f"made-up people cannot keep {self.kind}")


class SoftRule(InvariantKind):
    """A rule that is known of every true population and not promised of the released one.

    It is kept wherever that is possible and reported where it is not.
    """

    @abstractmethod
    def weights(self, schema: Schema) -> Ints:
        """Return a number for each cell, int64 (n_cells,): records keep the rule if their numbers add up to 0 or less.

        Added up over leaves they stay so: every node above keeps the rule too (necessary; not sufficient).
        """

    @property
    @abstractmethod
    def attributes(self) -> frozenset[str]:
        """Attributes that it speaks of."""


@dataclass(frozen=True)
class Exact(InvariantKind):
    """Equality: the answers of `query` at every node of `level` are those of the confidential records."""

    kind = "exact"
    text = "As counted, at every area of a level: level, query."
    error_codes = "C031 C033"
    is_lower = True
    is_upper = True
    always_listed = True
    name: str
    level: str
    query: str
    basis: Basis = Basis()

    def algebra(self, name_cells: NameCells) -> Line:
        """Write that it is known at its level."""
        return f"x[{self.query}] = its exact answers, at level {self.level} and sums of them above", self.name


@dataclass(frozen=True)
class ColumnBound(LeafRule):
    """At every leaf, the records in `cells` are bounded by `per` times a public column."""

    name: str
    cells: Selection
    column: str
    per: int = 1
    basis: Basis = Basis()

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Public leaf columns that it reads."""
        return (self.column,)

    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return the bound at each leaf, a number of records."""
        return np.asarray(self.per * columns[self.column], dtype=np.int64)

    def algebra(self, name_cells: NameCells) -> Line:
        """Write the bound."""
        sign, theorem = (">=", " (Theorem 3)") if self.is_lower else ("<=", "")
        times = "" if self.per == 1 else f"{self.per} "
        return f"x[{name_cells(self.cells)}] {sign} {times}sum {self.column}", f"{self.name}{theorem}"


@dataclass(frozen=True)
class AtLeast(ColumnBound):
    """At every leaf, the records in `cells` number at least `per` times the public column."""

    kind = "at_least"
    text = "In every leaf at least `per` times a column: cells, column."
    always_listed = True
    is_lower = True


@dataclass(frozen=True)
class NoneWhereZero(LeafRule):
    """At every leaf where the public columns are all zero, no record lies in `cells`."""

    kind = "none_where_zero"
    text = "Nobody where all columns are zero: cells, columns."
    always_listed = True
    closes = True
    is_upper = True
    name: str
    cells: Selection
    columns: tuple[str, ...]
    basis: Basis = Basis()

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Public leaf columns that it reads."""
        return self.columns

    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return 0 where nobody can be."""
        return np.where(np.all([columns[c] == 0 for c in self.columns], axis=0), 0, NO_LIMIT)

    def algebra(self, name_cells: NameCells) -> Line:
        """Write where nobody is."""
        facts = " + ".join(f"sum {column}" for column in self.columns)
        return f"x[{name_cells(self.cells)}] = 0 if {facts} = 0", f"{self.name} (Theorem 8)"


@dataclass(frozen=True)
class Never(LeafRule):
    """Structural zero: no record lies in `cells`, anywhere, by definition."""

    kind = "never"
    text = "Nobody, anywhere: cells."
    always_listed = True
    closes = True
    is_upper = True
    name: str
    cells: Selection
    basis: Basis = Basis()

    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return 0 everywhere."""
        return np.zeros(n_leaves, dtype=np.int64)

    def algebra(self, name_cells: NameCells) -> Line:
        """Write that nobody is there."""
        return f"x[{name_cells(self.cells)}] = 0", f"{self.name} (Theorem 8)"


@dataclass(frozen=True)
class AtMost(ColumnBound):
    """At every leaf, the records in `cells` number at most `per` times the public column."""

    kind = "at_most"
    text = "In every leaf at most `per` times a column: cells, column."
    is_upper = True

    def made_columns(self, n_people: Ints) -> dict[str, Ints]:
        """Return as many as the people need."""
        return {self.column: -(-n_people // self.per)}


@dataclass(frozen=True)
class NoMoreThan(SoftRule):
    """At every leaf, the records in `cells` number at most `times` those in `than`."""

    kind = "no_more_than"
    text = "Soft: no more than `times` the records in `than`: cells, than."
    name: str
    cells: Selection
    than: Selection
    times: int = 1
    basis: Basis = Basis()

    def weights(self, schema: Schema) -> Ints:
        """Return 1 in `cells`, -times in `than`, 1 - times in both."""
        some, others = (schema.select(dict(cells)).astype(np.int64) for cells in (self.cells, self.than))
        return some - self.times * others

    @property
    def attributes(self) -> frozenset[str]:
        """Attributes of both sides."""
        return frozenset(name for name, _ in (*self.cells, *self.than))

    def algebra(self, name_cells: NameCells) -> Line:
        """Write the comparison."""
        times = "" if self.times == 1 else f"{self.times} "
        return f"x[{name_cells(self.cells)}] <= {times}x[{name_cells(self.than)}], soft", self.name


KINDS: tuple[type[InvariantKind], ...] = (Exact, AtLeast, NoneWhereZero, Never, AtMost, NoMoreThan)
"""Every kind, in the order of invariants files; `Invariants` has a field for each."""


MOST_TIMES = 1_000_000
_DOCUMENT = "topdown.invariants"


class NamedTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One constraint of an invariants file: what every kind has; `KEYS` has the other keys.

    `cells` and `than` are the cells with one of the listed labels in every attribute or recode named; {} is everybody.
    """

    name: OneLine
    legal_basis: str
    decided_by: str = ""
    date: str = ""


class FileHead(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An invariants file, without its constraints."""

    type: str
    version: int
    name: str
    title: str
    schema: str
    source: str = ""
    adds_to: str = ""  # bundled name or file of invariants that are part of these


_Labels = dict[str, tuple[str, ...]]  # by attribute or recode
_AS_WRITTEN: dict[Any, tuple[Any, Any]] = {  # in TOML: type of a key, and its value where it is left out
    Selection: (_Labels | None, None),
    str: (str, ""),
    tuple[str, ...]: (tuple[str, ...], ()),
    int: (int, 1),
}
_KEY_TYPES: dict[str, Any] = {key: get_type_hints(kind)[key] for kind in KINDS for key in kind.table_keys()}
ConstraintTable = defstruct(
    "ConstraintTable",
    [(key, *_AS_WRITTEN[_KEY_TYPES[key]]) for key in KEYS],
    bases=(NamedTable,),
    frozen=True,
    kw_only=True,
)
InvariantsFile = defstruct(
    "InvariantsFile",
    [(kind.kind, tuple[ConstraintTable, ...], ()) for kind in KINDS],  # type: ignore[valid-type]
    bases=(FileHead,),
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, repr=False)
class Invariants:
    """Everything one release promises about public knowledge."""

    name: str
    title: str
    schema: str
    exact: tuple[Exact, ...] = ()
    at_least: tuple[AtLeast, ...] = ()
    none_where_zero: tuple[NoneWhereZero, ...] = ()
    never: tuple[Never, ...] = ()
    source: str = ""
    at_most: tuple[AtMost, ...] = ()
    no_more_than: tuple[NoMoreThan, ...] = ()

    @property
    def by_kind(self) -> dict[InvariantKindName, tuple[InvariantKind, ...]]:
        """The constraints of every kind."""
        return {kind.kind: getattr(self, kind.kind) for kind in KINDS}

    @property
    def rules(self) -> tuple[InvariantKind, ...]:
        """All constraints, kind by kind."""
        return tuple(rule for rules in self.by_kind.values() for rule in rules)

    @property
    def leaf_rules(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves, kind by kind: lower bounds, then upper bounds, then what closes cells."""
        rules = (rule for rule in self.rules if isinstance(rule, LeafRule))
        return tuple(sorted(rules, key=lambda rule: (rule.closes, not rule.is_lower)))

    @property
    def closing(self) -> tuple[LeafRule, ...]:
        """Rules that say where nobody can be."""
        return tuple(rule for rule in self.leaf_rules if rule.closes)

    @property
    def bounds(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves that bound counts instead."""
        return tuple(rule for rule in self.leaf_rules if not rule.closes)

    @property
    def lower_bounds(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves that ask for records."""
        return tuple(rule for rule in self.leaf_rules if rule.is_lower)

    @property
    def upper_bounds(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves that limit how many records there are, other than to none."""
        return tuple(rule for rule in self.bounds if rule.is_upper)

    @property
    def soft_rules(self) -> tuple[SoftRule, ...]:
        """Rules that are kept where that is possible."""
        return tuple(rule for rule in self.rules if isinstance(rule, SoftRule))

    @property
    def columns(self) -> tuple[str, ...]:
        """Public leaf columns the constraints read, each once."""
        return tuple(dict.fromkeys(column for rule in self.rules for column in rule.read_columns))

    @staticmethod
    def from_tables(
        schema: Schema,
        name: str = "own",
        title: str = "",
        **tables: Sequence[Mapping[str, object]],
    ) -> Invariants:
        """Return invariants of the tables that an invariants file would have, as mappings, by kind.

        >>> from topdown import Invariants, Schema
        >>> schema = Schema.from_lists({"age": ["0-17", "18+"], "married": ["no", "yes"]})
        >>> Invariants.from_tables(
        ...     schema,
        ...     exact=[{"level": "land", "query": "total", "legal_basis": "Census Act, s. 2"}],
        ...     never=[{"cells": {"age": ["0-17"], "married": ["yes"]}}],
        ... )
        Invariants('own', exact 1, never 1)

        Args:
            schema: of the records.
            name, title: of the invariants.
            tables: by kind (exact, at_least, at_most, none_where_zero, never, no_more_than), a mapping each with the
                keys of `topdown explain invariants`. A name left out is the kind with a number, a legal basis "?".

        Raises:
            ConfigError: C343 no such kind or key, or a value of another type; C031 a key too many or missing, C024,
                C025, C134 the cells, C034 a name twice.
        """
        named = {
            kind: [
                {"name": f"{kind} {number}", "legal_basis": Basis.legal_basis} | dict(table)
                for number, table in enumerate(of, start=1)
            ]
            for kind, of in tables.items()
        }
        head = {"type": _DOCUMENT, "version": 1, "name": name, "title": title, "schema": schema.name}
        try:
            file = convert(head | named, InvariantsFile)
        except ValidationError as error:
            raise ConfigError(
                f"these are no tables of invariants: {error}",
                code="C343",
                fix=f"give lists of mappings by kind: {', '.join(kind.kind for kind in KINDS)}",
            ) from None
        made = Invariants.of_file(file, schema)
        made.refuse_twice("")
        return made

    @staticmethod
    def of_file(file: Any, schema: Schema, of: str = "") -> Invariants:
        """Return the invariants of an `InvariantsFile`, without those it adds to.

        Args:
            schema: whose names are used. of: where the tables stand, for messages.

        Raises:
            ConfigError: a key too many or missing, unknown attribute or label.
        """
        found: dict[str, Any] = {}
        for kind in KINDS:
            for number, table in enumerate(getattr(file, kind.kind)):
                with locating_errors(kind.kind, str(number)):
                    _check_keys(of, kind, table)
        for kind in KINDS:
            given = enumerate(getattr(file, kind.kind))
            found[kind.kind] = tuple(_build_constraint(kind, i, table, schema) for i, table in given)
        return Invariants(file.name, file.title, file.schema, source=file.source, **found)

    @property
    def file(self) -> Any:
        """The `InvariantsFile` that says the same."""
        tables = {kind.kind: tuple(_table_of(rule) for rule in getattr(self, kind.kind)) for kind in KINDS}
        return InvariantsFile(
            type=_DOCUMENT,
            version=1,
            name=self.name,
            title=self.title,
            schema=self.schema,
            source=self.source,
            **tables,
        )

    def __add__(self, other: Invariants) -> Invariants:
        """Return both, under the name of this; ConfigError C034 where both have a constraint of one name."""
        both: dict[str, Any] = {kind: rules + other.by_kind[kind] for kind, rules in self.by_kind.items()}
        made = replace(self, **both)
        made.refuse_twice("")
        return made

    def refuse_twice(self, of: str) -> None:
        """Refuse two constraints of one name (ConfigError C034)."""
        names = Counter(rule.name for rule in self.rules)
        twice = [name for name, n in names.items() if n > 1]
        if twice:
            raise ConfigError(
                f"constraint {twice[0]!r}{of} is there twice",
                code="C034",
                fix="give it another name, or remove it",
            )

    def __repr__(self) -> str:
        numbers = [f"{kind} {len(rules)}" for kind, rules in self.by_kind.items() if rules]
        return f"Invariants({', '.join([repr(self.name), *numbers])})"

    def _repr_html_(self) -> str:
        rows = [
            (rule.kind, rule.name, rule.algebra(_cells_in_words)[0], rule.basis.legal_basis)
            for rule in self.rules
        ]
        head = ("kind", "name", "what is kept", "legal basis")
        return card(f"Invariants {self.name}", rows, head=head)


def _table_of(rule: InvariantKind) -> Any:
    """Return the table of a constraint; cells are labels of attributes."""
    keys = {key: getattr(rule, key) for key in rule.table_keys()}
    keys = {key: dict(value) if _KEY_TYPES[key] == Selection else value for key, value in keys.items()}
    basis = rule.basis
    return ConstraintTable(
        name=rule.name, legal_basis=basis.legal_basis, decided_by=basis.decided_by, date=basis.date, **keys
    )


def _cells_in_words(cells: Selection) -> str:
    return ", ".join(f"{name} {' or '.join(labels)}" for name, labels in cells)


def _check_keys(of: str, kind: type[InvariantKind], table: NamedTable) -> None:
    """Refuse keys that the kind does not have or that are missing, and factors out of range (ConfigError C031)."""
    values = {key: getattr(table, key) for key in KEYS}
    given = {key for key, value in values.items() if value != _AS_WRITTEN[_KEY_TYPES[key]][1]}
    factors = [value for value in values.values() if isinstance(value, int)]
    keys = kind.table_keys()
    needed = {key for key, is_needed in keys.items() if is_needed}
    if not needed <= given <= set(keys) or not all(1 <= f <= MOST_TIMES for f in factors):
        raise ConfigError(
            f"constraint {table.name!r}{of}: [[{kind.kind}]] needs exactly the keys {sorted(needed)}, "
            f"has {sorted(given)}",
            code="C031",
            fix=f"add the missing keys, remove the others; factors are from 1 to {MOST_TIMES:,}",
        )


def _build_constraint(
    kind: type[InvariantKind], number: int, table: NamedTable, schema: Schema
) -> InvariantKind:
    values: dict[str, Any] = {key: getattr(table, key) for key in kind.table_keys()}
    for name in sorted(key for key in values if _KEY_TYPES[key] == Selection):
        with locating_errors(kind.kind, str(number), name):
            values[name] = _parse_selection(schema, table.name, values[name] or {})
    basis = Basis(table.legal_basis, table.decided_by, table.date)
    return kind(name=table.name, basis=basis, **values)  # type: ignore[call-arg]


def _parse_selection(schema: Schema, rule: str, given: dict[str, tuple[str, ...]]) -> Selection:
    """Return cells by labels of attributes.

    Args:
        schema: of the records. rule: name of the constraint, for messages.
        given: labels by attribute, and groups by recode; none is every cell.

    Raises:
        ConfigError: C024 no such attribute or recode, C025 no such label, C134 nothing is left.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for name, labels in given.items():
        if not labels:
            raise _empty_selection_error(rule, name)
        attribute, meant = _attribute_and_labels(schema, name, labels)
        kept[attribute] = tuple(label for label in kept.get(attribute, meant) if label in meant)
        if not kept[attribute]:
            raise _empty_selection_error(rule, name)
    if not kept:  # everybody: all labels of the shortest attribute
        least = min(schema.attributes, key=lambda a: len(a.labels))
        kept[least.name] = least.labels
    return tuple(kept.items())


def _attribute_and_labels(schema: Schema, name: str, labels: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the attribute that a name is of, and the labels of it that are meant, as they are listed."""
    found = [(a, r) for a in schema.attributes for r in a.recodes if r.name == name]
    if not found:
        schema.kept({name: labels})
        return name, labels
    attribute, recode = found[0]
    wrong = [label for label in labels if label not in recode.group_labels]
    if wrong:
        raise ConfigError(
            f"{wrong[0]!r} is no group of recode {name!r}",
            code="C025",
            fix="use groups of the recode: " + ", ".join(recode.group_labels[:12]),
        )
    meant = {recode.group_labels.index(label) for label in labels}
    pairs = zip(attribute.labels, recode.group_of, strict=True)
    return attribute.name, tuple(label for label, group in pairs if group in meant)


def _empty_selection_error(rule: str, name: str) -> ConfigError:
    return ConfigError(
        f"constraint {rule!r} leaves no value of {name!r}",
        code="C134",
        fix="list the values, or leave the attribute out to mean all of them; {} means everybody",
    )
