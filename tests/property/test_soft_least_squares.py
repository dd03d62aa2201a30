"""Soft rules in least squares: four solvers agree, and the optimality check tells an optimum from what is near it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.conformance.test_least_squares_backends import SHAPES, make_problem
from tests.helpers.depth import DEPTH, repeats
from tests.oracles.quadratic_solvers import solve_with
from topdown.errors import InternalError
from topdown.solve.least_squares import (
    PRICE,
    TARGET_PERSONS,
    Problem,
    SoftRules,
    Solution,
    infeasibility_persons,
    residual_persons,
    solve,
)

SEEDS = st.integers(0, 1_000_000)
OTHERS = ("interior", "piqp", "clarabel")


def with_rules(
    problem: Problem, seed: int, *, feasible: bool, times: tuple[int, ...] = (1, 2, 99999)
) -> Problem:
    """Add soft rules between rows: such as some table of the constraints keeps, or pairs that exclude each other."""
    rng = np.random.default_rng(seed)
    n, m = problem.shape
    k = int(rng.integers(1, 4))
    rows = (rng.random((k, n)) < 0.4).astype(float)
    rows -= rng.choice(times, (k, 1)) * (rng.random((k, n)) < 0.4)
    rows[np.arange(k), rng.integers(0, n, k)] = 1.0
    rows /= np.abs(rows).max(axis=1, keepdims=True)
    plain, dense = solve(problem)[0].z, problem.quadratic
    pushed = replace(dense, g=dense.g + rng.normal(size=dense.g.shape) * rng.choice([0.1, 1.0]))
    most = (
        rows @ solve(replace(problem, quadratic=pushed))[0].z
    )  # tight at another table that meets the constraints
    if not feasible:
        rows, most = np.vstack([rows, -rows[:1]]), np.vstack([most, -most[:1] - rng.uniform(0.1, 3, (1, m))])
    over = max(float((rows @ plain - most).max(initial=0.0)), 1.0)
    hinge = PRICE * float(np.linalg.eigvalsh(dense.hessian)[-1]) * over
    return replace(problem, compared=SoftRules(rows, most, hinge))


def objective(problem: Problem, z: np.ndarray) -> float:
    """Return the quadratic plus the price of what rules are broken by."""
    soft = problem.compared
    over = np.maximum(soft.rows @ z - soft.most, 0.0).sum()
    dense = problem.quadratic
    return float((z * (dense.hessian @ z / 2 - dense.g)).sum() + soft.hinge * over)


def allowance(problem: Problem, solution: Solution) -> float:
    """Return by how much the objective of a certified table may differ: 1e-9 of its terms, and rules shifted.

    What is certified is the optimum of the problem with rules shifted by the residual.
    """
    z, soft = solution.z, problem.compared
    terms = np.abs(z * problem.quadratic.g).sum() + soft.hinge * np.abs(soft.rows @ z - soft.most).sum()
    return float(1e-9 * terms + soft.hinge * soft.most.size * residual_persons(problem, solution))


def certified(problem: Problem) -> dict[str, Solution]:
    """Return the answers of the generic solvers that the check accepts; the others must be near, or say they failed."""
    out = {}
    for name in OTHERS:
        try:
            solution, residual = solve_with(name, problem)
        except InternalError as error:  # it gave up and said so
            assert name in str(error)  # noqa: PT017
            continue
        if residual <= TARGET_PERSONS:
            out[name] = solution
    return out


def check_agree(problem: Problem, one: Solution, two: Solution) -> None:
    """Fail unless two answers are the same optimum."""
    assert objective(problem, one.z) == pytest.approx(
        objective(problem, two.z), rel=1e-9, abs=allowance(problem, one) + allowance(problem, two)
    )
    np.testing.assert_allclose(one.z, two.z, atol=3e-5)


@pytest.mark.deep
@pytest.mark.parametrize("feasible", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_solvers_agree(shape: str, *, feasible: bool) -> None:
    """Solvers without common code, one of which sees rules as slack variables, must reach one certified optimum."""
    for seed in range(200, 200 + repeats(2, 10)):
        problem = with_rules(make_problem(seed, **SHAPES[shape]), seed + 1, feasible=feasible, times=(1, 2))
        found, residual = solve(problem)
        assert residual_persons(problem, found) <= residual <= TARGET_PERSONS
        others = certified(problem)
        assert others
        for other in others.values():
            check_agree(problem, found, other)


@pytest.mark.deep
def test_each_solver_nearly_always_answers() -> None:
    """A test of agreement is empty if a solver always gives up: each must certify at least nine of ten problems."""
    n_problems, n_certified = 0, dict.fromkeys(OTHERS, 0)
    for shape in SHAPES:
        for seed in range(3 * DEPTH):
            problem = with_rules(
                make_problem(seed, **SHAPES[shape]), seed + 1, feasible=seed % 2 == 0, times=(1, 2)
            )
            n_problems += 1
            for name in certified(problem):
                n_certified[name] += 1
    assert min(n_certified.values()) >= 0.9 * n_problems


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
def test_rules_that_only_ask_for_anybody(shape: str) -> None:
    """`times` in the ten thousands puts coefficients far apart; what is certified must still be the optimum.

    Where limits leave next to no room the default's multipliers may come slowly: then its residual must say so, and
    its table still be the optimum to a ten thousandth of a person.
    """
    n_certified = 0
    for seed in range(2 * DEPTH):
        problem = with_rules(make_problem(seed, **SHAPES[shape]), seed + 1, feasible=seed % 2 == 1)
        (found, residual), others = solve(problem), certified(problem)
        n_certified += residual <= TARGET_PERSONS
        assert others
        for other in others.values():
            if residual <= TARGET_PERSONS:
                check_agree(problem, found, other)
            assert float(np.linalg.norm(found.z - other.z)) <= residual + TARGET_PERSONS
            np.testing.assert_allclose(found.z, other.z, atol=1e-4)
    assert n_certified >= 2 * DEPTH - (shape == "limits") * DEPTH // 2


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS)
@settings(max_examples=3, deadline=None)
def test_rules_that_can_be_kept_are_kept(shape: str, seed: int) -> None:
    """The price must be an exact penalty: where a table keeps all rules, the optimum does."""
    problem = with_rules(make_problem(seed, **SHAPES[shape]), seed + 1, feasible=True, times=(1, 2))
    soft = problem.compared
    assert float((soft.rows @ solve(problem)[0].z - soft.most).max()) <= 1e-5


def moved(problem: Problem, z: np.ndarray, seed: int, step: float = 0.01) -> np.ndarray | None:
    """Move a table along a direction that keeps every constraint; None if there is none of the simplest form.

    Two rows alike in the fixed table and in bounds change places by `step` persons, at two children or at the root.
    """
    rng = np.random.default_rng(seed)
    n, m = problem.shape
    segment = np.searchsorted(problem.pointers, np.arange(n * m), side="right").reshape(n, m)
    table, bound_of = problem.fixed.of, problem.bounds.of
    pairs = [
        (a, b)
        for a in range(n)
        for b in range(n)
        if a != b
        and table[a] == table[b]
        and bound_of[a] == bound_of[b]
        and (m > 1 or segment[a, 0] == segment[b, 0])
    ]
    for a, b in rng.permutation(np.array(pairs, dtype=np.int64).reshape(-1, 2)):
        j, k = rng.permutation(m)[:2] if m > 1 else (0, 0)
        out = z.copy()
        out[a, j] -= step
        out[b, j] += step
        if m > 1:
            out[b, k] -= step
            out[a, k] += step
        if infeasibility_persons(problem, out) <= 1e-6:
            return out
    return None


@pytest.mark.parametrize("feasible", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@given(seed=SEEDS)
@settings(max_examples=3, deadline=None)
def test_a_table_moved_by_a_hundredth_is_refused(shape: str, seed: int, *, feasible: bool) -> None:
    """The residual bounds the distance to the optimum, also where rules are broken or just kept."""
    problem = with_rules(make_problem(seed, **SHAPES[shape]), seed + 1, feasible=feasible)
    found, _ = solve(problem)
    z = moved(problem, found.z, seed)
    assume(z is not None)
    distance = float(np.linalg.norm(z - found.z))
    assert residual_persons(problem, replace(found, z=z)) >= distance - 1e-4


def test_a_table_that_ignores_the_rules_is_refused() -> None:
    """The optimum without rules, with any multipliers in hand, must not pass where a rule pulls it away."""
    n_refused = 0
    for seed in range(20):
        plain = make_problem(seed, **SHAPES["fixed table"])
        problem = with_rules(plain, seed + 1, feasible=True)
        found, without = solve(problem)[0], solve(plain)[0]
        distance = float(np.linalg.norm(found.z - without.z))
        for multipliers in (found.compared_multipliers, np.zeros_like(problem.compared.most)):
            wrong = replace(without, compared_multipliers=multipliers)
            assert residual_persons(problem, wrong) >= distance - 1e-4
        n_refused += distance > 1e-2
    assert n_refused > 5
