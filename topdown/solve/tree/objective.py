"""What the splits into one inner level are fitted to under the tree estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from topdown.model.labels import refines
from topdown.solve.groups import Floats, Ints
from topdown.solve.kernels import gram
from topdown.solve.least_squares.on_lattice import OnLattice, written_out
from topdown.solve.least_squares.per_child import PerChild, Stacked
from topdown.solve.least_squares.quadratics import Dense
from topdown.solve.level import LevelModel
from topdown.solve.statistics import PassRows, margin
from topdown.solve.tree.gls import Covariances, NodeEstimates
from topdown.solve.tree.lattice import Lattice, ProductQuery, query_of_labels

MOST_WRITTEN_OUT = 2_000_000  # entries of matrices, one a child, above which the lattice step is taken
LEAST_LEFT = 1e-4  # of a variance once the parent's table is known, relative to the variance without it


@final
@dataclass(frozen=True, eq=False)
class TreeObjective:
    """Own information of the children and what the areas below them add.

    Args:
        tree, found: the estimate.
        depth: level of the children; 0 for the root by itself.
        nodes: the children.
        in_lattice: whether the lattice step may be taken.
    """

    tree: Covariances
    found: NodeEstimates
    depth: int
    nodes: Ints
    in_lattice: bool

    def keep(self, children: NDArray[np.bool_]) -> TreeObjective:
        """Return the objective of some of the children."""
        return replace(self, nodes=self.nodes[children])

    def quadratic(self, level: LevelModel, rows: PassRows) -> Dense | PerChild:
        """Return the quadratic of a pass; the pass's own queries play no part."""
        if rows.counts is None:
            return self._root(level, rows)
        return self._last(level, rows) if rows.last else self._table(level, rows, rows.counts)

    def _root(self, level: LevelModel, rows: PassRows) -> Dense:
        """Return A + K on cells, or what it says of the pass's table."""
        lattice, up = self.tree.lattice, self.tree.levels[0]
        dense, product = lattice.place[:, rows.cells]
        equal = lattice.equal_axes(product, product)
        labels = np.ascontiguousarray(level.labels[:, rows.cells])
        below = written_out(lattice, up.beyond[0][0], up.shape.values[0], dense, equal)
        hessian = gram(labels, level.weights) + below
        g = self._linear(0, 0, dense, product)[:, None]
        if not rows.last:
            return margin(rows.step.table, hessian, g, rows.table, rows.first)
        return Dense(hessian, g, _separate(labels, level.weights), float(level.weights.min()))

    def _linear(self, depth: int, node: int, dense: Ints, product: Ints) -> Floats:
        """Return b of a node at some cells; 0 where they are closed."""
        shape = self.tree.levels[depth].shape
        b = self.found.linear[depth][shape.pattern[node]][shape.place[node]]
        values = shape.values[shape.pattern[node]]
        at = np.minimum(np.searchsorted(values, dense), len(values) - 1)
        return np.where(values[at] == dense, b[at, product], 0.0)

    def _last(self, level: LevelModel, rows: PassRows) -> PerChild:
        """Return the quadratic of cells. What the fixed table tells is constant and left out of A."""
        lattice, up = self.tree.lattice, self.tree.levels[self.depth]
        fixed = rows.fixed
        labels = np.ascontiguousarray(level.labels[:, rows.cells])
        untold = np.array([not fixed.n_groups or not refines(fixed.of, of) for of in labels], dtype=bool)
        labels, weights = np.ascontiguousarray(labels[untold]), level.weights[untold]
        hessian = gram(labels, weights)
        dense, product = lattice.place[:, rows.cells]
        g = np.stack([self._linear(self.depth, int(c), dense, product) for c in self.nodes], axis=1)
        values = tuple(up.shape.values[up.shape.pattern[c]] for c in self.nodes)
        matrices = tuple(up.of(up.beyond, int(c)) for c in self.nodes)
        own = up.own.matrices - sum(
            weight * query_of_labels(lattice, of).gram(lattice)
            for of, weight, here in zip(level.labels, level.weights, untold, strict=True)
            if not here
        )
        linear = tuple(
            self.found.linear[self.depth][up.shape.pattern[c]][up.shape.place[c]] for c in self.nodes
        )
        beyond: OnLattice | Stacked = OnLattice(lattice, dense, product, values, matrices, own, linear)
        n, m = g.shape
        if not self.in_lattice or n * n * m <= MOST_WRITTEN_OUT:
            equal = lattice.equal_axes(product, product)
            blocks = [written_out(lattice, k, v, dense, equal) for k, v in zip(matrices, values, strict=True)]
            beyond = Stacked(np.stack(blocks))
        least, scale = _least(matrices), float(level.weights.min())
        curvature = _separate(labels, weights) + least
        return PerChild(
            hessian, beyond, np.ascontiguousarray(g), curvature, scale, fixed, rows.allowed, least
        )

    def _table(self, level: LevelModel, rows: PassRows, counts: Ints) -> PerChild:
        """Return the quadratic of a pass's table: its estimate given the parent's table, and that one's information."""
        lattice, up, above = self.tree.lattice, self.tree.levels[self.depth], self.tree.levels[self.depth - 1]
        query = query_of_labels(lattice, level.tables[rows.step.table])
        parent = int(up.shape.parent[self.nodes[0]])
        theirs = above.shape.values[above.shape.pattern[parent]]
        k = above.of(above.beyond, parent)
        dense, product = lattice.place[:, rows.cells]
        table = np.zeros((len(theirs), lattice.n_product))
        table[np.searchsorted(theirs, dense), product] = counts
        moved = lattice.apply(k[None], (table - above.of(self.found.below[self.depth - 1], parent))[None])[0]
        places = _places(lattice, query, dense, product)  # answer of each cell
        answers, row_answer = np.unique(places, return_inverse=True)
        row_answer = row_answer.reshape(-1)[rows.first]
        blocks, linear, least = [], [], np.inf
        for child in self.nodes:
            pattern = up.shape.pattern[child]
            values = up.shape.values[pattern]
            spread = up.of(up.spread, int(child))
            at = np.searchsorted(theirs, values)
            estimate = up.of(self.found.alone[self.depth], int(child))
            estimate = estimate + lattice.apply(spread[None], moved[at][None])[0]
            left = spread - spread @ k[:, at[:, None], at[None, :]] @ spread
            block, value, lowest = _information(lattice, query, values, (spread, left), estimate)
            blocks.append(block[np.ix_(answers, answers)])
            linear.append(value[answers])
            least = min(least, lowest)
        shared = least * np.eye(len(answers))
        beyond = []
        for block in blocks:
            is_open = np.diag(block) > 0
            beyond.append(np.where(is_open[:, None] & is_open[None, :], block - shared, 0.0))
        on_rows = np.ix_(row_answer, row_answer)
        one_row_each = len(rows.first) == len(answers)
        return PerChild(
            np.ascontiguousarray(shared[on_rows]),
            Stacked(np.stack([k[on_rows] for k in beyond])),
            np.ascontiguousarray(np.stack(linear, axis=1)[row_answer]),
            least * (1 - 1e-9) if one_row_each else 0.0,
            least,
            rows.fixed.at(rows.first),
            rows.allowed,
        )


def _least(matrices: tuple[Floats, ...]) -> float:
    """Return a number below the smallest eigenvalue of matrices by components: theirs are those of all components."""
    found = min(float(np.linalg.eigvalsh(k).min()) for k in matrices)
    return max(found, 0.0) * (1 - 1e-9)


def _separate(labels: Ints, weights: Floats) -> float:
    """Return the weight of the queries that tell all rows apart."""
    n = labels.shape[1]
    return float(sum(w for of, w in zip(labels, weights, strict=True) if len(np.unique(of)) == n))


def _places(lattice: Lattice, query: ProductQuery, dense: Ints, product: Ints) -> Ints:
    """Return the answer of cells: groups of dense values times values on the kept axes."""
    out = query.group[dense].copy()
    for axis, n in enumerate(lattice.sizes):
        if query.kept >> axis & 1:
            out = out * n + lattice.coordinates[axis][product]
    return out


def _information(
    lattice: Lattice, query: ProductQuery, values: Ints, covariances: tuple[Floats, Floats], estimate: Floats
) -> tuple[Floats, Floats, float]:
    """Return the inverse covariance of a child's answers, that times their estimate, and its least curvature.

    Args:
        values: the child's open dense values. estimate: of its cells, (t, n_product).
        covariances: of its cells, by components, before and after the parent's table is known.
    """
    group = query.group[values]
    groups = np.unique(group)
    select = (groups[:, None] == group[None, :]).astype(np.float64)
    dropped = lattice.averaged[(lattice.n_components - 1) & ~query.kept]
    inside = [c for c in range(lattice.n_components) if c & ~query.kept == 0]
    matrices = np.zeros((lattice.n_components, len(groups), len(groups)))
    lowest = np.inf
    for c in inside:
        before, after = (dropped * select @ v[c] @ select.T for v in covariances)
        sizes, vectors = np.linalg.eigh((after + after.T) / 2)
        least = LEAST_LEFT * float(
            np.linalg.eigvalsh(before)[-1]
        )  # what the parent's table decides has no variance
        weights = 1.0 / np.maximum(sizes, least)
        matrices[c] = (vectors * weights) @ vectors.T
        lowest = min(lowest, float(weights.min()))
    n_kept = lattice.n_product // int(dropped)
    first = np.zeros(n_kept, dtype=np.int64)  # a product cell of each answer
    cells = np.arange(lattice.n_product)
    within = _places(lattice, replace(query, group=np.zeros_like(query.group)), np.zeros_like(cells), cells)
    first[within[::-1]] = cells[::-1]
    entries = dropped * lattice.entries(matrices)[lattice.equal_axes(first, first)]  # (q, q, g, g)
    n_answers = query.n_groups * n_kept
    sums = np.zeros((len(groups), n_kept))
    np.add.at(sums, (np.searchsorted(groups, group)[:, None], within[None, :]), estimate)
    value = np.einsum("qrgh,hr->gq", entries, sums)
    block, linear = np.zeros((query.n_groups, n_kept) * 2), np.zeros((query.n_groups, n_kept))
    block[np.ix_(groups, np.arange(n_kept), groups, np.arange(n_kept))] = entries.transpose(2, 0, 3, 1)
    linear[groups] = value
    return block.reshape(n_answers, n_answers), linear.reshape(-1), lowest
