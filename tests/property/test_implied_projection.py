"""Projection on base polytopes: against exact chains, explicit flows in a quadratic program, and its certificate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import piqp
from scipy import sparse

from tests.helpers.implied_brute import exact_projection, random_groups
from topdown.solve.implied.combinations import Combinations
from topdown.solve.implied.polymatroid import coverage, polymatroid
from topdown.solve.implied.projection import certify, project


def test_projection_equals_the_exact_chain() -> None:
    """A wrong split would move people between group quarters types in every solve with exact block totals."""
    rng = np.random.default_rng(5)
    for _ in range(800):
        k = int(rng.integers(1, 5))
        node = polymatroid(random_groups(rng, k, int(rng.integers(1, 5)), 8).combinations)
        point = np.round(rng.normal(size=k) * 6 + node.total / k, 2)
        exact = exact_projection(node.table.tolist(), [Fraction(float(p)) for p in point])
        value = project(node.table[None], point[None])[0]
        np.testing.assert_allclose(value, [float(v) for v in exact], atol=1e-12 * (1 + node.total))


def test_certificate_bounds_the_distance() -> None:
    """The certificate is the only thing that makes the projection trusted; it must also refuse a wrong one."""
    rng = np.random.default_rng(6)
    for _ in range(150):
        k = int(rng.integers(2, 9))
        node = polymatroid(random_groups(rng, k, 6, 10**5).combinations)
        point = rng.normal(size=k) * 10.0 ** rng.integers(0, 6) + node.total / k
        scale = node.total + float(np.abs(point).sum()) + 1
        value = project(node.table[None], point[None])[0]
        good = certify(node, point, value)
        assert good.violation <= 1e-13 * scale
        assert abs(good.gap) <= 1e-12 * scale**2
        vertex = np.array(
            [int(v) for v in np.diff(node.table[[(1 << j) - 1 for j in range(k + 1)]])], dtype=float
        )
        bad = certify(node, point, vertex)
        assert bad.violation == 0
        assert bad.distance >= float(np.linalg.norm(vertex - value)) - 1e-9 * scale
        assert certify(node, point, value + np.eye(k)[0]).violation >= 0.99


def test_many_nodes_at_once_equal_one_by_one() -> None:
    """Children of one parent are projected together; nodes must not touch each other."""
    rng = np.random.default_rng(7)
    nodes = [polymatroid(random_groups(rng, 6, 4, 50).combinations) for _ in range(300)]
    tables, points = np.stack([n.table for n in nodes]), rng.normal(size=(300, 6)) * 30 + 20
    together = project(tables, points)
    alone = np.concatenate([project(t[None], p[None]) for t, p in zip(tables, points, strict=True)])
    np.testing.assert_allclose(together, alone, atol=1e-10)
    assert np.array_equal(together, project(tables, points))
    assert project(tables[:0], points[:0]).shape == (0, 6)


def test_coverage_equals_its_definition() -> None:
    """U is built by a transform over bit sets; a swapped bit would give another group's limits."""
    rng = np.random.default_rng(8)
    for k in range(1, 6):
        people = rng.integers(0, 9, size=(3, 1 << k))
        people[:, 0] = 0
        fast = coverage(people.astype(np.int64))
        for row, table in zip(people, fast, strict=True):
            names = tuple("abcdef"[:k])
            slow = Combinations(names, {m: int(n) for m, n in enumerate(row) if n})
            assert [slow.most(a) for a in range(1 << k)] == table.tolist()


def _by_flows(combinations: Combinations, point: np.ndarray) -> np.ndarray:
    """Solve min 1/2 |g - point|^2 with explicit flows from combinations to groups, in centred variables."""
    masks, k = list(combinations.people), len(combinations.names)
    arcs = [(c, j) for c, mask in enumerate(masks) for j in range(k) if mask >> j & 1]
    start = np.array([combinations.people[masks[c]] / masks[c].bit_count() for c, _ in arcs])
    to_group = sparse.csc_matrix(
        (np.ones(len(arcs)), ([j for _, j in arcs], range(len(arcs)))), shape=(k, len(arcs))
    )
    of_mask = sparse.csc_matrix(
        (np.ones(len(arcs)), ([c for c, _ in arcs], range(len(arcs)))), shape=(len(masks), len(arcs))
    )
    # variables: flow changes d and group totals y = to_group (start + d) - point
    n = len(arcs)
    quadratic = sparse.block_diag([sparse.csc_matrix((n, n)), sparse.eye(k)], format="csc")
    equal = sparse.bmat([[of_mask, None], [to_group, -sparse.eye(k)]], format="csc")
    right = np.concatenate([np.zeros(len(masks)), point - to_group @ start])
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = 1e-10
    solver.settings.eps_rel = 0.0
    solver.settings.max_iter = 500
    below = sparse.hstack([-sparse.eye(n), sparse.csc_matrix((n, k))], format="csc")
    solver.setup(quadratic, np.zeros(n + k), equal, right, below, np.full(n, -np.inf), start)
    solver.solve()
    return point + np.array(solver.result.x)[n:]


def test_projection_and_explicit_flows_agree() -> None:
    """Both forms of section 7.3 are the same polytope: objectives agree to 1e-9 relative, totals in persons."""
    rng = np.random.default_rng(9)
    for _ in range(60):
        k = int(rng.integers(2, 9))
        combinations = random_groups(rng, k, int(rng.integers(2, 12)), 3000).combinations
        if not combinations.people:
            continue
        node = polymatroid(combinations)
        point = rng.normal(size=k) * 500 + node.total / k
        value, other = project(node.table[None], point[None])[0], _by_flows(combinations, point)
        ours, theirs = float(((value - point) ** 2).sum()), float(((other - point) ** 2).sum())
        assert abs(ours - theirs) <= 1e-9 * max(ours, 1.0)
        np.testing.assert_allclose(value, other, atol=1e-4)
