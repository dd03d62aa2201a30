"""What a record can say: attributes, their values, and recodes that group values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.errors import ConfigError
from topdown.file_names import checked_name
from topdown.formats.caps import CELLS
from topdown.formats.common import MOST_RECORDS_OF_UNIT, PrivacyUnit
from topdown.notebook import card


@dataclass(frozen=True)
class Recode:
    """A named grouping of one attribute's values; every value belongs to exactly one group.

    Args:
        name: unique among all attributes and recodes of the schema.
        group_labels: one label a group.
        group_of: for each value of the attribute, the index of its group.
    """

    name: str
    group_labels: tuple[str, ...]
    group_of: tuple[int, ...]

    @staticmethod
    def of_groups(
        attribute: str, labels: Sequence[str], name: str, groups: Mapping[str, Sequence[str]]
    ) -> Recode:
        """Return a recode by the labels in each group; ConfigError C021 unless every label is in exactly one."""
        fix = "put every value of the attribute in exactly one group"
        group_of = dict.fromkeys(labels, -1)
        for index, (group, inside) in enumerate(groups.items()):
            for label in inside:
                if group_of.get(label) != -1:
                    problem = "is in two groups" if label in group_of else f"is no value of {attribute!r}"
                    raise ConfigError(
                        f"recode {name!r}: {label!r} in group {group!r} {problem}", code="C021", fix=fix
                    )
                group_of[label] = index
        left = [label for label, index in group_of.items() if index == -1]
        if left:
            raise ConfigError(f"recode {name!r} leaves out {left[0]!r}", code="C021", fix=fix)
        return Recode(name, tuple(groups), tuple(group_of.values()))

    def __post_init__(self) -> None:
        used = set(self.group_of)
        if used != set(range(len(self.group_labels))):
            raise ConfigError(
                f"recode {self.name!r}: groups {sorted(used)} do not match its {len(self.group_labels)} labels",
                code="C021",
                fix="give every group at least one value of the attribute",
            )


@dataclass(frozen=True)
class Attribute:
    """One column of a record: a finite list of labelled values and the recodes defined on it."""

    name: str
    labels: tuple[str, ...]
    recodes: tuple[Recode, ...] = ()

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ConfigError(
                f"attribute {self.name!r} needs at least one value and no value twice",
                code="C020",
                fix="list each label once under `labels`",
            )
        for recode in self.recodes:
            if len(recode.group_of) != len(self.labels):
                raise ConfigError(
                    f"recode {recode.name!r} covers {len(recode.group_of)} values, "
                    f"attribute {self.name!r} has {len(self.labels)}",
                    code="C021",
                    fix="put every value of the attribute in exactly one group of the recode",
                )


@dataclass(frozen=True, repr=False)
class Schema:
    """The finite domain of a record: the product of its attributes' values.

    A cell is one combination of values, numbered in row-major order of the attributes (the last attribute
    varies fastest).
    """

    name: str
    title: str
    unit: str
    attributes: tuple[Attribute, ...]
    source: str = ""

    def __post_init__(self) -> None:
        names = [a.name for a in self.attributes] + [r.name for a in self.attributes for r in a.recodes]
        for name in names:
            checked_name(name, "attribute or recode")
        names += ["total", "detailed", "geocode", "count", "level", "node"]
        names += [self.privacy_unit.column] if self.privacy_unit.column else []
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ConfigError(
                f"schema {self.name!r} uses the name {twice[0]!r} twice (total, detailed, geocode, count, level, "
                "node and a unit of several records are reserved)",
                code="C022",
                fix="rename the attribute or recode",
            )
        if not self.attributes:
            raise ConfigError(
                f"schema {self.name!r} has no attribute", code="C020", fix="add an [[attribute]]"
            )
        if self.n_cells > CELLS:
            raise ConfigError(
                f"schema {self.name!r} has {self.n_cells:,} cells, more than {CELLS:,}",
                code="C023",
                fix="split the schema and release it in stages",
            )

    @staticmethod
    def from_lists(
        labels: Mapping[str, Sequence[str]],
        recodes: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]] | None = None,
        *,
        name: str = "own",
        unit: str = "person",
    ) -> Schema:
        """Return a schema of lists of labels. All of it is public: whoever is in the records.

        Args:
            labels: by attribute, all that a record can say, in the order of tables.
            recodes: by attribute and recode, its groups and the labels in each; every label is in one group.
            name: of the schema. unit: whose answers are protected: of one record, or of several.

        Raises:
            ConfigError: C020-C023, C130 a name or label twice, a label in no group or in two, too many cells.

        >>> from topdown import Schema
        >>> Schema.from_lists({"sex": ["female", "male"], "age": ["0-17", "18+"]}).n_cells
        4
        """
        made = []
        for attribute, values in labels.items():
            groups = dict((recodes or {}).get(attribute, {}))
            named = tuple(Recode.of_groups(attribute, values, *item) for item in groups.items())
            made.append(Attribute(attribute, tuple(values), named))
        return Schema(name, name, unit, tuple(made))

    def __repr__(self) -> str:
        shape = " x ".join(f"{a.name} ({len(a.labels)})" for a in self.attributes)
        return f"Schema({self.name!r}: {shape}, {self.n_cells:,} cells)"

    def _repr_html_(self) -> str:
        rows = [(a.name, ", ".join(a.labels), ", ".join(r.name for r in a.recodes)) for a in self.attributes]
        return card(
            f"Schema {self.name}: {self.n_cells:,} cells", rows, head=("attribute", "labels", "recodes")
        )

    @cached_property
    def privacy_unit(self) -> PrivacyUnit:
        """Whose answers are protected, and what a record is; ConfigError A080 if a number in the text is no bound."""
        unit = PrivacyUnit.read(self.unit)
        if unit.most_records == 1 and any(character.isdigit() for character in self.unit):
            raise ConfigError(
                f"schema {self.name!r}: the unit {self.unit!r} is none of 2 to {MOST_RECORDS_OF_UNIT:,} records",
                code="A080",
                fix='write what a record is, unit = "person", or unit = "household of at most 6 persons"',
                key=("unit",),
            )
        return unit

    @property
    def record(self) -> str:
        """What a record is: "person"."""
        return self.privacy_unit.record

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each attribute."""
        return tuple(len(a.labels) for a in self.attributes)

    @cached_property
    def n_cells(self) -> int:
        """Number of cells, the product of `shape`."""
        return prod(self.shape)

    def attribute(self, name: str) -> Attribute:
        """Return the attribute called `name`; ConfigError if there is none."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise ConfigError(
            f"schema {self.name!r} has no attribute {name!r}",
            code="C024",
            fix="use one of: " + ", ".join(a.name for a in self.attributes),
        )

    def coordinates(self, cells: Ints) -> tuple[NDArray[np.intp], ...]:
        """Return the value index of each attribute for each cell number."""
        return np.unravel_index(cells, self.shape)

    def cells(self, coordinates: tuple[Ints, ...]) -> Ints:
        """Return the cell number of each combination of value indices."""
        return np.ravel_multi_index(coordinates, self.shape).astype(np.int64)

    def select(self, values: dict[str, tuple[str, ...]]) -> Bools:
        """Mark the cells whose attributes have one of the named values; an unnamed attribute may be anything.

        Args:
            values: attribute name to labels.

        Returns:
            bool array of shape (n_cells,).

        Raises:
            ConfigError: unknown attribute or label.
        """
        chosen = np.ones(1, dtype=bool)
        for keep in reversed(self.kept(values)):  # long runs last: a schema may have millions of cells
            chosen = (keep[:, None] & chosen).reshape(-1)
        return chosen

    def kept(self, values: dict[str, tuple[str, ...]]) -> list[Bools]:
        """Mark the values of every attribute that `select` keeps; arguments and errors as there."""
        out = [np.ones(n, dtype=bool) for n in self.shape]
        for name, labels in values.items():
            attribute = self.attribute(name)
            wrong = [label for label in labels if label not in attribute.labels]
            if wrong:
                raise ConfigError(
                    f"{wrong[0]!r} is no value of attribute {name!r}",
                    code="C025",
                    fix="use labels of the schema: " + ", ".join(attribute.labels[:12]),
                )
            out[self.attributes.index(attribute)] = np.array([label in labels for label in attribute.labels])
        return out
