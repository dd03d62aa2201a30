"""The tree estimate as what the splits of a release are fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Floats, Ints
from topdown.formats.release_documents import TreeEstimate
from topdown.model import refines
from topdown.plan import Plan, PublicContext
from topdown.solve.kernels_shared import gram
from topdown.solve.lattice import Lattice, ProductQuery, query_of_labels
from topdown.solve.least_squares import Dense, LatticeQuadratic, PerChild, written_out
from topdown.solve.noisy_answers import NoisyAnswers
from topdown.solve.objectives import (
    CellFit,
    FirstNodes,
    Objective,
    OwnStatistics,
    PassRows,
    Statistics,
    StatisticsOfParts,
)
from topdown.solve.release_facts import LevelModel
from topdown.solve.tree.coverage import MOST_WRITTEN_OUT, CoveredLevels, choose_levels
from topdown.solve.tree.normal_equations import LeafPath, Measured, normal_residual_persons
from topdown.solve.tree.tree_estimate import (
    Covariances,
    ExactAtRoot,
    NodeEstimates,
    condition_on_root,
    contract_axis,
    estimate_tree,
    make_tree,
    open_values,
    spread_evenly,
)

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

    def quadratic(self, level: LevelModel, rows: PassRows) -> Dense | PerChild | LatticeQuadratic:
        """Return the quadratic of a pass; the pass's own queries play no part."""
        if rows.counts is None:
            return self._root(level, rows) if rows.last else self._root_table(level, rows)
        return self._last(level, rows) if rows.last else self._table(level, rows, rows.counts)

    def _root(self, level: LevelModel, rows: PassRows) -> Dense | LatticeQuadratic:
        """Return A + K on cells."""
        if self.in_lattice and len(rows.cells) ** 2 > MOST_WRITTEN_OUT:
            return self._in_lattice(level, rows)
        labels = level.labels[:, rows.cells]
        hessian, g = self._on_cells(level, rows.cells)
        return Dense(hessian, g, _separate(labels, level.weights), float(level.weights.min()))

    def _root_table(self, level: LevelModel, rows: PassRows) -> Dense:
        """Return what A + K say of the pass's table."""
        lattice, up = self.tree.lattice, self.tree.levels[0]
        values, spread = up.shape.values[0], up.spread[0][0]
        if len(rows.cells) < len(values) * lattice.n_product:  # exact answers close cells of open values
            if 0 not in self._cells:
                self._cells[0] = CellFit.of(rows.step.table, *self._on_cells(level, rows.cells))
            return self._cells[0].margin(rows.table, rows.first)
        query = query_of_labels(lattice, level.tables[rows.step.table])
        estimate = self.found.alone[0][0][0]
        (block,), (linear,), least = _information(
            lattice, query, values, (spread[None], spread[None]), estimate[None]
        )
        row = _places(lattice, query, *lattice.place[:, rows.cells[rows.first]])
        one_row_each = len(np.unique(row)) == len(row)
        curvature = least * (1 - 1e-9) if one_row_each else 0.0
        return Dense(block[np.ix_(row, row)], linear[row][:, None], curvature, least)

    @cached_property
    def _cells(self) -> dict[int, CellFit]:
        """The fit of every cell of the root, once it is asked for: all its passes share it."""
        return {}

    def _on_cells(self, level: LevelModel, cells: Ints) -> tuple[Floats, Floats]:
        """Return A + K and b of the root on cells."""
        lattice, up = self.tree.lattice, self.tree.levels[0]
        dense, product = lattice.place[:, cells]
        equal = lattice.equal_axes(product, product)
        below = written_out(lattice, up.beyond[0][0], up.shape.values[0], dense, equal)
        hessian = gram(np.ascontiguousarray(level.labels[:, cells]), level.weights) + below
        return hessian, self._linear(0, up.shape.place[:1], dense, product)

    def _linear(self, pattern: int, places: Ints, dense: Ints, product: Ints) -> Floats:
        """Return b of nodes of one pattern at some cells, (n_cells, n_nodes); 0 where they are closed."""
        b = self.found.linear[self.depth][pattern][places]
        values = self.tree.levels[self.depth].shape.values[pattern]
        at = np.minimum(np.searchsorted(values, dense), len(values) - 1)
        return np.where(values[at] == dense, b[:, at, product], 0.0).T

    def _alike(self) -> Iterator[tuple[Ints, int, Ints]]:
        """Yield children with the same dense values open: which they are, their pattern, and their places in it."""
        shape = self.tree.levels[self.depth].shape
        patterns, places = shape.pattern[self.nodes], shape.place[self.nodes]
        for pattern in np.unique(patterns).tolist():
            here = np.flatnonzero(patterns == pattern)
            yield here, pattern, places[here]

    def _last(self, level: LevelModel, rows: PassRows) -> PerChild | LatticeQuadratic:
        """Return the quadratic of cells."""
        (n, m), lattice, up = rows.allowed.shape, self.tree.lattice, self.tree.levels[self.depth]
        if self.in_lattice and n * n * m > MOST_WRITTEN_OUT:
            return self._in_lattice(level, rows)
        _, labels, weights = _informative(level, rows)
        dense, product = lattice.place[:, rows.cells]
        equal = lattice.equal_axes(product, product)
        beyond, g = np.empty((m, n, n)), np.empty((n, m))
        for here, pattern, places in self._alike():
            beyond[here] = written_out(
                lattice, up.beyond[pattern][places], up.shape.values[pattern], dense, equal
            )
            g[:, here] = self._linear(pattern, places, dense, product)
        least = self._least_beyond()
        curvature, scale = _separate(labels, weights) + least, float(level.weights.min())
        return PerChild(gram(labels, weights), beyond, g, curvature, scale, rows.fixed, rows.allowed, least)

    def _least_beyond(self) -> float:
        """Return a number below the smallest eigenvalue of every K: those of all components are its own."""
        matrices = self.tree.levels[self.depth].beyond
        found = min(float(np.linalg.eigvalsh(matrices[p][places]).min()) for _, p, places in self._alike())
        return max(found, 0.0) * (1 - 1e-9)

    def _in_lattice(self, level: LevelModel, rows: PassRows) -> LatticeQuadratic:
        """Return the quadratic of cells in lattice form. What the fixed table tells is constant and left out of A."""
        lattice, up = self.tree.lattice, self.tree.levels[self.depth]
        informative, labels, weights = _informative(level, rows)
        dense, product = lattice.place[:, rows.cells]
        own = up.own.matrices - sum(
            weight * query_of_labels(lattice, of).gram(lattice)
            for of, weight, here in zip(level.labels, level.weights, informative, strict=True)
            if not here
        )
        pattern, place = up.shape.pattern[self.nodes], up.shape.place[self.nodes]
        matrices = tuple(up.of(up.beyond, int(node)) for node in self.nodes)
        return LatticeQuadratic(
            lattice,
            dense,
            product,
            tuple(up.shape.values[p] for p in pattern),
            matrices,
            labels,
            weights,
            own,
            tuple(self.found.linear[self.depth][p][at] for p, at in zip(pattern, place, strict=True)),
            _separate(labels, weights) + self._least_beyond(),
            float(level.weights.min()),
            rows.fixed,
            rows.allowed,
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
        m, q, least = len(self.nodes), len(answers), np.inf
        blocks, linear = np.empty((m, q, q)), np.empty((m, q))
        for here, pattern, places in self._alike():
            values, spread = up.shape.values[pattern], up.spread[pattern][places]
            at = np.searchsorted(theirs, values)
            estimate = self.found.alone[self.depth][pattern][places]
            estimate = estimate + lattice.apply(spread, np.repeat(moved[None, at], len(here), axis=0))
            left = spread - spread @ k[:, at[:, None], at[None, :]] @ spread
            block, value, lowest = _information(lattice, query, values, (spread, left), estimate)
            blocks[here], linear[here] = block[:, answers[:, None], answers], value[:, answers]
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
            np.stack([k[on_rows] for k in beyond]),
            np.ascontiguousarray(linear.T[row_answer]),
            least * (1 - 1e-9) if one_row_each else 0.0,
            least,
            rows.fixed.at(rows.first),
            rows.allowed,
        )


def _informative(level: LevelModel, rows: PassRows) -> tuple[Bools, Ints, Floats]:
    """Return which queries the fixed table does not answer, bool (n_queries,), and of these labels and weights."""
    fixed, labels = rows.fixed, level.labels[:, rows.cells]
    untold = np.array([not fixed.n_groups or not refines(fixed.of, of) for of in labels], dtype=bool)
    return untold, np.ascontiguousarray(labels[untold]), level.weights[untold]


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
    lattice: Lattice, query: ProductQuery, values: Ints, covariances: tuple[Floats, Floats], estimates: Floats
) -> tuple[Floats, Floats, float]:
    """Return inverse covariances of some children's answers, these times their estimates, and the least curvature.

    Args:
        values: the children's open dense values. estimates: of their cells, (m, t, n_product).
        covariances: of their cells, by components, before and after the parent's table is known.
    """
    group = query.group[values]
    groups = np.unique(group)
    select = (groups[:, None] == group[None, :]).astype(np.float64)
    dropped = lattice.averaged[(lattice.n_components - 1) & ~query.kept]
    inside = [c for c in range(lattice.n_components) if c & ~query.kept == 0]
    matrices = np.zeros((len(estimates), lattice.n_components, len(groups), len(groups)))
    lowest = np.inf
    for c in inside:
        before, after = (dropped * select @ v[:, c] @ select.T for v in covariances)
        sizes, vectors = np.linalg.eigh((after + np.swapaxes(after, 1, 2)) / 2)
        largest = np.linalg.eigvalsh(before)[:, -1:]
        # what the parent's table decides has no variance
        weights = 1.0 / np.maximum(sizes, LEAST_LEFT * largest)
        matrices[:, c] = (vectors * weights[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        lowest = min(lowest, float(weights.min()))
    n_kept = lattice.n_product // int(dropped)
    first = np.zeros(n_kept, dtype=np.int64)  # a product cell of each answer
    cells = np.arange(lattice.n_product)
    within = _places(lattice, replace(query, group=np.zeros_like(query.group)), np.zeros_like(cells), cells)
    first[within[::-1]] = cells[::-1]
    entries = dropped * lattice.entries(matrices)[:, lattice.equal_axes(first, first)]  # (m, q, q, g, g)
    sums = np.zeros((len(estimates), len(groups), n_kept))
    nodes, answer = np.arange(len(estimates))[:, None, None], np.searchsorted(groups, group)[:, None]
    np.add.at(sums, (nodes, answer, within), estimates)
    value = np.einsum("mqrgh,mhr->mgq", entries, sums)
    shape = len(estimates), query.n_groups, n_kept
    block, linear = np.zeros((*shape, *shape[1:])), np.zeros(shape)
    block[np.ix_(np.arange(shape[0]), groups, np.arange(n_kept), groups, np.arange(n_kept))] = (
        entries.transpose(0, 3, 1, 4, 2)
    )
    linear[:, groups] = value
    n_answers = query.n_groups * n_kept
    return block.reshape(-1, n_answers, n_answers), linear.reshape(-1, n_answers), lowest


JUDGED_LEAVES = 12


@final
@dataclass(frozen=True, eq=False)
class TreePublic:
    """What the tree estimate is made with, whatever the answers are.

    Args:
        context: plan and public facts.
        choice: what the estimate covers; one level at least.
    """

    context: PublicContext
    choice: CoveredLevels

    @property
    def lattice(self) -> Lattice:
        """The cells as the estimate sorts them."""
        if self.choice.lattice is None:
            raise TypeError("no level is covered by the tree estimate")
        return self.choice.lattice

    @cached_property
    def covariances(self) -> Covariances:
        """Covariances of the estimates of all nodes: they follow from the plan and public facts, not from answers."""
        rules = self.context.rules
        is_open = [open_values(self.lattice, rules.class_of_cell, at) for at in rules.open]
        return make_tree(self.lattice, self.context.geography, is_open, self.choice.own)


@final
@dataclass(frozen=True, eq=False)
class TreeStatistics:
    """Own information of each node and what the areas below it add; leaves, and levels not covered, by themselves.

    Args:
        public: what does not depend on answers, made once for all of them.
        answers: measured.
        levels: the solver's view of every level.
        exact: labels and answers of what is exact at the root, int64 (n_cells,) and (n_answers,).
    """

    public: TreePublic
    answers: NoisyAnswers
    levels: tuple[LevelModel, ...]
    exact: tuple[tuple[Ints, Ints], ...]

    @property
    def context(self) -> PublicContext:
        """Plan and public facts."""
        return self.public.context

    @property
    def choice(self) -> CoveredLevels:
        """What the estimate covers."""
        return self.public.choice

    @property
    def lattice(self) -> Lattice:
        """The cells as the estimate sorts them."""
        return self.public.lattice

    @property
    def covariances(self) -> Covariances:
        """Covariances of the estimates of all nodes."""
        return self.public.covariances

    @cached_property
    def found(self) -> NodeEstimates:
        """What the noisy answers say of every node above the leaves."""
        return estimate_tree(self.covariances, self.answers)

    @cached_property
    def root(self) -> tuple[Floats, Floats]:
        """Estimate and covariance of the root, conditioned on what is exact there."""
        known = []
        for labels, answers in self.exact:
            query = query_of_labels(self.lattice, labels)
            by_cell = answers[labels[self.lattice.cell]].astype(np.float64)
            known.append(ExactAtRoot(query, spread_evenly(self.lattice, query, by_cell)))
        return condition_on_root(
            self.covariances, self.found.linear[0][0][0], self.found.alone[0][0][0], known
        )

    @cached_property
    def residual(self) -> float:
        """Deviation of some leaves and their ancestors from the normal equations, in persons."""
        inhabited = np.flatnonzero(self.context.rules.inhabited[-1])
        rng = np.random.default_rng(int(self.context.plan.plan_hash[:8], 16))
        leaves = np.sort(rng.permutation(inhabited)[:JUDGED_LEAVES])
        levels = [Measured(at.labels, at.offsets, at.weights) for at in self.levels]
        return normal_residual_persons(
            levels, [self._path(int(leaf)) for leaf in leaves], [labels for labels, _ in self.exact]
        )

    def _path(self, leaf: int) -> LeafPath:
        geography, lattice = self.context.geography, self.lattice
        path = [int(of[leaf]) for of in geography.ancestors_of_leaves]
        found, sums = contract_axis(self.covariances, self.found, self.root[0], self.answers, leaf)
        cells = [
            lattice.cell[level.shape.values[level.shape.pattern[node]]].reshape(-1)
            for level, node in zip(self.covariances.levels, path, strict=True)
        ]
        return LeafPath(
            cells[-1],
            tuple(_on_cells(lattice, at, x) for at, x in zip(cells, found, strict=True)),
            tuple(_on_cells(lattice, at, x) for at, x in zip(cells[:-1], sums, strict=True)),
            tuple(self.answers.answers(depth, node, node + 1)[1][0] for depth, node in enumerate(path)),
        )

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return the measured nodes and the objective: their own answers, or the tree estimate."""
        if self.choice.levels[level_index].targets == "own":
            return OwnStatistics(self.answers).split(level_index, first_node, last_node)
        shape = self.covariances.levels[level_index].shape
        nodes = first_node + np.flatnonzero(shape.pattern[first_node:last_node] >= 0).astype(np.int64)
        _ = self.residual  # before workers are forked: the root is split first
        in_lattice = self.choice.in_lattice[level_index]
        return nodes, TreeObjective(self.covariances, self.found, level_index, nodes, in_lattice)

    def anew(self, answers: NoisyAnswers) -> TreeStatistics:
        """Return the statistics of other answers; covariances are shared."""
        return replace(self, answers=answers)

    def of_parts(self) -> TreeOfParts:
        """Return what opens those of parts."""
        return TreeOfParts(self)

    def document(self) -> TreeEstimate:
        """Return what solve.json says: levels, attributes, and how well the normal equations hold."""
        return TreeEstimate(
            targets=list(self.choice.levels),
            dense=list(self.lattice.dense),
            product=list(self.lattice.product),
            residual_persons=float(f"{self.residual:.2e}"),
        )


def _on_cells(lattice: Lattice, cells: Ints, x: Floats) -> Floats:
    out = np.zeros(lattice.cell.size)
    out[cells] = x.reshape(-1)
    return out


@final
@dataclass(frozen=True, eq=False)
class PartStatistics:
    """What the splits of a part are fitted to: that of the whole tree, by the part's own numbers of nodes.

    Args:
        whole: statistics of the whole tree.
        first: of the part's nodes in each level.
    """

    whole: Statistics
    first: tuple[int, ...]

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return the measured nodes among first..last-1 of a level, and the objective of a split into them."""
        first = self.first[level_index]
        nodes, objective = self.whole.split(level_index, first_node + first, last_node + first)
        return np.asarray(nodes - first, dtype=np.int64), objective

    def anew(self, answers: NoisyAnswers) -> PartStatistics:
        """Return those of other answers."""
        return replace(self, whole=self.whole.anew(answers))

    def of_parts(self) -> StatisticsOfParts:
        """Return what opens those of parts of the whole."""
        return self.whole.of_parts()

    def document(self) -> TreeEstimate | None:
        """Return what solve.json says of the whole."""
        return self.whole.document()


@final
@dataclass(frozen=True, eq=False)
class TreeOfParts:
    """Parts whose splits are fitted to the estimate of the whole tree."""

    whole: TreeStatistics

    def open(self, answers: NoisyAnswers, firsts: FirstNodes) -> PartStatistics:
        """Return the whole, by the part's own numbers of nodes."""
        del answers
        return PartStatistics(self.whole, firsts)


def statistics_of(
    context: PublicContext,
    answers: NoisyAnswers,
    levels: tuple[LevelModel, ...],
    at_root: tuple[tuple[Ints, Ints], ...],
) -> Statistics:
    """Return what the splits of a plan are fitted to.

    Args:
        context: plan and public facts. answers: measured. levels: the solver's view.
        at_root: as from `exact_at_root`.
    """
    if not context.plan.fits_tree:
        return OwnStatistics(answers)
    choice = choose_levels(context)
    if choice.lattice is None:
        return OwnStatistics(answers, choice.levels)
    return TreeStatistics(TreePublic(context, choice), answers, levels, at_root)


def exact_at_root(
    plan: Plan, exact: dict[str, Ints], tables: dict[str, Ints]
) -> tuple[tuple[Ints, Ints], ...]:
    """Return what is exact at the root: labels of every cell and answers, one pair a statistic."""
    known = []
    for invariant in plan.invariants.exact:
        query = plan.query(invariant.query)
        held = tables[invariant.name] if query.factors else exact[invariant.level][:, None]
        known.append((query.labels.astype(np.int64), held.sum(axis=0)))
    return tuple(known)
