"""Random small trees in lattice form, least squares by one dense matrix, and the way down of the fast estimate."""

from collections.abc import Sequence
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
from topdown.solve.tree import tree_estimate as gls


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


def down_covariances(tree: Covariances, root: Floats) -> tuple[tuple[Floats, ...], ...]:
    """Return V of every node, per level and pattern (m, n_components, t, t).

    Args:
        tree: covariances from below.
        root: V of the root, (n_components, t, t), conditioned on what is exact there (`root.condition`).
    """
    found: list[tuple[Floats, ...]] = [(root[None],)]
    for above, level in zip(tree.levels[:-1], tree.levels[1:], strict=True):
        change = [
            k @ v @ k - k for k, v in zip(above.beyond, found[-1], strict=True)
        ]  # K (V_u - S) K, where S = K^-1
        here = []
        for nodes, spread in zip(level.shape.nodes, level.spread, strict=True):
            middle = gls.spread_from_parent(above.shape, change, nodes, level.shape, square=True)
            v = spread + spread @ middle @ spread
            here.append((v + np.swapaxes(v, -1, -2)) / 2)
        found.append(tuple(here))
    return tuple(found)


def down_estimates(
    tree: Covariances,
    found: gls.NodeEstimates,
    depth: int,
    above: Sequence[Floats],
    nodes: Ints,
    alone: Floats,
) -> Floats:
    """Return x_c = e_c + Sig_c K (x_u - s) of some nodes of one pattern, (m, t, n_product).

    Args:
        tree, found: from `make_tree` and `estimate`.
        depth: level of the nodes, not the root's.
        above: x of their parents' level, by pattern.
        nodes: int64, all of one pattern. alone: their e.
    """
    up, level, lattice = tree.levels[depth - 1], tree.levels[depth], tree.lattice
    moved = [
        lattice.apply(k, x - s) for k, x, s in zip(up.beyond, above, found.below[depth - 1], strict=True)
    ]
    pattern = level.shape.pattern[nodes[0]]
    spread = level.spread[pattern]
    if len(spread) > 1:
        spread = spread[level.shape.place[nodes]]
    return alone + lattice.apply(
        spread, gls.spread_from_parent(up.shape, moved, nodes, level.shape, square=False)
    )
