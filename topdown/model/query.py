"""Linear queries in which every cell is counted once: one recode (or nothing) per attribute.

Also the arithmetic of labels (an integer for each cell, equal for cells that a table adds up), and how the attributes
of a release read in the schema of one that extends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.model.schema import Schema


def refines(fine: NDArray[Any], coarse: NDArray[Any]) -> bool:
    """Tell whether cells with one label in `fine` have one label in `coarse`.

    Args:
        fine, coarse: whole numbers, -1 or more, of the same cells.
    """
    seen = np.zeros(int(fine.max(initial=-1)) + 2, dtype=np.int64)  # label -1 takes the last place
    seen[fine] = coarse
    return bool(np.array_equal(seen[fine], coarse))


def common_refinement(coarse: Ints, fine: Ints) -> tuple[Ints, int]:
    """Return the common refinement of two labels, numbered so that groups of `coarse` stay together; its size."""
    span = int(fine.max(initial=0)) + 1
    found, label = np.unique(coarse * span + fine, return_inverse=True)
    return label.reshape(-1).astype(np.int64), len(found)


def first_positions(label: Ints, n: int) -> Ints:
    """Return the first position of every label."""
    out = np.zeros(n, dtype=np.int64)
    out[label[::-1]] = np.arange(len(label))[::-1]
    return out


def on_axis(values: NDArray[Any], axis: int, ndim: int) -> NDArray[Any]:
    """Return values of one axis in the shape of an array of `ndim` axes."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


@dataclass(frozen=True)
class Factor:
    """The part a query keeps of one attribute: which group each value falls in."""

    attribute: str
    name: str
    group_labels: tuple[str, ...]
    group_of: tuple[int, ...]


@dataclass(frozen=True)
class Query:
    """A marginal table of a schema, written as the product of its factors.

    Every cell of the schema adds to exactly one answer, so the query is an integer label per cell: no matrix
    is ever formed. Answers are numbered in row-major order of the factors, which follow the schema's order.
    """

    name: str
    schema: Schema
    factors: tuple[Factor, ...]

    @cached_property
    def n_answers(self) -> int:
        """Number of answers at one node."""
        return prod(len(f.group_labels) for f in self.factors)

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Answer index of every cell, shape (n_cells,)."""
        grid = np.zeros(self.schema.shape, dtype=np.int32)
        names = [a.name for a in self.schema.attributes]
        for factor in self.factors:
            group = np.asarray(factor.group_of, dtype=np.int32)
            axis = names.index(factor.attribute)
            grid = grid * np.int32(len(factor.group_labels)) + on_axis(group, axis, len(names))
        out = np.ascontiguousarray(grid.reshape(-1))
        out.setflags(write=False)
        return out

    @property
    def attributes(self) -> frozenset[str]:
        """Names of the attributes whose value can change an answer."""
        return frozenset(f.attribute for f in self.factors if len(f.group_labels) > 1)

    def sum(self, histogram: Ints) -> Ints:
        """Answer the query on dense histograms, shape (..., n_cells) -> (..., n_answers); exact integers."""
        flat = histogram.reshape(-1, self.schema.n_cells)
        out = np.zeros((flat.shape[0], self.n_answers), dtype=np.int64)
        rows = np.arange(flat.shape[0])[:, None]
        np.add.at(out, (rows, self.labels[None, :]), flat)
        return out.reshape(*histogram.shape[:-1], self.n_answers)

    def record_weight(self) -> int:
        """Return how much one record adds to the one answer, of one node, that counts it: every budget rests on it.

        Derived, not typed in: the labels array has one entry a cell and a record lives in one node, so the query matrix
        of a level has a single 1 in each column.

        Raises:
            ConfigError: C026 the labels are not one a cell.
        """
        labels, shape = self.labels, (self.schema.n_cells,)
        if labels.shape != shape or labels.min() < 0 or labels.max() >= self.n_answers:
            raise ConfigError(f"query {self.name!r} does not label every cell once", code="C026")
        return 1

    def refines(self, coarse: Query) -> bool:
        """Tell whether every answer of `coarse`, of the same schema, is a sum of answers of this query.

        Cells are all combinations of values, so this is so where it is for the values of each attribute.
        """
        mine = {factor.attribute: factor.group_of for factor in self.factors}
        return all(
            refines(np.array(mine.get(one.attribute, (0,) * len(one.group_of))), np.array(one.group_of))
            for one in coarse.factors
        )


def parse_query(schema: Schema, name: str) -> Query:
    """Read a query name: `total`, `detailed`, or attribute and recode names joined by ` * `.

    Raises:
        ConfigError: a name is unknown, or two factors use the same attribute.
    """
    by_name = {
        a.name: Factor(a.name, a.name, a.labels, tuple(range(len(a.labels)))) for a in schema.attributes
    }
    for a in schema.attributes:
        by_name.update({r.name: Factor(a.name, r.name, r.group_labels, r.group_of) for r in a.recodes})
    parts = [part.strip() for part in name.split("*")]
    if parts == ["total"]:
        return Query("total", schema, ())
    if parts == ["detailed"]:
        return Query("detailed", schema, tuple(by_name[a.name] for a in schema.attributes))
    for part in parts:
        if part not in by_name:
            raise ConfigError(
                f"query {name!r} names {part!r}, which is no attribute or recode of schema {schema.name!r}",
                code="C024",
                fix="use one of: total, detailed, " + ", ".join(by_name),
            )
    chosen = [by_name[part] for part in parts]
    used = [f.attribute for f in chosen]
    if len(set(used)) != len(used):
        raise ConfigError(
            f"query {name!r} uses one attribute twice",
            code="C027",
            fix="keep one attribute or recode per attribute; a record must be counted once",
        )
    order = [a.name for a in schema.attributes]
    return Query(" * ".join(parts), schema, tuple(sorted(chosen, key=lambda f: order.index(f.attribute))))


# attribute there -> the attribute here that decides it, and the value there of each value here
AttributeMapping = Mapping[str, tuple[str, tuple[int, ...]]]
# attribute -> group of each value; attributes left out make no difference
ValueGroups = dict[str, tuple[int, ...]]


def identity_mapping(schema: Schema) -> AttributeMapping:
    """Return how a schema reads in itself."""
    return {a.name: (a.name, tuple(range(len(a.labels)))) for a in schema.attributes}


def map_attributes(schema: Schema, base: Schema, names: Mapping[str, str]) -> AttributeMapping:
    """Return how the attributes of `base` read in `schema`.

    Args:
        schema: of the extension.
        base: of the release that is extended.
        names: base attribute to the attribute or recode of `schema` with the same values; the same name if
            left out.

    Raises:
        ConfigError: C093 an unknown name, other values, or one attribute used twice.
    """
    unknown = sorted(set(names) - {a.name for a in base.attributes})
    if unknown:
        raise ConfigError(
            f"base.map names {unknown[0]!r}, which is no attribute of the base schema {base.name!r}",
            code="C093",
            fix="use its attributes: " + ", ".join(a.name for a in base.attributes),
        )
    out: dict[str, tuple[str, tuple[int, ...]]] = {}
    used: set[str] = set()
    for attribute in base.attributes:
        name = names.get(attribute.name, attribute.name)
        try:
            (factor,) = parse_query(schema, name).factors
        except (ConfigError, ValueError):
            raise ConfigError(
                f"base attribute {attribute.name!r} is no attribute or recode of schema {schema.name!r}",
                code="C093",
                fix=f'add a recode with its values, or name one: [base.map] {attribute.name} = "..."',
            ) from None
        if set(factor.group_labels) != set(attribute.labels) or factor.attribute in used:
            problem = "is used twice" if factor.attribute in used else "has other values"
            raise ConfigError(
                f"{name!r} of schema {schema.name!r} cannot stand for base attribute {attribute.name!r}: it {problem}",
                code="C093",
                fix="give each base attribute its own attribute or recode with exactly the same labels",
            )
        used.add(factor.attribute)
        order = [attribute.labels.index(label) for label in factor.group_labels]
        out[attribute.name] = (factor.attribute, tuple(order[group] for group in factor.group_of))
    return out


def compose_mappings(first: AttributeMapping, second: AttributeMapping) -> AttributeMapping:
    """Return how the oldest of three releases reads in the newest.

    Args:
        first: the oldest in the middle one.
        second: the middle one in the newest.
    """
    out = {}
    for name, (middle, oldest_value) in first.items():
        here, middle_value = second[middle]
        out[name] = (here, tuple(oldest_value[value] for value in middle_value))
    return out


def group_values(query: Query, reading: AttributeMapping) -> ValueGroups:
    """Return how a query of an older release groups the values of the attributes here that can change its answers."""
    out = {}
    for factor in query.factors:
        if len(factor.group_labels) > 1:
            here, value = reading[factor.attribute]
            out[here] = tuple(factor.group_of[v] for v in value)
    return out
