"""Label arithmetic of its own: cells and answers of a schema document, and how an extended release reads in the newest.

Nothing is taken from the modules that make queries: only the form of the document (`topdown.formats`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from topdown.formats.release_documents import SchemaOfRecords

Cells = Sequence[tuple[str, Sequence[str]]]
# attribute: group of each of its values; left out if it makes no difference
Groups = dict[str, tuple[int, ...]]
# attribute there: attribute here, value there of each value here
Reading = dict[str, tuple[str, tuple[int, ...]]]
MOST_NAME_BYTES = 60
RESERVED = ("total", "detailed", "geocode", "count", "level", "node")


@dataclass(frozen=True)
class Factor:
    """What a query keeps of one attribute: the group of each value."""

    attribute: str
    name: str
    group_labels: tuple[str, ...]
    group_of: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Query:
    """A table of a schema: which answer counts each cell.

    Args:
        name: as plans write it.
        attributes: of the schema.
        factors: what is kept of some of them, in their order.
    """

    name: str
    attributes: tuple[Factor, ...]
    factors: tuple[Factor, ...]

    @property
    def n_answers(self) -> int:
        """Number of answers of one area."""
        return prod(len(f.group_labels) for f in self.factors)

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Answer of every cell, (n_cells,): the sum of what each of its values adds to the answer's number."""
        parts = {a.name: np.zeros(len(a.group_labels), dtype=np.int32) for a in self.attributes}
        step = 1
        for factor in reversed(self.factors):
            parts[factor.attribute] = np.int32(step) * np.array(factor.group_of, dtype=np.int32)
            step *= len(factor.group_labels)
        labels = np.zeros(1, dtype=np.int32)
        for part in reversed(parts.values()):
            labels = np.add.outer(part, labels).reshape(-1)
        labels.setflags(write=False)
        return labels


@dataclass(frozen=True)
class Schema:
    """The cells of a schema document, numbered so that the last attribute varies fastest.

    Args:
        unit: of privacy.
        attributes: names and values, as factors that keep every value apart.
        recodes: by name.

    """

    unit: str
    attributes: tuple[Factor, ...]
    recodes: Mapping[str, Factor]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each attribute."""
        return tuple(len(a.group_labels) for a in self.attributes)

    @cached_property
    def n_cells(self) -> int:
        """Number of combinations of values."""
        return prod(self.shape)

    def factor(self, name: str) -> Factor:
        """Return an attribute or recode; ValueError if there is none."""
        for factor in (*self.attributes, *self.recodes.values()):
            if factor.name == name:
                return factor
        raise ValueError(f"{name!r} is no attribute or recode")

    def factors(self, query: str) -> tuple[Factor, ...]:
        """Return the factors of a query in the order of the attributes; ValueError if it is not in its plain form."""
        if query in ("total", "detailed"):
            return self.attributes if query == "detailed" else ()
        found = [self.factor(name) for name in query.split(" * ")]
        order = [a.name for a in self.attributes]
        if len({f.attribute for f in found}) < len(found):
            raise ValueError(f"query {query!r} uses an attribute twice")
        return tuple(sorted(found, key=lambda f: order.index(f.attribute)))

    def query(self, name: str) -> Query:
        """Return a query; ValueError as `factors`."""
        return Query(name, self.attributes, self.factors(name))

    def kept(self, cells: Cells) -> dict[str, tuple[bool, ...]]:
        """Mark the values of each attribute that a selection of cells keeps; ValueError if it names others."""
        named = dict(cells)
        for name, labels in named.items():
            known = {a.name: a.group_labels for a in self.attributes}.get(name, ())
            if not set(labels) <= set(known):
                raise ValueError(f"{name!r} has other values than a selection of cells names")
        return {
            a.name: tuple(a.name not in named or label in named[a.name] for label in a.group_labels)
            for a in self.attributes
        }

    def select(self, cells: Cells) -> NDArray[np.bool_]:
        """Mark the cells of a selection, (n_cells,)."""
        marked = np.ones(1, dtype=bool)
        for keep in reversed(self.kept(cells).values()):
            marked = np.logical_and.outer(np.array(keep), marked).reshape(-1)
        return marked


def read_schema(stated: SchemaOfRecords) -> Schema:
    """Return the cells of a schema document; ValueError for what is no schema."""
    attributes, recodes = [], {}
    for a in stated.attributes:
        if not a.labels or len(set(a.labels)) < len(a.labels):
            raise ValueError(f"attribute {a.name!r} has no values, or one twice")
        attributes.append(Factor(a.name, a.name, tuple(a.labels), tuple(range(len(a.labels)))))
        for r in a.recodes:
            if len(r.group_of) != len(a.labels) or set(r.group_of) != set(range(len(r.group_labels))):
                raise ValueError(f"recode {r.name!r} does not put every value into one of its groups")
            recodes[r.name] = Factor(a.name, r.name, tuple(r.group_labels), tuple(r.group_of))
    of_recodes = [r.name for a in stated.attributes for r in a.recodes]
    names = [*RESERVED, *(a.name for a in attributes), *of_recodes]
    if len(set(names)) < len(names) or len(names) == len(RESERVED):
        raise ValueError("its schema has no attribute, or uses a name twice")
    if odd := [name for name in names if not _is_name(name)]:
        raise ValueError(f"{odd[0][:40]!r} cannot be a name")
    return Schema(stated.unit, tuple(attributes), recodes)


def _is_name(name: str) -> bool:
    inside = name[:1].isalnum() and all(c.isalnum() or c in "_-." for c in name)
    return inside and len(name.encode("utf-8", "replace")) <= MOST_NAME_BYTES


def query_groups(schema: Schema, query: str, reading: Reading) -> Groups:
    """Return the groups of values that a query tells apart, in attributes of the newest release.

    A record is counted once, in the answer that the groups of its values name.
    """
    out = {}
    for factor in schema.factors(query):
        here, value = reading[factor.attribute]
        groups = tuple(factor.group_of[v] for v in value)
        if len(set(groups)) > 1:
            out[here] = groups
    return out


def selected_values(schema: Schema, cells: Cells, reading: Reading) -> Groups:
    """Return, for each attribute here that a selection of cells speaks of, 1 for its values inside and 0 outside."""
    kept, out = schema.kept(cells), {}
    for name, _ in cells:
        here, value = reading[name]
        out[here] = tuple(int(kept[name][v]) for v in value)
    return out


def identity_reading(schema: Schema) -> Reading:
    """Return the reading of a schema in itself."""
    return {a.name: (a.name, a.group_of) for a in schema.attributes}


def read_below(above: Schema, reading: Reading, below: Schema, names: Sequence[tuple[str, str]]) -> Reading:
    """Return the reading of a release in the newest, from that of the release that extends it.

    Args:
        above, reading: schema of the extension, and how it reads in the newest.
        below, names: schema of what it extends, and its [base.map].

    Raises:
        ValueError: an attribute is missing, has other values, or shares its attribute with another one.
    """
    out: Reading = {}
    for name, ours in names:
        labels, middle = below.factor(name).group_labels, above.factor(ours)
        if sorted(middle.group_labels) != sorted(labels):
            raise ValueError(f"{ours!r} has other values than {name!r}")
        here, value = reading[middle.attribute]
        out[name] = here, tuple(labels.index(middle.group_labels[middle.group_of[v]]) for v in value)
    used = [here for here, _ in out.values()]
    if set(out) != {a.name for a in below.attributes} or not len(names) == len(out) == len(set(used)):
        raise ValueError("the map of the base release does not give each attribute one of its own")
    return out
