"""Random small trees in lattice form, and whole-tree least squares by one dense matrix: the slow twin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.model import (
    Attribute,
    Basis,
    Geography,
    Invariants,
    Level,
    Never,
    Query,
    Recode,
    Schema,
    parse_query,
)
from topdown.solve import AnswersInMemory, Lattice, information, make_lattice
from topdown.solve.tree import Covariances, make_tree


def schema_of(sizes: tuple[int, ...], recoded: tuple[int, ...] = ()) -> Schema:
    """Attributes a0, a1, ... of these sizes; some have a recode r<i> with two unequal groups."""
    attributes = []
    for i, n in enumerate(sizes):
        recode = Recode(f"r{i}", ("first", "rest"), tuple(int(v > 0) for v in range(n)))
        labels = tuple(f"v{v}" for v in range(n))
        attributes.append(Attribute(f"a{i}", labels, (recode,) if i in recoded else ()))
    return Schema("random", "Random", "person", tuple(attributes))


def never(cells: dict[str, tuple[str, ...]]) -> Invariants:
    """Invariants that close some cells everywhere."""
    return Invariants(
        "random", "Random", "random", (), (), (), (Never("closed", tuple(cells.items()), Basis("law")),)
    )


@dataclass(frozen=True, eq=False)
class Case:
    """A tree with what is measured of it."""

    geography: Geography
    schema: Schema
    lattice: Lattice
    queries: tuple[tuple[Query, ...], ...]
    weights: tuple[tuple[float, ...], ...]
    is_open: tuple[NDArray[np.bool_], ...]
    answers: AnswersInMemory

    @property
    def tree(self) -> Covariances:
        """The covariances of the fast path."""
        own = [information(self.lattice, q, w) for q, w in zip(self.queries, self.weights, strict=True)]
        return make_tree(self.lattice, self.geography, self.is_open, own)


def geography_of(parents: tuple[tuple[int, ...], ...]) -> Geography:
    """Return a tree from each level's parents, root first."""
    return Geography(
        tuple(
            Level(f"level{i}", tuple(f"{i}-{j}" for j in range(len(p))), np.array(p, dtype=np.int64))
            for i, p in enumerate(parents)
        )
    )


def make_case(
    parents: tuple[tuple[int, ...], ...],
    schema: Schema,
    names: tuple[tuple[str, ...], ...],
    leaves_open: NDArray[np.bool_],
    seed: int,
    *,
    more: tuple[str, ...] = (),
    invariants: Invariants | None = None,
    lattice: Lattice | None = None,
) -> Case:
    """Return a case with random weights and answers.

    Args:
        parents: see `geography_of`. names: queries of each level. leaves_open: (n_leaves, n_dense).
        more: attributes made dense. lattice: to be used instead of the one made.
    """
    rng = np.random.default_rng(seed)
    geography = geography_of(parents)
    queries = tuple(tuple(parse_query(schema, name) for name in of) for of in names)
    rules = invariants or never({"a0": ("v0",)})
    lattice = lattice or make_lattice(schema, rules, [q for of in queries for q in of], more)
    weights = tuple(tuple(float(w) for w in rng.uniform(0.05, 3.0, len(of))) for of in queries)
    is_open = geography.at_every_level(leaves_open, np.logical_or)
    nodes = tuple(np.flatnonzero(here.any(axis=1)).astype(np.int64) for here in is_open)
    values = tuple(
        rng.integers(-20, 60, (len(here), sum(q.n_answers for q in of))).astype(np.int32)
        for here, of in zip(nodes, queries, strict=True)
    )
    return Case(geography, schema, lattice, queries, weights, is_open, AnswersInMemory(nodes, values))


@dataclass(frozen=True, eq=False)
class Dense:
    """The estimate and covariance of every open cell of every leaf, and of any sums of them."""

    leaf: Ints
    cell: Ints
    x: Floats
    v: Floats

    def sums(self, chosen: NDArray[np.bool_]) -> tuple[float, float]:
        """Estimate and variance of the sum of some of the unknowns."""
        a = chosen.astype(float)
        return float(a @ self.x), float(a @ self.v @ a)


def solve_densely(case: Case, exact: tuple[Query, Floats] | None = None) -> Dense:
    """Add up H and g label by label, then solve, with the exact answers of the root as equalities."""
    up = case.geography.ancestors_of_leaves
    leaf, dense = np.nonzero(case.is_open[-1])
    leaf, cell = (
        np.repeat(leaf, case.lattice.n_product).astype(np.int64),
        case.lattice.cell[dense].reshape(-1),
    )
    h, g = np.zeros((len(cell), len(cell))), np.zeros(len(cell))
    for depth, (queries, weights) in enumerate(zip(case.queries, case.weights, strict=True)):
        node = up[depth][leaf]
        row = np.searchsorted(case.answers.nodes[depth], node)
        first = 0
        for query, weight in zip(queries, weights, strict=True):
            label = query.labels[cell].astype(np.int64)
            key = node * query.n_answers + label
            h += weight * (key[:, None] == key[None, :])
            g += weight * case.answers.values[depth][row, first + label]
            first += query.n_answers
    v = np.linalg.inv(h)
    x = v @ g
    if exact is not None:
        query, told = exact
        label = query.labels[cell]
        f = np.stack([label == a for a in np.unique(label)]).astype(float)
        gain = v @ f.T @ np.linalg.pinv(f @ v @ f.T, hermitian=True)
        x = x + gain @ (told[np.unique(label)] - f @ x)
        v = v - gain @ f @ v
    return Dense(leaf, cell, x, v)
