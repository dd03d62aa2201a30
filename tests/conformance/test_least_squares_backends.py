"""Every least-squares backend solves the same problems to the same answer, and says how well."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.depth import repeats
from tests.helpers.problems import bounds_of, limits_around
from tests.oracles import quadratic_solvers as quadratic
from tests.oracles.quadratic_solvers import NAMES, solve_with
from topdown.errors import InternalError
from topdown.solve import FixedTable, gram, group_sums
from topdown.solve.least_squares import (
    Dense,
    Problem,
    SoftRules,
    infeasibility_persons,
    polish,
    residual_persons,
    solve,
    standard_form,
)


def make_problem(
    seed: int,
    *,
    bounds: bool = False,
    fixed: bool = False,
    root: bool = False,
    limits: bool = False,
    slack: bool = False,
) -> Problem:
    """Draw a feasible problem shaped like a split: a true table, noisy answers, and constraints it meets."""
    rng = np.random.default_rng(seed)
    n, m = (14, 1) if root else (9, 4)
    truth = rng.poisson(rng.choice([0.3, 3, 40], size=(n, 1)), size=(n, m)).astype(float)
    allowed = (rng.random((n, m)) < 0.9) | (truth > 0)
    labels = np.stack(
        [np.zeros(n, dtype=np.int64), rng.integers(0, 3, n), rng.integers(0, 2, n), np.arange(n)]
    )
    weights = np.array([0.8, 0.2, 0.01, 0.05])
    g = np.zeros((n, m))
    for label, weight in zip(labels, weights, strict=True):
        answers = group_sums(truth, label, int(label.max()) + 1)
        g += weight * (answers + rng.normal(size=answers.shape) / np.sqrt(weight))[label]
    group = rng.integers(0, 2, n)
    group[:2] = (0, 1)
    bound_of = np.where(group == 0, 0, -1) if bounds else np.full(n, -1)
    lower = group_sums(truth, bound_of, 1) if bounds else np.zeros((0, m))
    if root:
        order = np.argsort(group, kind="stable")
        pointers = np.searchsorted(group[order], [0, 1, 2])
        sums = np.array([truth[group == 0].sum(), truth[group == 1].sum()])
        labels, g, allowed, bound_of = labels[:, order], g[order], allowed[order], bound_of[order]
    else:
        pointers, sums = np.arange(0, n * m + 1, m), truth.sum(axis=1)
    table = None
    if limits:
        bound_of = rng.integers(0, 3, n)
        bound_of[:3] = (0, 1, 2)
        if root:
            bound_of = bound_of[order]
        held = group_sums(truth[order] if root else truth, bound_of, 3)
        table, lower = limits_around(rng, held, slack=slack), np.zeros((3, m))
    return Problem(
        quadratic=Dense(gram(np.ascontiguousarray(labels), weights), np.ascontiguousarray(g), 0.05, 0.01),
        pointers=pointers.astype(np.int64),
        sums=sums,
        allowed=np.ascontiguousarray(allowed),
        fixed=FixedTable(group, group_sums(truth, group, 2)) if fixed else FixedTable.none(n, m).floats(),
        bounds=bounds_of(bound_of, lower, table),
        compared=SoftRules.none(n, m),
    )


SHAPES = {
    "plain": {},
    "bounds": {"bounds": True},
    "fixed table": {"fixed": True},
    "both": {"bounds": True, "fixed": True},
    "root": {"root": True},
    "root with bounds": {"root": True, "bounds": True},
    "limits": {"limits": True, "fixed": True},
    "limits without totals": {"limits": True, "slack": True},
    "root with limits": {"root": True, "limits": True},
}


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("backend", NAMES)
def test_backend_reaches_the_optimum(backend: str, shape: str) -> None:
    """A backend whose answer is not optimal in persons must not pass; gurobi runs under its free licence."""
    for seed in (*range(repeats(4, 15)), 15, 169):  # at 15 and 169 Clarabel once ran past its own precision
        problem = make_problem(seed, **SHAPES[shape])
        solution, residual = solve_with(backend, problem)
        assert infeasibility_persons(problem, solution.z) < 1e-6
        assert residual_persons(problem, solution) <= residual <= 1e-5
        np.testing.assert_allclose(solution.z, solve(problem)[0].z, atol=2e-5)


@pytest.mark.parametrize("backend", ["piqp", "clarabel"])
def test_a_backend_that_is_not_done_is_refused(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for more than float64 holds, a solver may drift persons away and say so; that is no answer."""
    monkeypatch.setattr(quadratic, "TOLERANCES", (1e-40,))
    with pytest.raises(InternalError, match=f"{backend} stopped with"):
        solve_with(backend, make_problem(0, **SHAPES["limits"]))


def test_polishing_finds_the_exact_point_on_the_right_limits() -> None:
    """From an answer a millionth off, the polished one must meet every optimality condition to rounding error."""
    rng = np.random.default_rng(1)
    for seed in range(10):
        standard = standard_form(make_problem(seed, **SHAPES["both"]))
        x, equal, below, _ = quadratic.by_piqp(standard)
        rough = (x + rng.normal(size=len(x)) * 1e-6, equal, below)
        x, equal, below = polish(standard, rough)
        gradient = (
            standard.quadratic @ x + standard.linear + standard.equal.T @ equal + standard.below.T @ below
        )
        np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
        np.testing.assert_allclose(standard.equal @ x, standard.equal_to, atol=1e-9)
        assert (standard.below @ x <= standard.limit + 1e-9).all()
        assert np.abs(below * (standard.limit - standard.below @ x)).max() <= 1e-8


@pytest.mark.parametrize("shape", [name for name in SHAPES if "limits" in name])
def test_projection_and_explicit_limits_agree_in_objective(shape: str) -> None:
    """The projection stands for all limits at once: a solver that sees each of them must not do better."""

    def objective(problem: Problem, z: np.ndarray) -> float:
        return float((z * (problem.quadratic.hessian @ z / 2 - problem.quadratic.g)).sum())

    for seed in range(20):
        problem = make_problem(seed, **SHAPES[shape])
        values = [objective(problem, solve_with(name, problem)[0].z) for name in ("admm", "piqp")]
        assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_residual_bounds_the_true_distance(shape: str) -> None:
    """The reported residual is a promise: a moved solution must never be closer than it says."""
    rng = np.random.default_rng(5)
    for seed in range(25):
        problem = make_problem(seed, **SHAPES[shape])
        best, _ = solve(problem)
        for size in (1e-3, 1e-1, 3.0):
            # Move towards another feasible point, so that the moved point is feasible too.
            dense = problem.quadratic
            pushed = replace(dense, g=dense.g + rng.normal(size=dense.g.shape) * size)
            other, _ = solve(replace(problem, quadratic=pushed))
            moved = replace(best, z=other.z)
            distance = float(np.linalg.norm(other.z - best.z))
            assert residual_persons(problem, moved) >= distance - 1e-4
