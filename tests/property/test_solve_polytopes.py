"""Limits on kinds of cells: against enumeration, both ways of writing them, and the projection on them."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.polytopes import limit_excess, make_polytopes, node_vectors, project
from tests.oracles import solver_twins as reference
from topdown.model import NO_LIMIT, ConstraintSystem, SplitConstraints, from_prefixes, split_constraints
from topdown.solve import (
    child_totals,
    least_change,
)

seeds = st.integers(0, 1_000_000)
EXACT = st.sampled_from([0, 1, 2, None])


@pytest.mark.deep
@given(seeds, EXACT, st.booleans(), st.sampled_from([0, 1]))
@settings(max_examples=75 * DEPTH, deadline=None)
def test_limits_hold_for_exactly_the_tables_that_split(
    seed: int, exact: int | None, caps: bool, depth: int
) -> None:
    """Complete means complete: one table too many fails further down, one too few is error without cause."""
    polytopes = make_polytopes(seed, n_leaves=4 if depth else 3, exact=exact, caps=caps)
    most = 2 if depth == 0 else 3
    truth = node_vectors(polytopes, depth, 0, most)
    limits = polytopes.limits(depth, np.array([0]))
    vectors = np.array(list(product(range(most + 1), repeat=polytopes.partition.n_kinds)), dtype=np.int64)
    if not len(vectors[0]):
        return
    if exact is not None and depth in polytopes.totals:
        vectors = vectors[vectors.sum(axis=1) == polytopes.totals[depth][0]]
    inside = limit_excess(np.repeat(limits, len(vectors), axis=0), vectors.T) <= 0
    for vector, found in zip(vectors, inside, strict=True):
        assert found == (tuple(vector.tolist()) in truth), vector


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


def test_the_college_town_of_the_paper() -> None:
    """Census TopDown, Example 1: two polytopes of 98, female and co-ed dorms in one, male and co-ed in the other."""
    polytopes = college_town()
    limits = polytopes.limits(0, np.array([0]))
    f, c, m = polytopes.partition.of_cell
    for vector in product(range(0, 197, 7), range(0, 197, 7)):
        female, coed = vector
        held = np.zeros((3, 1), dtype=np.int64)
        held[[f, c, m], 0] = female, coed, 196 - female - coed
        stated = female + coed >= 98 and held[m, 0] + coed >= 98 and held.min() >= 0
        assert (limit_excess(limits, held)[0] <= 0) == stated
    wrong = np.zeros((3, 1), dtype=np.int64)
    wrong[[f, c, m], 0] = 48, 49, 99
    assert limit_excess(limits, wrong)[0] == 1


def college_town() -> SplitConstraints:
    """Return the paper's town: open dorms by region, region totals exact."""
    leaf_open = np.array([[True, True, False], [False, True, True]])
    rules = ConstraintSystem(
        class_of_cell=np.arange(3),
        open=(np.ones((1, 3), dtype=bool), leaf_open),
        bound_cells=(),
        lower=(np.zeros((1, 0), dtype=np.int64), np.zeros((2, 0), dtype=np.int64)),
        cap_cells=(),
        caps=np.zeros((2, 0), dtype=np.int64),
    )
    tree = from_prefixes(("town", "region"), (0, 1), ("1", "2"))
    return split_constraints(rules.partition(), rules, tree, {0: np.array([196]), 1: np.array([98, 98])})


def test_seven_counties_and_three_combinations() -> None:
    """Section 7.3: types A, B, C in seven counties, combinations AC, AB and C; limits are the flow's cuts."""
    combos = {"AC": (900, 700, 500), "AB": (120, 80, 60), "C": (2000,)}
    leaf_open = np.array([[t in name for t in "ABC"] for name, people in combos.items() for _ in people])
    totals = np.array([n for people in combos.values() for n in people])
    rules = ConstraintSystem(
        class_of_cell=np.arange(3),
        open=(np.ones((1, 3), dtype=bool), leaf_open),
        bound_cells=(np.array([1, 0, 0], dtype=bool), np.array([0, 1, 0], dtype=bool)),
        lower=(np.array([[11, 4]]), np.array([[3, 0], [1, 0], [2, 0], [2, 1], [2, 1], [1, 2], [0, 0]])),
        cap_cells=(),
        caps=np.zeros((7, 0), dtype=np.int64),
    )
    tree = from_prefixes(("two states", "county"), (0, 1), tuple("1234567"))
    polytopes = split_constraints(rules.partition(), rules, tree, {0: np.array([totals.sum()]), 1: totals})
    a, b, c = polytopes.partition.of_cell
    limits = polytopes.limits(0, np.array([0]))[0]
    assert limits[1 << a] == 2100 + 260 - 4
    assert limits[1 << b] == 260 - 5
    assert limits[1 << c] == 2100 - 6 + 2000
    assert limits[(1 << a) | (1 << b)] == 2100 + 260
    assert (
        polytopes.arcs(0, 0).n_nodes == 1 + 3 + 3 + 2 + 1
    )  # all, kinds, combinations, bounded types in them
