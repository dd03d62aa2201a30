"""Small splits in one compiled call, against the ADMM that takes every problem, and what they are set up from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topdown.arrays import Floats
from topdown.solve import FixedTable, LowerBounds, gram, linear_term, separating_weight
from topdown.solve.least_squares import (
    TARGET_PERSONS,
    Dense,
    DenseStep,
    Problem,
    SoftRules,
    run,
    solve,
    solve_small,
)


def family(seed: int, *, tight: bool = False) -> Problem:
    """Return a split of up to 8 rows over up to 5 children, with a fixed table of up to 2 answers that it can keep."""
    rng = np.random.default_rng(seed)
    n, m, k = int(rng.integers(1, 9)), int(rng.integers(2, 6)), int(rng.integers(0, 3))
    labels = np.stack(
        [np.zeros(n, dtype=np.int64), rng.integers(0, 3, n), np.arange(n)][rng.integers(0, 2) :]
    )
    weights = rng.uniform(0.05, 2.0, len(labels))
    allowed = rng.random((n, m)) < 0.8
    allowed[np.arange(n), rng.integers(0, m, n)] = True
    truth = allowed * rng.integers(0, 30, (n, m))
    g = rng.normal(truth, 5.0) @ np.eye(m)
    hessian = gram(labels, weights)
    of = np.minimum(np.arange(n), k - 1) if k else np.full(n, -1)
    fixed = FixedTable.none(n, m) if not k else FixedTable(of, np.zeros((int(of.max()) + 1, m)))
    held = np.asarray(truth if not tight else np.roll(truth, 1, axis=1), dtype=np.float64)
    fixed = FixedTable(fixed.of, fixed.sums(held)) if k else fixed.floats()
    return Problem(
        quadratic=Dense(hessian, hessian @ g, separating_weight(labels, weights), float(weights.min())),
        pointers=np.arange(0, n * m + 1, m),
        sums=truth.sum(axis=1).astype(np.float64),
        allowed=allowed,
        fixed=fixed,
        bounds=LowerBounds.none(n, m).floats(),
        compared=SoftRules.none(n, m),
    )


@given(st.integers(0, 2**31))
@settings(max_examples=200, deadline=None)
def test_the_compiled_call_is_the_admm_of_every_problem(seed: int) -> None:
    """Nearly all splits of a release take this way: another optimum would be another release."""
    problem = family(seed)
    assert isinstance(problem.quadratic, Dense)
    slow, residual = run(problem, DenseStep(problem, problem.quadratic, 0.5), 400)
    found = solve_small(problem)
    if found is None:  # it asks the check once only
        assert residual > 0.0
        return
    fast, certified = found
    assert certified <= TARGET_PERSONS
    assert fast.iterations == slow.iterations
    np.testing.assert_allclose(fast.z, slow.z, atol=1e-6)
    np.testing.assert_allclose(fast.fixed_multipliers, slow.fixed_multipliers, atol=1e-5, rtol=1e-5)


def test_nearly_every_small_split_is_solved_at_once() -> None:
    """If the call handed all back, releases would be right and slow, and the comparison above empty."""
    taken = sum(solve_small(family(seed)) is not None for seed in range(100))
    assert taken >= 80


@pytest.mark.parametrize("seed", range(5))
def test_what_has_no_solution_is_handed_back(seed: int) -> None:
    """A table that keeps no constraint must not leave the call as solved: others tell why there is none."""
    problem = family(seed)
    n, m = problem.shape
    nobody = FixedTable.total(n, np.full(m, problem.sums.sum() + 1.0))
    assert solve_small(Problem(**{**vars(problem), "fixed": nobody})) is None


def test_other_kinds_of_problems_are_handed_back() -> None:
    """Bounds, one child or rows that are not the segments need more than the call knows."""
    problem = family(3)
    n, m = problem.shape
    bounds = LowerBounds(np.zeros(n, dtype=np.int64), np.zeros((1, m)))
    whole = np.array([0, n * m])
    for change in ({"bounds": bounds}, {"pointers": whole, "sums": problem.sums.sum(keepdims=True)}):
        changed = Problem(**{**vars(problem), **change})
        assert solve_small(changed) is None
        assert solve(changed)[1] <= TARGET_PERSONS


@given(st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_answers_are_added_up_by_row(seed: int) -> None:
    """A wrong place among the answers would fit an area to its neighbour's noise."""
    rng = np.random.default_rng(seed)
    q, n, m = rng.integers(1, 5), rng.integers(1, 9), rng.integers(1, 4)
    labels, weights = rng.integers(0, 4, (q, n)), rng.uniform(0.1, 2.0, q)
    offsets = np.arange(q) * 4
    answers = rng.integers(-50, 50, (m, 4 * q), dtype=np.int32)
    expected: Floats = np.zeros((n, m))
    for weight, query, at in zip(weights, labels, offsets, strict=True):
        expected += weight * answers[:, at + query].T
    np.testing.assert_allclose(
        linear_term(labels, offsets, weights, answers), expected, rtol=1e-12, atol=1e-12
    )
    apart = [len(set(query.tolist())) == n for query in labels]
    np.testing.assert_allclose(separating_weight(labels, weights), weights[apart].sum(), rtol=1e-12)
