"""Limits on kinds of cells and exact tables at any level, against enumeration and by both ways of writing them."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.polytopes import limit_excess, make_polytopes, project
from tests.oracles import solver_twins as reference
from topdown.errors import ConfigError
from topdown.model import (
    NO_LIMIT,
    ConstraintSystem,
    ExactArrangement,
    ExactMargins,
    ExactTable,
    Geography,
    LimitUse,
    MergedTable,
    NodeAnswers,
    SplitConstraints,
    arrange_exact_tables,
    from_prefixes,
    split_constraints,
)
from topdown.solve import (
    child_totals,
    least_change,
)

N_CELLS = 4
LEVELS = ("land", "pair", "leaf")
Vectors = set[tuple[int, ...]]
TABLES = (  # answer of each of four cells
    (0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1), (0, 0, 1, 2), (0, 1, 2, 3), (0, 1, 1, 2),
)  # fmt: skip
GROUPS = ((1, 0, 0, 0), (0, 1, 1, 0), (1, 1, 0, 0), (0, 0, 1, 1), (1, 1, 1, 0))


class Case:
    """A tree of four leaves in pairs, records that meet random bounds, and random exact tables of them."""

    def __init__(self, seed: int, *, n_leaves: int = 4, together: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.tree: Geography = from_prefixes(
            LEVELS, (0, 1, 2), tuple(f"{i // 2}{i}" for i in range(n_leaves))
        )
        n_classes = 2 if together else N_CELLS
        class_of = rng.integers(0, 2, N_CELLS) if together else np.arange(N_CELLS)
        class_of = np.unique(class_of, return_inverse=True)[1].reshape(-1)
        n_classes = int(class_of.max()) + 1
        leaf_open = rng.random((n_leaves, n_classes)) < 0.7
        people = rng.integers(0, 2, (n_leaves, N_CELLS)) * leaf_open[:, class_of]
        chosen: list[np.ndarray] = []
        for group in (np.array(g, dtype=bool) for g in rng.permutation(GROUPS)[: rng.integers(0, 3)]):
            if all(not (c & group).any() or (c & ~group).sum() * (group & ~c).sum() == 0 for c in chosen):
                chosen.append(group)
        held = np.stack([people[:, g].sum(axis=1) for g in chosen] or [np.zeros(n_leaves, int)], axis=1)
        low = (held * rng.integers(0, 2, held.shape))[:, : len(chosen)]
        high = (held + rng.integers(0, 2, held.shape))[:, : len(chosen)]
        caps = rng.random() < 0.4
        self.rules = ConstraintSystem(
            class_of_cell=class_of.astype(np.int64),
            open=tuple(np.asarray(self.up(leaf_open, d) > 0) for d in range(3)),
            bound_cells=tuple(chosen),
            lower=tuple(self.up(low, d) for d in range(3)),
            cap_cells=tuple(chosen) if caps else (),
            caps=high if caps else np.zeros((n_leaves, 0), dtype=np.int64),
            bound_names=tuple(f"b{i}" for i in range(len(chosen))),
            cap_names=tuple(f"c{i}" for i in range(len(chosen) * caps)),
        )
        picks = [
            (int(rng.integers(0, 2)), TABLES[rng.integers(len(TABLES))]) for _ in range(rng.integers(1, 3))
        ]
        if rng.random() < 0.3:
            picks.append((2, TABLES[0]))
        self.tables = [
            ExactTable(f"t{i}", depth, np.array(labels, dtype=np.int64))
            for i, (depth, labels) in enumerate(picks)
        ]
        self.values = [self.answers(people, t) for t in self.tables]
        self.people = people

    def up(self, leaf: np.ndarray, depth: int) -> np.ndarray:
        """Add rows of leaves up to a level."""
        out = np.zeros((len(self.tree.levels[depth]), leaf.shape[1]), dtype=np.int64)
        np.add.at(out, self.tree.ancestors_of_leaves[depth], leaf.astype(np.int64))
        return out

    def answers(self, cells: np.ndarray, table: ExactTable) -> np.ndarray:
        """Answer a table from cells of the leaves, (n_nodes, n_answers)."""
        select = np.eye(int(table.labels.max()) + 1, dtype=np.int64)[table.labels]
        return self.up(cells @ select, table.depth)

    def arrangement(self) -> ExactArrangement | None:
        """Return how the tables are kept, None if they are refused."""
        try:
            return arrange_exact_tables(self.tables, self.rules, LEVELS)
        except ConfigError as error:
            if error.code != "C033":
                raise
            return None

    def answers_of(self, merged: MergedTable, n_nodes: int) -> np.ndarray:
        """Return the answers of a merged table."""
        none = np.zeros(n_nodes, dtype=np.int64)
        return np.stack([none if s is None else self.values[s[0]][:, s[1]] for s in merged.sources], axis=1)

    def polytopes(self, kept: ExactArrangement) -> SplitConstraints:
        """Return the limits the solver uses."""
        kinds = self.rules.partition(kept.split.labels)
        everybody = self.people.sum(axis=1)[:, None]
        totals = {d: self.up(everybody, d)[:, 0] for d in range(kept.depth + 1)}
        margins = None
        if kept.split.tells_more:
            answers = self.answers_of(kept.split, len(self.tree.levels[kept.depth]))
            margins = ExactMargins(NodeAnswers(kept.split.labels, answers), NodeAnswers.none(N_CELLS, 1))
        return split_constraints(kinds, self.rules, self.tree, totals, margins)

    def node_tables(self, depth: int, node: int, most: int) -> Vectors:
        """Write out every table of a node, up to `most` people a cell, that splits down to the leaves."""
        if depth == 2:
            found = self._leaf_tables(node, most)
        else:
            first, last = self.tree.child_pointers[depth][node : node + 2]
            found = {(0,) * N_CELLS}
            for child in range(first, last):
                below = self.node_tables(depth + 1, child, most)
                found = {tuple(a + b for a, b in zip(x, y, strict=True)) for x in found for y in below}
                found = {v for v in found if max(v) <= most}
        for table, values in zip(self.tables, self.values, strict=True):
            if table.depth == depth:
                found = {v for v in found if _add(v, table, values.shape[1]) == values[node].tolist()}
        return found

    def _leaf_tables(self, leaf: int, most: int) -> Vectors:
        is_open = self.rules.open[-1][leaf, self.rules.class_of_cell]
        found = set()
        for cells in product(*(range(most + 1) if o else (0,) for o in is_open)):
            here = np.array(cells)
            low = zip(self.rules.bound_cells, self.rules.lower[-1][leaf], strict=True)
            high = zip(self.rules.cap_cells, self.rules.caps[leaf], strict=True)
            if all(here[g].sum() >= n for g, n in low) and all(here[g].sum() <= n for g, n in high):
                found.add(cells)
        return found


def _add(cells: tuple[int, ...], table: ExactTable, n_answers: int) -> list[int]:
    out = [0] * n_answers
    for value, answer in zip(cells, table.labels.tolist(), strict=True):
        out[answer] += value
    return out


seeds = st.integers(0, 1_000_000)
EXACT = st.sampled_from([0, 1, 2, None])


@pytest.mark.deep
@given(seeds, EXACT, st.booleans())
@settings(max_examples=40 * DEPTH, deadline=None)
def test_the_network_says_the_same_as_the_limits(seed: int, exact: int | None, caps: bool) -> None:
    """Rounding trusts the network, least squares the limits: a difference would end in a broken promise."""
    polytopes = make_polytopes(seed, exact=exact, caps=caps)
    k = polytopes.partition.n_kinds
    vectors = np.random.default_rng(seed).integers(0, 4, (25, k))
    for depth, node in ((0, 0), (1, 1), (2, 0)):
        check_network(polytopes, depth, node, vectors)


def check_network(polytopes: SplitConstraints, depth: int, node: int, vectors: np.ndarray) -> None:
    """Fail unless the network takes the vectors that keep the limits and a known total, and no others."""
    limits, arcs = polytopes.limits(depth, np.array([node])), (polytopes.arcs(depth, node),)
    totals, kinds = child_totals(polytopes, depth, np.array([node])), np.arange(polytopes.partition.n_kinds)
    for vector in vectors:
        found = least_change(kinds, arcs, totals, kinds, kinds, kinds, vector)
        inside = limit_excess(limits, vector[:, None])[0] <= 0 and (
            totals[0] < 0 or totals[0] == vector.sum()
        )
        assert (found is not None and found[1] == 0) == inside


def vertices(limits: np.ndarray) -> np.ndarray:
    """Return the vertices of a base polytope (Edmonds): one for every order of its entries."""
    k = int(np.log2(len(limits)))
    out = []
    for order in permutations(range(k)):
        sets = np.cumsum([1 << i for i in order])
        steps = np.diff(np.concatenate(([0], limits[sets])))
        out.append(steps[np.argsort(order)])
    return np.array(out)


@pytest.mark.deep
@given(seeds, EXACT, st.booleans(), st.sampled_from([0.3, 3.0, 100.0]))
@settings(max_examples=60 * DEPTH, deadline=None)
def test_projection_is_the_closest_point(seed: int, exact: int | None, caps: bool, spread: float) -> None:
    """A point is the projection if no vertex lies on the far side of it; every vertex is tried."""
    polytopes: SplitConstraints = make_polytopes(seed, exact=exact, caps=caps)
    limits = polytopes.limits(1, np.array([0]))[0].astype(np.float64)
    k = polytopes.partition.n_kinds
    if not k:
        return
    v = np.random.default_rng(seed).normal(size=k) * spread
    y = project(limits, v)
    large = np.where(limits < NO_LIMIT / 4, limits * 1e5, limits)  # of a nation
    np.testing.assert_allclose(project(large, v * 1e5), y * 1e5, atol=1e-6)
    full = np.append(y, -y.sum()) if len(limits) > 1 << k else y
    sets = (np.arange(len(limits))[:, None] >> np.arange(len(full))) & 1
    assert (sets @ full <= limits + 1e-9).all()
    away = np.append(v - y, 0.0)[: len(full)]
    ends = vertices(limits)
    ends = ends[(np.abs(ends) < NO_LIMIT / 4).all(axis=1)]
    ends = ends[(ends @ sets.T <= limits).all(axis=1)]
    assert len(ends)
    np.testing.assert_allclose(y, reference.project_base(v, limits), atol=1e-9 * max(1.0, spread))
    assert ((ends - full) @ away <= 1e-6 * max(1.0, spread)).all()
    assert (
        away[:k][limits[1 << np.arange(k)] >= NO_LIMIT] <= 1e-9
    ).all()  # the rays, where there is no limit


table_seeds = st.integers(0, 10_000_000)


def enforced(case: Case, polytopes: SplitConstraints, depth: int, node: int, cells: np.ndarray) -> np.ndarray:
    """Tell which tables (n, n_cells) satisfy what the solver enforces at a node below the root."""
    kinds, rules = polytopes.partition, case.rules
    fits = ~cells[:, ~rules.open[depth][node, rules.class_of_cell]].any(axis=1)
    if depth in polytopes.totals:
        fits &= cells.sum(axis=1) == polytopes.totals[depth][node]
    if polytopes.decided(depth) is LimitUse.KEPT:
        held = np.zeros((kinds.n_kinds, len(cells)), dtype=np.int64)
        inside = kinds.of_cell >= 0
        np.add.at(held, kinds.of_cell[inside], cells[:, inside].T)
        limits = polytopes.limits(depth, np.array([node]))
        return fits & (limit_excess(np.repeat(limits, len(cells), axis=0), held) <= 0)
    for group, low in zip(rules.bound_cells, rules.lower[depth][node], strict=True):
        fits &= cells[:, group].sum(axis=1) >= low
    return fits


@pytest.mark.deep
@given(table_seeds, st.sampled_from([1, 2, 0]), st.booleans())
@settings(max_examples=150 * DEPTH, deadline=None)
def test_accepted_tables_are_complete(seed: int, depth: int, together: bool) -> None:
    """A table too many cannot be split below, one too few is error without cause; at the root, and below."""
    case = Case(seed, n_leaves=3 if depth == 0 else 4, together=together)
    kept = case.arrangement()
    if kept is None:
        return
    polytopes = case.polytopes(kept)
    most = 2 if depth else 3
    truth = case.node_tables(depth, 0, most)
    candidates = np.array(list(product(range(most + 1), repeat=N_CELLS)), dtype=np.int64)
    fits = enforced(case, polytopes, depth, 0, candidates)
    if depth == 0 and kept.root.tells_more:
        answers = case.answers_of(kept.root, 1)[0]
        for answer, n in enumerate(answers):
            fits &= candidates[:, kept.root.labels == answer].sum(axis=1) == n
    for cells, found in zip(candidates, fits, strict=True):
        assert found == (tuple(cells.tolist()) in truth), (cells, kept)


@pytest.mark.deep
@given(table_seeds, st.sampled_from([0, 1, 2]), st.booleans())
@settings(max_examples=75 * DEPTH, deadline=None)
def test_the_network_of_exact_tables_says_the_same_as_the_limits(
    seed: int, depth: int, together: bool
) -> None:
    """Rounding trusts the network, least squares the limits: a difference would end in a broken promise."""
    case = Case(seed, together=together)
    kept = case.arrangement()
    if kept is None or not kept.split.tells_more:
        return
    polytopes = case.polytopes(kept)
    k = polytopes.partition.n_kinds
    if not k or (depth > kept.depth and polytopes.decided(depth) is not LimitUse.KEPT):
        return
    check_network(polytopes, depth, 0, np.random.default_rng(seed).integers(0, 4, (20, k)))


def test_enough_cases_are_accepted_and_refused() -> None:
    """The tests above prove nothing if nearly every draw is refused, or has no table between root and leaves."""
    kept = [Case(seed, together=bool(seed % 2)).arrangement() for seed in range(600)]
    assert sum(k is None for k in kept) > 60
    assert sum(k is not None and k.split is not None for k in kept) > 100
    assert sum(k is not None and k.root is not None for k in kept) > 100
    assert sum(k is not None and k.split is not None and k.root is not None for k in kept) > 20
