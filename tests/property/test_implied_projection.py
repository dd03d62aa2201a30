"""The solver's projection: against exact chains, explicit flows in a quadratic program, and its certificate."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import piqp
import pytest
from scipy import sparse

from tests.helpers.implied_brute import exact_projection, group_limits, random_groups
from tests.helpers.polytopes import make_polytopes, project
from tests.oracles.polytope_projection import certify
from topdown.model import NO_LIMIT, SplitConstraints
from topdown.solve import FixedTable, LowerBounds, SubsetLimits, gram
from topdown.solve.implied import Combinations
from topdown.solve.least_squares import Dense, Problem, SoftRules, solve


def test_projection_equals_the_exact_chain() -> None:
    """A wrong split would move people between group quarters types in every solve with exact block totals."""
    rng = np.random.default_rng(5)
    for _ in range(800):
        k = int(rng.integers(1, 5))
        table = group_limits(random_groups(rng, k, int(rng.integers(1, 5)), 8))
        point = np.round(rng.normal(size=k) * 6 + table[-1] / k, 2)
        exact = exact_projection(table.tolist(), [Fraction(float(p)) for p in point])
        value = project(table, point)
        np.testing.assert_allclose(value, [float(v) for v in exact], atol=1e-11 * (1 + table[-1]))


def test_certificate_bounds_the_distance() -> None:
    """The certificate is the only thing that makes the projection trusted; it must also refuse a wrong one."""
    rng = np.random.default_rng(6)
    for _ in range(150):
        k = int(rng.integers(2, 9))
        table = group_limits(random_groups(rng, k, 6, 10**5))
        point = rng.normal(size=k) * 10.0 ** rng.integers(0, 6) + table[-1] / k
        scale = float(table[-1]) + float(np.abs(point).sum()) + 1
        value = project(table, point)
        good = certify(table, point, value)
        assert good.violation <= 1e-12 + 1e-13 * scale
        assert abs(good.gap) <= 1e-12 * scale**2
        steps = np.diff(table[[(1 << j) - 1 for j in range(k + 1)]])
        vertex = np.array([int(v) for v in steps], dtype=float)
        bad = certify(table, point, vertex)
        assert bad.violation == 0
        assert bad.distance >= float(np.linalg.norm(vertex - value)) - 1e-9 * scale
        assert certify(table, point, value + np.eye(k)[0]).violation >= 0.99


def test_limits_equal_their_definition() -> None:
    """Limits are added up over leaves by kinds; a swapped bit would give another group's limits."""
    rng = np.random.default_rng(8)
    for _ in range(300):
        groups = random_groups(rng, int(rng.integers(1, 6)), int(rng.integers(1, 5)), 9)
        limits = group_limits(groups)
        assert [groups.combinations.most(a) for a in range(len(limits))] == limits.tolist()


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
        groups = random_groups(rng, k, int(rng.integers(2, 12)), 3000)
        if not groups.combinations.people:
            continue
        table = group_limits(groups)
        point = rng.normal(size=k) * 500 + table[-1] / k
        value, other = project(table, point), _by_flows(groups.combinations, point)
        ours, theirs = float(((value - point) ** 2).sum()), float(((other - point) ** 2).sum())
        assert abs(ours - theirs) <= 1e-9 * max(ours, 1.0)
        np.testing.assert_allclose(value, other, atol=1e-4)


def thousandfold(polytopes: SplitConstraints) -> SplitConstraints:
    """Return the same limits a thousand times as wide: errors of solvers in persons are then small in comparison."""
    totals = {depth: values * 1000 for depth, values in polytopes.totals.items()}
    wide = polytopes.with_totals(totals)
    lower = tuple(level * 1000 for level in wide.numbers.lower)
    caps = np.where(wide.numbers.caps >= NO_LIMIT, NO_LIMIT, wide.numbers.caps * 1000)
    return replace(wide, numbers=replace(wide.numbers, lower=lower, caps=caps))


def make_split(polytopes: SplitConstraints, rng: np.random.Generator) -> Problem:
    """Set up the split of the root of a small tree over its two pairs of leaves, two rows a kind, noisy answers."""
    k, children = polytopes.partition.n_kinds, np.array([0, 1])
    limits = polytopes.limits(1, children).astype(np.float64)
    low = np.stack(
        [project(table, rng.integers(0, 5, k) * 1000.0) for table in limits], axis=1
    )  # the split exists
    share = rng.integers(0, 2, (k, 2)) * 0.5
    truth = np.concatenate([low * share, low * (1 - share)])
    kind = np.tile(np.arange(k), 2)
    labels = np.stack([np.zeros(2 * k, dtype=np.int64), kind, np.arange(2 * k)])
    weights = np.array([0.5, 0.2, 0.3])
    g = np.zeros_like(truth)
    for label, weight in zip(labels, weights, strict=True):
        answers = np.zeros((int(label.max()) + 1, 2))
        np.add.at(answers, label, truth)
        g += weight * (answers + rng.normal(size=answers.shape) * 3000)[label]
    return Problem(
        quadratic=Dense(gram(np.ascontiguousarray(labels), weights), np.ascontiguousarray(g), 0.3, 0.2),
        pointers=np.arange(0, 4 * k + 1, 2),
        sums=truth.sum(axis=1),
        allowed=np.ones((2 * k, 2), dtype=bool),
        fixed=FixedTable.none(2 * k, 2).floats(),
        bounds=SubsetLimits(kind, k, limits),
        compared=SoftRules.none(2 * k, 2),
    )


def solve_with_flows(problem: Problem, polytopes: SplitConstraints) -> np.ndarray:
    """Solve a split with one variable an arc of each child's network in place of the limits (section 7.3)."""
    n, m = problem.shape
    parts = [polytopes.arcs(1, j) for j in range(m)]
    start = n * m + np.concatenate([[0], np.cumsum([len(a.tails) for a in parts])])
    size = int(start[-1])
    quadratic = sparse.block_diag(
        [
            *[sparse.csc_matrix(problem.quadratic.hessian)] * m,
            sparse.csc_matrix((size - n * m, size - n * m)),
        ],
        format="csc",
    )
    linear = np.concatenate([-problem.quadratic.g.T.reshape(-1), np.zeros(size - n * m)])
    rows, right = [], []
    for r in range(n):
        rows.append(
            sparse.csr_matrix((np.ones(m), (np.zeros(m, int), r + n * np.arange(m))), shape=(1, size))
        )
        right.append(problem.sums[r])
    low, high = np.zeros(size), np.full(size, np.inf)
    for j, arcs in enumerate(parts):
        if 1 in polytopes.totals:
            here = np.zeros(size)
            here[j * n : (j + 1) * n] = 1.0
            rows.append(sparse.csr_matrix(here))
            right.append(float(polytopes.totals[1][j]))
        at = start[j] + np.arange(len(arcs.tails))
        low[at], high[at] = arcs.low, np.where(arcs.high > 1e9, np.inf, arcs.high)
        for node in range(1, arcs.n_nodes):
            inward = sparse.coo_matrix(
                (
                    np.ones(int((arcs.heads == node).sum())),
                    (np.zeros(int((arcs.heads == node).sum()), int), at[arcs.heads == node]),
                ),
                shape=(1, size),
            )
            if node <= polytopes.partition.n_kinds:
                leaving = j * n + np.flatnonzero(problem.bounds.of == node - 1)
            else:
                leaving = at[arcs.tails == node]
            outward = sparse.coo_matrix(
                (np.ones(len(leaving)), (np.zeros(len(leaving), int), leaving)), shape=(1, size)
            )
            rows.append(sparse.csr_matrix(inward - outward))
            right.append(0.0)
    solver = piqp.SparseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel, solver.settings.max_iter = 1e-11, 0.0, 2000
    solver.settings.check_duality_gap = False
    empty = sparse.csc_matrix((0, size))
    solver.setup(
        quadratic,
        linear,
        sparse.vstack(rows, format="csc"),
        np.array(right),
        empty,
        np.zeros(0),
        np.zeros(0),
        low,
        high,
    )
    solver.solve()
    return np.array(solver.result.x)[: n * m].reshape(m, n).T


@pytest.mark.parametrize("exact", [2, 1, None])
def test_least_squares_by_projection_and_by_flow_variables_agree(exact: int | None) -> None:
    """A whole split, not one projection: the solver with limits and a program with flow variables, one objective."""

    def objective(problem: Problem, z: np.ndarray) -> float:
        return float((z * (problem.quadratic.hessian @ z / 2 - problem.quadratic.g)).sum())

    tight = 0
    for seed in range(40):
        polytopes = thousandfold(make_polytopes(seed, exact=exact, caps=bool(seed % 2)))
        if not polytopes.partition.n_kinds:
            continue
        problem = make_split(polytopes, np.random.default_rng(seed))
        ours, theirs = (
            objective(problem, solve(problem)[0].z),
            objective(problem, solve_with_flows(problem, polytopes)),
        )
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-4)
        free = solve(replace(problem, bounds=LowerBounds.none(*problem.shape).floats()))[0].z
        tight += objective(problem, free) < ours - 1.0
    assert tight >= 10
