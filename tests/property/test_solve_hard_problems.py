"""Least squares where first-order steps crawl: every answer is optimal, and infeasible is said only of what is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.problems import hard_problem, wide_problem
from topdown.errors import InfeasibleError
from topdown.solve import FixedTable, LowerBounds, group_sums
from topdown.solve.least_squares import (
    Dense,
    Problem,
    SoftRules,
    Solution,
    have_common_point,
    infeasibility_persons,
    residual_persons,
    solve,
    solve_with,
)

seeds = st.integers(0, 10_000_000)


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
    with pytest.raises(InfeasibleError) as caught:
        solve(broken)
    assert caught.value.code == "I012"


@given(seeds)
@example(24)
@settings(max_examples=60, deadline=None)
def test_a_table_that_exists_is_found_by_the_linear_program(seed: int) -> None:
    """The judge of infeasibility must not err in the other direction either."""
    assert have_common_point(hard_problem(seed)[0]) is True


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
