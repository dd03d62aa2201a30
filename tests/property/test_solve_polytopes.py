"""Limits on kinds of cells and exact tables at any level, against enumeration and by both ways of writing them."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.exact_tables import N_CELLS, Case
from tests.helpers.polytopes import limit_excess, make_polytopes, project
from tests.oracles import solver_twins as reference
from topdown.model import (
    NO_LIMIT,
    LimitUse,
    SplitConstraints,
)
from topdown.solve import (
    child_totals,
    least_change,
)

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
        limits = polytopes.limits(depth, np.array([node]))
        arcs = (polytopes.arcs(depth, node),)
        totals = child_totals(polytopes, depth, np.array([node]))
        for vector in vectors:
            found = least_change(np.arange(k), arcs, totals, np.arange(k), np.arange(k), np.arange(k), vector)
            inside = limit_excess(limits, vector[:, None])[0] <= 0
            if totals[0] >= 0 and vector.sum() != totals[0]:
                inside = False
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
    limits, arcs = polytopes.limits(depth, np.array([0])), (polytopes.arcs(depth, 0),)
    totals = child_totals(polytopes, depth, np.array([0]))
    for vector in np.random.default_rng(seed).integers(0, 4, (20, k)):
        found = least_change(np.arange(k), arcs, totals, np.arange(k), np.arange(k), np.arange(k), vector)
        inside = limit_excess(limits, vector[:, None])[0] <= 0
        if totals[0] >= 0 and vector.sum() != totals[0]:
            inside = False
        assert (found is not None and found[1] == 0) == inside


def test_enough_cases_are_accepted_and_refused() -> None:
    """The tests above prove nothing if nearly every draw is refused, or has no table between root and leaves."""
    kept = [Case(seed, together=bool(seed % 2)).arrangement() for seed in range(600)]
    assert sum(k is None for k in kept) > 60
    assert sum(k is not None and k.split is not None for k in kept) > 100
    assert sum(k is not None and k.root is not None for k in kept) > 100
    assert sum(k is not None and k.split is not None and k.root is not None for k in kept) > 20
