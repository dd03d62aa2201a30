"""Where the answers of a query lie in a lattice, and what estimates and covariances of a node say of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.model.query import Query
from topdown.solve.tree.lattice import Floats, Ints, Lattice
from topdown.solve.tree.variance import axis_factors


@dataclass(frozen=True, eq=False)
class Part:
    """Some nodes of one level that have the same dense values open.

    Args:
        depth: index of the level. nodes: int64, increasing. values: their dense values.
        x: estimates, (m, t, n_product). v: covariances, (m, n_components, t, t).
    """

    depth: int
    nodes: Ints
    values: Ints
    x: Floats
    v: Floats


@dataclass(frozen=True, eq=False)
class AnswersOf:
    """A query in lattice form, and where each of its answers lies.

    Args:
        query: any. member: float (n_groups, n_dense), which dense values a group adds up.
        place: int64 (n_groups, kept product cells), number of each answer.
        dropped: product axes it adds up. recoded: those it adds up in groups: axis, and float (groups, values).
        factors: of `axis_factors`, (n_components,); with groups (n_components, kept product cells).
    """

    query: Query
    member: Floats
    place: Ints
    dropped: tuple[int, ...]
    recoded: tuple[tuple[int, Floats], ...]
    factors: Floats

    def estimates(self, lattice: Lattice, part: Part) -> Floats:
        """Return the estimate of every answer at the nodes of a part, (m, n_answers)."""
        grouped = np.einsum("gd,mdp->mgp", self.member[:, part.values], part.x, optimize=True)
        m, g, _ = grouped.shape
        grid = grouped.reshape(m, g, *lattice.sizes)
        for axis, of in self.recoded:
            grid = np.moveaxis(np.moveaxis(grid, axis + 2, -1) @ of.T, -1, axis + 2)
        sums = grid.sum(axis=tuple(a + 2 for a in self.dropped))
        out = np.zeros((m, self.query.n_answers))
        out[:, self.place.reshape(-1)] = sums.reshape(m, -1)
        return out

    def variances(self, part: Part) -> Floats:
        """Return the variance of every answer at the nodes of a part, (m, n_answers)."""
        member = self.member[:, part.values]
        quadratic = np.einsum("mcge,ge->mgc", member @ part.v, member)
        found = np.maximum(self.shares(quadratic), 0.0)
        if found.ndim == 2:  # the same for every kept product cell
            found = np.repeat(found, self.place.shape[1], axis=1)
        out = np.zeros((len(part.nodes), self.query.n_answers))
        out[:, self.place.reshape(-1)] = found.reshape(len(found), -1)
        return out

    def shares(self, quadratic: Floats) -> Floats:
        """Return variances, (...) or (..., kept product cells), from what each component has, (..., n_components)."""
        return np.asarray(quadratic @ self.factors)


def answers_of(lattice: Lattice, query: Query) -> AnswersOf:
    """Return where the answers of a query lie in a lattice.

    A sum over s of the n values of an axis has s - s * s / n of the variance that differences have there, and
    s * s / n of that of their mean, whichever values they are: a group of values is told from its size.
    """
    of_axis = {f.attribute: np.array(f.group_of) for f in query.factors if f.attribute in lattice.product}
    dropped = tuple(a for a, name in enumerate(lattice.product) if name not in of_axis)
    recoded, kept = list[tuple[int, Floats]](), list[Ints]()
    for axis, (name, n) in enumerate(zip(lattice.product, lattice.sizes, strict=True)):
        group_of = of_axis.get(name, np.zeros(n, dtype=np.int64))
        groups = np.arange(int(group_of.max()) + 1)
        kept.append(np.argmax(groups[:, None] == group_of[None, :], axis=1).astype(np.int64))
        if axis not in dropped and not np.array_equal(group_of, np.arange(n)):
            recoded.append((axis, (groups[:, None] == group_of[None, :]).astype(np.float64)))
    labels = query.labels[lattice.cell[:, 0]]
    group = np.unique(labels, return_inverse=True)[1].reshape(-1)
    member = (np.arange(int(group.max()) + 1)[:, None] == group[None, :]).astype(np.float64)
    cells = (
        np.ravel_multi_index(np.meshgrid(*kept, indexing="ij"), lattice.sizes) if kept else np.zeros(1, int)
    )
    place = query.labels[lattice.cell[np.argmax(member, axis=1)[:, None], cells.reshape(1, -1)]].astype(
        np.int64
    )
    return AnswersOf(query, member, place, dropped, tuple(recoded), _factors(lattice, dropped, dict(recoded)))


def _factors(lattice: Lattice, dropped: tuple[int, ...], recoded: dict[int, Floats]) -> Floats:
    if not recoded:
        return axis_factors(lattice, [n if a in dropped else 1 for a, n in enumerate(lattice.sizes)])
    sizes = [
        np.array([n]) if a in dropped else recoded[a].sum(axis=1) if a in recoded else np.ones(n)
        for a, n in enumerate(lattice.sizes)
    ]
    each = np.stack([axis.reshape(-1) for axis in np.meshgrid(*sizes, indexing="ij")], axis=1)
    return np.stack([axis_factors(lattice, chosen) for chosen in each.astype(np.int64).tolist()], axis=1)
