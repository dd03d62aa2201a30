"""Linear queries in which every cell is counted once: one recode (or nothing) per attribute."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.model.labels import refines
from topdown.model.schema import Schema

Neighbours = Literal["bounded", "add_remove"]


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
        return (
            int(np.prod([len(f.group_labels) for f in self.factors], dtype=np.int64)) if self.factors else 1
        )

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Answer index of every cell, shape (n_cells,)."""
        grid = np.zeros(self.schema.shape, dtype=np.int32)
        names = [a.name for a in self.schema.attributes]
        for factor in self.factors:
            axis = [1] * len(names)
            axis[names.index(factor.attribute)] = len(factor.group_of)
            group = np.asarray(factor.group_of, dtype=np.int32).reshape(axis)
            grid = grid * np.int32(len(factor.group_labels)) + group
        out = np.ascontiguousarray(grid.reshape(-1))
        out.setflags(write=False)
        return out

    @property
    def attributes(self) -> frozenset[str]:
        """Names of the attributes whose value can change an answer."""
        return frozenset(f.attribute for f in self.factors if len(f.group_labels) > 1)

    def sum(self, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
        """Answer the query on dense histograms, shape (..., n_cells) -> (..., n_answers); exact integers."""
        flat = histogram.reshape(-1, self.schema.n_cells)
        out = np.zeros((flat.shape[0], self.n_answers), dtype=np.int64)
        rows = np.arange(flat.shape[0])[:, None]
        np.add.at(out, (rows, self.labels[None, :]), flat)
        return out.reshape(*histogram.shape[:-1], self.n_answers)

    def sensitivity_l1(self, neighbours: Neighbours) -> int:
        """Bound the L1 change of the answers of all nodes of one level between neighbours.

        Derived, not typed in: a record adds 1 to exactly one answer of exactly one node (the labels array has
        one entry a cell and a record lives in one node), so adding or removing it changes the answers by the
        largest column norm 1; replacing it is one removal and one addition, which may fall in different nodes.
        """
        column = self._largest_column_norm()
        return {"add_remove": column, "bounded": 2 * column}[neighbours]

    def sensitivity_l2_squared(self, neighbours: Neighbours) -> int:
        """Bound the squared L2 change between neighbours; derivation as for `sensitivity_l1`."""
        column = self._largest_column_norm() ** 2
        return {"add_remove": column, "bounded": 2 * column}[neighbours]

    def _largest_column_norm(self) -> int:
        # One label a cell: the query matrix has a single 1 in each column. Checked, because every budget rests on it.
        if (
            self.labels.shape != (self.schema.n_cells,)
            or self.labels.min() < 0
            or self.labels.max() >= self.n_answers
        ):
            raise ConfigError(f"query {self.name!r} does not label every cell once", code="C026")
        return 1

    def refines(self, coarse: Query) -> bool:
        """Tell whether every answer of `coarse` is a sum of answers of this query."""
        return refines(self.labels, coarse.labels)


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
