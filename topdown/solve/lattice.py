"""Cells as dense values times product cells, and matrices that are sums over components of the product axes.

In that form is what the measurements of one level say of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.model import Invariants, Query, Schema


@dataclass(frozen=True, eq=False)
class Lattice:
    """The cells of a schema, sorted into dense values and product cells.

    Args:
        dense, product: names of the attributes, in the schema's order.
        sizes: values of each product attribute.
        cell: int64 (n_dense, n_product), number of each cell in the schema.
    """

    dense: tuple[str, ...]
    product: tuple[str, ...]
    sizes: tuple[int, ...]
    cell: Ints

    @property
    def n_dense(self) -> int:
        """Combinations of dense values."""
        return len(self.cell)

    @property
    def n_product(self) -> int:
        """Combinations of product values."""
        return int(self.cell.shape[1])

    @property
    def n_components(self) -> int:
        """Sets of product axes; axis i is bit i of a set's number."""
        return 1 << len(self.sizes)

    @cached_property
    def place(self) -> Ints:
        """Dense value and product cell of each cell of the schema, int64 (2, n_cells)."""
        out = np.empty((2, self.cell.size), dtype=np.int64)
        d, p = np.indices(self.cell.shape)
        out[0, self.cell], out[1, self.cell] = d, p
        return out

    @cached_property
    def coordinates(self) -> Ints:
        """Value on every product axis of each product cell, int64 (n_axes, n_product)."""
        return np.indices(self.sizes).reshape(len(self.sizes), self.n_product).astype(np.int64)

    @cached_property
    def signs(self) -> Floats:
        """What turns component matrices M_C into factors N_S of means: M = sum over S of N_S x E_S; (S, C)."""
        everything = self.n_components - 1
        sets = np.arange(self.n_components)
        both = sets[:, None] | sets[None, :]
        n_common = np.array([[int(s & c).bit_count() for c in sets] for s in sets])
        return np.where(both == everything, 1.0 - 2.0 * (n_common % 2), 0.0)

    @cached_property
    def averaged(self) -> Floats:
        """How many product cells a mean over the axes of each set covers, (n_components,)."""
        return np.array([_size(self.sizes, s) for s in range(self.n_components)], dtype=np.float64)

    def equal_axes(self, one: Ints, other: Ints) -> Ints:
        """Return on which axes product cells agree, as bits: (len(one), len(other))."""
        out = np.zeros((len(one), len(other)), dtype=np.int64)
        for axis, value in enumerate(self.coordinates):
            out |= (value[one][:, None] == value[other][None, :]).astype(np.int64) << axis
        return out

    def factors(self, matrices: Floats) -> Floats:
        """Return N_S for component matrices (..., n_components, t, t)."""
        return np.asarray(np.einsum("sc,...cde->...sde", self.signs, matrices))

    def entries(self, matrices: Floats) -> Floats:
        """Return the entries of a matrix by the axes on which two product cells agree, (..., agreeing, t, t)."""
        factors = self.factors(matrices) / self.averaged[:, None, None]
        everything, sets = self.n_components - 1, np.arange(self.n_components)
        holds = ((sets[:, None] | sets[None, :]) == everything).astype(
            np.float64
        )  # S has every axis that differs
        return np.asarray(np.einsum("hs,...sde->...hde", holds, factors))

    def apply(self, matrices: Floats, x: Floats) -> Floats:
        """Return matrices times tables, by means over axes only.

        Args:
            matrices: (m, n_components, t, t), or (1, ...) for the same at every node.
            x: (m, t, n_product).
        """
        factors = self.factors(matrices)
        m, t, _ = x.shape
        grid = x.reshape(m, t, *self.sizes)
        out = np.zeros_like(grid)
        for s in range(self.n_components):
            axes = tuple(a + 2 for a in range(len(self.sizes)) if s >> a & 1)
            mean = grid.mean(axis=axes, keepdims=True) if axes else grid
            out += (factors[:, s] @ mean.reshape(m, t, -1)).reshape(mean.shape)
        return out.reshape(m, t, self.n_product)

    def project(self, component: int, x: Floats) -> Floats:
        """Return P_C x for tables (..., n_product)."""
        grid = x.reshape(*x.shape[:-1], *self.sizes)
        for a in range(len(self.sizes)):
            axis = a - len(self.sizes)
            mean = grid.mean(axis=axis, keepdims=True)
            grid = grid - mean if component >> a & 1 else np.broadcast_to(mean, grid.shape)
        return np.ascontiguousarray(grid).reshape(x.shape)


@dataclass(frozen=True, eq=False)
class ProductQuery:
    """A query that keeps each product attribute whole or drops it.

    Args:
        group: int64 (n_dense,), group of each dense value, 0..n_groups-1.
        kept: product axes it keeps, as bits.
    """

    group: Ints
    kept: int

    @property
    def n_groups(self) -> int:
        """How many groups of dense values it tells apart."""
        return int(self.group.max()) + 1

    def gram(self, lattice: Lattice) -> Floats:
        """Return Q'Q by components, (n_components, n_dense, n_dense)."""
        same = (self.group[:, None] == self.group[None, :]).astype(np.float64)
        dropped = lattice.averaged[(lattice.n_components - 1) & ~self.kept]
        inside = [c & ~self.kept == 0 for c in range(lattice.n_components)]
        return np.asarray(np.array(inside, dtype=np.float64)[:, None, None] * dropped * same)


def make_lattice(
    schema: Schema, invariants: Invariants, queries: Sequence[Query], more: Sequence[str] = ()
) -> Lattice:
    """Sort the attributes of a schema: dense are those of rules that close cells, and those that a query recodes.

    Args:
        schema: of the release.
        invariants: some of their rules close cells.
        queries: measured, fixed by a pass, or exact.
        more: attributes to make dense too; the numbers do not depend on it.
    """
    chosen = set(more) | {name for rule in invariants.closing for name, _ in rule.cells}
    whole = {a.name: tuple(range(len(a.labels))) for a in schema.attributes}
    chosen |= {f.attribute for q in queries for f in q.factors if f.group_of != whole[f.attribute]}
    chosen |= {a.name for a in schema.attributes if len(a.labels) == 1}
    dense = [i for i, a in enumerate(schema.attributes) if a.name in chosen]
    product = [i for i, a in enumerate(schema.attributes) if a.name not in chosen]
    sizes = tuple(schema.shape[i] for i in product)
    cells = np.arange(schema.n_cells, dtype=np.int64).reshape(schema.shape).transpose(*dense, *product)
    names = [a.name for a in schema.attributes]
    return Lattice(
        tuple(names[i] for i in dense),
        tuple(names[i] for i in product),
        sizes,
        np.ascontiguousarray(cells.reshape(-1, _size(sizes, (1 << len(sizes)) - 1))),
    )


def query_of_labels(lattice: Lattice, labels: NDArray[np.signedinteger[Any]]) -> ProductQuery:
    """Return a query in lattice form from the answer of every cell (n_cells,).

    Raises:
        ValueError: it recodes a product attribute.
    """
    kept = 0
    for axis, value in enumerate(lattice.coordinates):
        alone = (lattice.coordinates.sum(axis=0) == value) & (
            value > 0
        )  # cells that leave 0 on this axis only
        distinguished = len(np.unique(labels[lattice.cell[0, alone]])) if alone.any() else 0
        if (
            distinguished == int(alone.sum())
            and (labels[lattice.cell[0, alone]] != labels[lattice.cell[0, 0]]).all()
        ):
            kept |= 1 << axis
        elif (labels[lattice.cell[0, alone]] != labels[lattice.cell[0, 0]]).any():
            raise ValueError(f"a query recodes {lattice.product[axis]!r}")
    group = np.unique(labels[lattice.cell[:, 0]], return_inverse=True)[1].reshape(-1)
    return ProductQuery(group.astype(np.int64), kept)


def _size(sizes: tuple[int, ...], axes: int) -> int:
    out = 1
    for a, n in enumerate(sizes):
        out *= n if axes >> a & 1 else 1
    return out


@dataclass(frozen=True, eq=False)
class Information:
    """Own information of a level, the same at all its nodes.

    Args:
        matrices: (n_components, n_dense, n_dense), A_C = sum over queries of weight times Gram.
        labels: per query, int64 (n_dense, n_product), place of each cell's answer among a node's answers.
        weights: one a query, inverse variance.
    """

    matrices: Floats
    labels: tuple[Ints, ...]
    weights: tuple[float, ...]

    def on(self, values: Ints) -> Floats:
        """Return A_C on some dense values."""
        return self.matrices[:, values[:, None], values[None, :]]

    def linear(self, answers: NDArray[Any], values: Ints) -> Floats:
        """Return the sum over queries of weight times Q'y on some dense values, (n_nodes, t, n_product).

        Args:
            answers: (n_nodes, answers_per_node). values: dense values.
        """
        out = np.zeros((len(answers), len(values), self.labels[0].shape[1]))
        for labels, weight in zip(self.labels, self.weights, strict=True):
            out += weight * np.take(answers, labels[values], axis=1)
        return out


def information(lattice: Lattice, queries: Sequence[Query], weights: Sequence[float]) -> Information:
    """Add up what the queries of a level tell.

    Args:
        lattice: in whose form the queries are.
        queries: measured at the level, in the order of their answers.
        weights: one a query, inverse variance, records to the power -2.
    """
    matrices = np.zeros((lattice.n_components, lattice.n_dense, lattice.n_dense))
    labels, first = [], 0
    for query, weight in zip(queries, weights, strict=True):
        matrices += weight * query_of_labels(lattice, query.labels).gram(lattice)
        labels.append(first + query.labels[lattice.cell].astype(np.int64))
        first += query.n_answers
    return Information(matrices, tuple(labels), tuple(weights))
