"""Least squares where first-order steps crawl: Newton on the active set and interior points; infeasible is said."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH, repeats
from tests.helpers.failing import fails_with
from tests.helpers.problems import hard_problem, skewed_problem, wide_problem
from tests.oracles.quadratic_solvers import solve_with
from topdown.errors import InfeasibleError
from topdown.solve import FixedTable, LowerBounds, gram, group_sums
from topdown.solve.least_squares import (
    ActiveSet,
    Dense,
    DenseStep,
    PerChild,
    Problem,
    SoftRules,
    Solution,
    SplitSteps,
    finish_newton,
    have_common_point,
    infeasibility_persons,
    is_root,
    is_split,
    residual_persons,
    solve,
    solve_root,
)

seeds = st.integers(0, 10_000_000)
CRAWLING = (4, 13, 14, 26)  # of skewed problems: ADMM alone takes 1,272 to more than 20,000 steps


def even_start(problem: Problem) -> Solution:
    """Return a table with the parent's sums and no thought of anything else."""
    share = problem.sums[:, None] / np.maximum(problem.allowed.sum(axis=1, keepdims=True), 1)
    return Solution.without_multipliers(problem, np.where(problem.allowed, share, 0.0), 0)


@pytest.mark.parametrize("seed", CRAWLING)
def test_splits_that_crawl_end_soon(seed: int) -> None:
    """A county of a real state took 20,000 steps, most of its release's time, and was ten times too far off."""
    problem = skewed_problem(seed)
    found, residual = solve(problem)
    assert residual <= 1e-5
    assert found.iterations <= 800
    other, theirs = solve_with("interior", problem)
    np.testing.assert_allclose(other.z, found.z, atol=residual + theirs)


@pytest.mark.parametrize("seed", CRAWLING)
def test_the_slowest_of_a_size_take_no_more_steps_than_others(seed: int) -> None:
    """Splits with one small child took 400 steps and more where others took 100, five times the time of their size."""
    problem = skewed_problem(seed, 240, 24)
    found, residual = solve(problem)
    assert residual <= 1e-5
    assert 160 < found.iterations <= 200  # where a guess costs as much as many steps, it waits
    assert isinstance(problem.quadratic, Dense)
    start = DenseStep(problem, problem.quadratic, 0.5).start()
    np.testing.assert_allclose(problem.fixed.sums(start), problem.fixed.answers, rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 92])  # with few free entries in most children, as tracts have
def test_bounds_that_break_take_few_guesses(seed: int) -> None:
    """One facility more than the estimate holds changes few entries: a second run of steps for it is as much again."""
    problem = skewed_problem(seed, 120, 16)
    bounds, child = problem.bounds, int(problem.fixed.answers[0].argmax())
    without, _ = solve(replace(problem, bounds=LowerBounds.none(*problem.shape).floats()))
    assert without.iterations <= 100
    lower = bounds.lower.astype(np.float64)
    lower[0, child] = bounds.sums(without.z)[0, child] + 1.0
    bounded = replace(problem, bounds=LowerBounds(bounds.of, lower))
    found, residual = solve(bounded)
    assert residual <= 1e-5
    assert without.iterations < found.iterations <= without.iterations + 20
    np.testing.assert_array_equal(finish_newton(bounded, without)[0].z, found.z)


@given(seeds)
@settings(max_examples=15 * DEPTH, deadline=None)
def test_what_is_kept_from_guess_to_guess_is_as_set_up_anew(seed: int) -> None:
    """A child that changes is taken out of the system and put in again: one left as it was spoils every guess."""
    problem = skewed_problem(seed % 10_000, 24, 6)
    rng, kept = np.random.default_rng(seed), SplitSteps(problem)
    guess = ActiveSet.of(problem, even_start(problem))
    for _ in range(8):
        point, anew = kept.solve(guess), SplitSteps(problem).solve(guess)
        np.testing.assert_allclose(point.x, anew.x, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(point.at.limits, anew.at.limits, rtol=1e-6, atol=1e-6)
        entries = rng.random(problem.shape) < 0.3 * (rng.random(problem.shape[1]) < 0.3)
        limits = rng.random(len(guess.tight)) < 0.1
        guess = guess.exchanged(np.concatenate([entries.reshape(-1), limits]), point.at)


@pytest.mark.deep
@given(seeds)
@settings(max_examples=repeats(15, 120), deadline=None)
def test_it_finds_the_optimum_from_anywhere(seed: int) -> None:
    """Few steps of its own must do from an even table, and the result must be that of interior points."""
    problem = skewed_problem(seed % 10_000, 24, 6)
    found, residual = finish_newton(problem, even_start(problem))
    assert residual == residual_persons(problem, found) <= 1e-5
    assert found.iterations <= 40
    other, theirs = solve_with("interior", problem)
    np.testing.assert_allclose(other.z, found.z, atol=residual + theirs)


@given(seeds)
@settings(max_examples=150 * DEPTH, deadline=None)
def test_what_it_returns_is_no_worse_than_it_says(seed: int) -> None:
    """Corners and noise far beyond the counts send it in circles: then it must say how far off it is."""
    problem, table = hard_problem(seed)
    if not is_split(problem):
        return
    start = even_start(problem)
    found, residual = finish_newton(problem, start)
    assert residual == np.inf or residual == residual_persons(problem, found)
    assert (found.z >= 0).all()
    assert not found.z[~problem.allowed].any()
    np.testing.assert_allclose(found.z.sum(axis=1), problem.sums, atol=1e-9 * max(1.0, problem.sums.max()))
    if residual <= 1e-5:
        dense = problem.quadratic
        assert isinstance(dense, Dense)
        value = [float((z * (dense.hessian @ z / 2 - dense.g)).sum()) for z in (found.z, table)]
        assert value[0] <= value[1] + 1e-6 * max(1.0, abs(value[1]), float(np.abs(dense.g).max()))


@given(seeds)
@settings(max_examples=150 * DEPTH, deadline=None)
def test_a_root_is_solved_or_left(seed: int) -> None:
    """One table, segments with and without a known sum, empty ones too: an optimum, or a residual that says no."""
    problem, table = hard_problem(seed)
    if not is_root(problem):
        return
    found, residual = solve_root(problem)
    assert residual == np.inf or residual == residual_persons(problem, found)
    if residual <= 1e-5:
        dense = problem.quadratic
        assert isinstance(dense, Dense)
        value = [float((z * (dense.hessian @ z / 2 - dense.g)).sum()) for z in (found.z, table)]
        assert value[0] <= value[1] + 1e-6 * max(1.0, abs(value[1]), float(np.abs(dense.g).max()))
        other, theirs = solve_with("interior", problem)
        np.testing.assert_allclose(other.z, found.z, atol=residual + theirs + 1e-9)


def test_nearly_every_root_is_solved() -> None:
    """A root that is left costs hundreds of dense steps; of hard ones at most one in twenty may be."""
    roots = [problem for problem, _ in map(hard_problem, range(600)) if is_root(problem)]
    assert len(roots) > 100
    assert sum(solve_root(problem)[1] > 1e-5 for problem in roots) <= len(roots) / 20


def test_a_matrix_of_each_child_is_used() -> None:
    """The tree estimate weighs children differently; one matrix for all would be another optimum."""
    problem = skewed_problem(3, 24, 6)
    dense, (n, m) = problem.quadratic, problem.shape
    assert isinstance(dense, Dense)
    more = np.stack([np.diag(np.full(n, 0.05 * j)) for j in range(m)])
    own = PerChild(dense.hessian, more, dense.g, dense.curvature, dense.scale, problem.fixed, problem.allowed)
    each = replace(problem, quadratic=own)
    found, residual = finish_newton(each, even_start(each))
    assert residual <= 1e-5
    other, theirs = solve_with("interior", each)
    np.testing.assert_allclose(other.z, found.z, atol=residual + theirs)
    assert np.abs(found.z - solve(problem)[0].z).max() > 1e-3


def test_a_guess_whose_constraints_exclude_each_other_is_left() -> None:
    """A child of 1.5 people with a bound of 1 starts with open entries where the bound is: they cannot hold both."""
    n, m = 3, 2
    labels, weights = np.arange(n)[None, :], np.array([1.0])
    problem = Problem(
        quadratic=Dense(gram(labels, weights), np.array([[4.0, 0.0], [0.0, 9.0], [3.0, 1.0]]), 1.0, 1.0),
        pointers=np.arange(0, n * m + 1, m),
        sums=np.array([4.0, 9.0, 4.0]),
        allowed=np.ones((n, m), dtype=bool),
        fixed=FixedTable.total(n, np.array([1.5, 15.5])),
        bounds=LowerBounds(np.array([-1, -1, 0]), np.array([[1.0, 2.5]])),
        compared=SoftRules.none(n, m),
    )
    start = Solution.without_multipliers(problem, np.array([[0.0, 4.0], [0.0, 9.0], [1.5, 2.5]]), 0)
    found, residual = finish_newton(problem, start)
    assert residual <= 1e-5
    other, theirs = solve_with("interior", problem)
    np.testing.assert_allclose(other.z, found.z, atol=residual + theirs + 1e-9)


def test_what_it_does_not_take() -> None:
    """Roots, soft rules and problems with many optima have ways of their own."""
    problem = skewed_problem(1, 12, 3)
    n, m = problem.shape
    assert is_split(problem)
    soft = SoftRules(np.ones((1, n)), np.zeros((1, m)), 1.0)
    assert not is_split(replace(problem, compared=soft))
    assert not is_split(replace(problem, quadratic=replace(problem.quadratic, curvature=0.0)))
    assert not is_split(replace(problem, sums=np.where(np.arange(n) == 0, -1.0, problem.sums)))
    assert not is_split(replace(problem, pointers=np.arange(0, n * m + 1, n * m)))


@given(seeds)
@settings(max_examples=250, deadline=None)
def test_every_problem_that_has_a_solution_is_solved(seed: int) -> None:
    """One unconverged split makes verify refuse a release whose noise is paid for."""
    problem, table = hard_problem(seed)
    assert infeasibility_persons(problem, table) < 1e-9
    solution, residual = solve(problem)
    assert residual_persons(problem, solution) <= residual <= 1e-5
    dense = problem.quadratic
    best = float((solution.z * (dense.hessian @ solution.z / 2 - dense.g)).sum())
    other = float((table * (dense.hessian @ table / 2 - dense.g)).sum())
    assert best <= other + 1e-6 * max(1.0, abs(other), float(np.abs(dense.g).max()))


@pytest.mark.parametrize(("seed", "m", "people"), [(1, 150, 1e4), (2, 150, 1e5), (3, 150, 1e6)])
def test_a_split_over_very_many_children_ends_soon(seed: int, m: int, people: float) -> None:
    """A county of 2,205 tracts ran to the last of 20,000 steps for rooms that floats cannot bring to nothing."""
    problem = wide_problem(seed, 4, m, people)
    found, residual = solve(problem)
    assert residual <= 1e-5
    assert found.iterations <= 2_000
    other, theirs = solve_with("interior", problem)
    np.testing.assert_allclose(other.z, found.z, atol=residual + theirs + 1e-5)


@pytest.mark.deep
@given(seeds)
@settings(max_examples=20 * DEPTH, deadline=None)
def test_interior_points_find_the_same_answer(seed: int) -> None:
    """Two methods with nothing in common must agree, or the optimality check of both is wrong."""
    problem, _ = hard_problem(seed)
    (one, room), (two, more) = solve(problem), solve_with("interior", problem)
    dense = problem.quadratic
    if dense.curvature > 0:
        np.testing.assert_allclose(one.z, two.z, atol=room + more + 1e-5)
    else:  # the optimum is a set; answers of queries are the same all over it
        scale = max(1.0, float(np.abs(dense.g).max()))
        np.testing.assert_allclose(dense.hessian @ one.z, dense.hessian @ two.z, atol=1e-5 * scale)


@pytest.mark.deep
@given(seeds)
@example(255)
@settings(max_examples=20 * DEPTH, deadline=None)
def test_what_has_no_solution_is_refused(seed: int) -> None:
    """A bound one person above everybody who may be there has no table; none must come back as if it had."""
    problem, table = hard_problem(seed)
    if problem.pointers[-1] == problem.pointers[1] and problem.sums[0] < 0:
        return  # a root without a total holds any number of people
    rows = np.zeros(len(table), dtype=np.int64)
    most = group_sums(np.where(problem.allowed, table.sum(axis=1, keepdims=True), 0.0), rows, 1)
    if table.shape[1] == 1:
        most[:] = table.sum()
    broken = replace(problem, bounds=LowerBounds(rows, most + 1.0))
    assert have_common_point(broken) is False
    with fails_with("I012", InfeasibleError):
        solve(broken)


@given(seeds)
@example(24)
@settings(max_examples=60, deadline=None)
def test_a_table_that_exists_is_found_by_the_linear_program(seed: int) -> None:
    """The judge of infeasibility must not err in the other direction either."""
    assert have_common_point(hard_problem(seed)[0]) is True


@given(seeds, st.floats(-3, 3))
def test_the_check_of_a_point_is_exact_where_it_decides(seed: int, decades: float) -> None:
    """A distance below the true one would certify what is far off; a larger one, where it is enough, would refuse."""
    random = np.random.default_rng(seed)
    n, m = random.integers(1, 12), random.integers(1, 4)
    root = random.normal(size=(n, n)) * 10.0 ** random.uniform(-2, 2, n)
    hessian, r = root @ root.T + np.eye(n), random.normal(size=(n, m))
    quadratic = Dense(hessian, np.zeros((n, m)), float(np.linalg.eigvalsh(hessian)[0]) * (1 - 1e-6), 1.0)
    exact = float((r * np.linalg.solve(hessian, r)).sum())
    enough = exact * 10.0**decades
    found = quadratic.inverse_norm(r, enough)
    assert found >= exact * (1 - 1e-6)
    if decades > 1e-3:
        assert found <= enough


def test_a_multiplier_of_a_bound_with_room_is_no_proof() -> None:
    """Where the Hessian is singular, a multiplier can hide any gradient; room in its bound must give it away."""
    problem = Problem(
        quadratic=Dense(np.ones((2, 2)), np.array([[10.0], [10.0]]), curvature=0.0, scale=1.0),
        pointers=np.array([0, 2]),
        sums=np.array([-1.0]),
        allowed=np.ones((2, 1), dtype=bool),
        fixed=FixedTable.none(2, 1).floats(),
        bounds=LowerBounds(np.zeros(2, dtype=np.int64), np.array([[5.0]])),
        compared=SoftRules.none(2, 1),
    )
    none = np.zeros((0, 1))
    wrong = Solution(
        np.array([[20.0], [20.0]]), none, np.array([[30.0]]), none, 0
    )  # the optimum adds up to ten
    right = Solution(np.array([[5.0], [5.0]]), none, np.array([[0.0]]), none, 0)
    assert residual_persons(problem, wrong) > 1
    assert residual_persons(problem, right) == 0
