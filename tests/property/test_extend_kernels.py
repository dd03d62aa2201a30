"""Compiled loops of an extension's least squares against their plain twins."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.oracles import solver_twins as reference
from tests.oracles.structured_step_twin import StepPoint, admm_step, structured_inverse
from tests.property.test_extend_stage import random_stage
from topdown.solve.least_squares import (
    RELAX,
    Iterate,
    SoftRules,
    TreeStep,
    apply_tree,
    build_tree,
    project_from,
)

SEEDS = st.integers(0, 2**31)


@pytest.mark.deep
@given(SEEDS)
@settings(max_examples=40 * DEPTH, deadline=None)
def test_tree_is_the_dense_inverse(seed: int) -> None:
    """A block that hangs below the wrong one would bend every estimate."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    label, chain = np.arange(n), []
    for _ in range(rng.integers(0, 5)):
        merged = rng.integers(0, n, n)
        label = np.where(label >= 0, merged[label], -1)
        if rng.random() < 0.3:
            label = np.where(label == 0, -1, label)  # a block that coarser answers leave out
        chain.append((label, rng.uniform(0.1, 3, n)))
    v = rng.normal(size=(n, m))
    expected = structured_inverse(chain, n, 0.7) @ v
    np.testing.assert_allclose(apply_tree(build_tree(chain, n, 0.7), v), expected, atol=1e-12)


@pytest.mark.deep
@given(SEEDS, st.sampled_from(["none", "far below", "far above", "near"]))
@settings(max_examples=75 * DEPTH, deadline=None)
def test_projection_does_not_depend_on_the_guess(seed: int, guess: str) -> None:
    """A threshold of the step before that is too high or too low must cost passes, never the sum."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=int(rng.integers(1, 12))) * 10.0 ** rng.integers(-3, 6)
    allowed = rng.random(len(v)) < 0.8
    total = float(rng.integers(0, 50))
    start = {"none": np.inf, "far below": -1e9, "far above": float(v.max()) * 0.999, "near": float(v.mean())}
    out = np.full(len(v), np.nan)
    project_from(v, allowed, 0, len(v), total, start[guess], out)
    expected = reference.project(v, total, allowed)
    np.testing.assert_allclose(out, expected, atol=1e-9 * max(1.0, np.abs(v).max()))


@pytest.mark.deep
@given(SEEDS, st.booleans(), st.booleans())
@settings(max_examples=30 * DEPTH, deadline=None)
def test_steps_are_the_dense_steps(seed: int, root: bool, ruled: bool) -> None:
    """A fused step that differs would still converge, to another table or at another pace."""
    problem, _ = random_stage(seed, root=root)
    rng = np.random.default_rng(seed)
    n, m = problem.shape
    if ruled:
        rows = rng.integers(-2, 3, (2, n)).astype(float)
        problem = replace(problem, compared=SoftRules(rows, rng.normal(size=(2, m)) * 3, 0.8))
    soft, rho = problem.compared, 0.6
    step = TreeStep(problem, problem.quadratic, power=0.5)
    step.factor(rho)
    here = StepPoint(
        rng.normal(size=(n, m)), rng.normal(size=(n, m)), rng.normal(size=soft.most.shape),
        rng.normal(size=soft.most.shape), np.zeros((0, m)), np.inf,
    )  # fmt: skip
    z, u, s, t = (part.copy() for part in (here.z, here.u, here.s, here.t))
    none = np.zeros((0, m))
    for _ in range(3):
        here = admm_step(problem, problem.quadratic, here, rho, step.linear.soft_ratio, RELAX)
    at = Iterate(z, u, none, none, s, t)
    _, primal, dual = step.take(at, rho, 3, 0.0)
    for expected, found in zip((here.z, here.u, here.s, here.t), (z, u, s, t), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_allclose(step.solution(at, rho, 3).fixed_multipliers, here.multipliers, atol=1e-8)
    assert max(primal, dual) == pytest.approx(here.residual, abs=1e-8)


def test_steps_stop_at_the_tolerance() -> None:
    """Residuals that were never small enough would take every stage to its last step."""
    problem, _ = random_stage(3)
    step = TreeStep(problem, problem.quadratic, power=0.5)
    step.factor(0.6)
    none = np.zeros((0, problem.shape[1]))
    z = np.zeros(problem.shape)
    taken, primal, dual = step.take(Iterate(z, z.copy(), none, none, none, none), 0.6, 5000, 1e-6)
    assert 1 < taken < 5000
    assert max(primal, dual) <= 1e-6
