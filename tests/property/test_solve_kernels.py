"""Compiled kernels against their plain reference."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.failing import fails_with
from tests.oracles import solver_twins as reference
from tests.oracles.structured_step_twin import StepPoint, admm_step, structured_inverse
from tests.property.test_extend_stage import random_stage
from topdown.errors import InternalError
from topdown.solve import (
    CellFit,
    gram,
    group_sums,
    has_negative_cycle,
    leave_gap,
    occurring,
    project_segments,
    worst_violation,
)
from topdown.solve.least_squares import (
    RELAX,
    Iterate,
    SoftRules,
    StructuredStep,
    apply_tree,
    build_tree,
    entries_of_sums,
    project_from,
    sums_of_entries,
)


@given(st.integers(0, 10_000))
@settings(max_examples=300, deadline=None)
def test_gram_equals_the_sum_of_query_matrices(seed: int) -> None:
    """A wrong label comparison would weigh queries wrongly at every node."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, size=(rng.integers(1, 5), rng.integers(1, 9)))
    weights = rng.uniform(0.01, 3, size=len(labels))
    found = gram(labels, weights)
    assert type(found) is np.ndarray  # what C sees would take no lists of rows, and no arithmetic
    np.testing.assert_allclose(found, reference.gram(labels, weights), rtol=1e-13)


@given(st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_sums_of_entries_and_their_transpose_are_those_of_a_matrix(seed: int) -> None:
    """A sum left out would finish splits at a table that misses the sums of its parent."""
    rng = np.random.default_rng(seed)
    inside = rng.random((rng.integers(1, 9), rng.integers(1, 9))) < 0.5  # entry, sum
    x, sums = rng.integers(-9, 9, len(inside)), rng.integers(-9, 9, inside.shape[1])
    pointers, index = np.concatenate([[0], np.cumsum(inside.sum(axis=1))]), np.nonzero(inside)[1].copy()
    assert (inside.T @ x).tolist() == sums_of_entries(pointers, index, x.astype(float), len(sums)).tolist()
    assert (inside @ sums).tolist() == entries_of_sums(pointers, index, sums.astype(float)).tolist()


@given(st.integers(0, 100_000))
@settings(max_examples=300, deadline=None)
def test_the_fit_of_all_cells_equals_its_normal_equations(seed: int) -> None:
    """The root's tables are fitted with this estimate and its inverse covariance: a wrong one would bias them all."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 12)), int(rng.integers(1, 3))
    labels = rng.integers(0, rng.integers(1, 5), size=(rng.integers(0, 4), n))
    alone = [rng.permutation(n) for _ in range(rng.integers(1, 3))]
    labels = np.vstack([labels, *alone])[rng.permutation(len(labels) + len(alone))]
    weights, g = rng.uniform(0.01, 3, size=len(labels)), rng.normal(size=(n, m))
    inverse = np.linalg.inv(reference.gram(labels, weights))
    found = CellFit.to_queries("t", labels, weights, g)
    np.testing.assert_allclose(found.value, inverse @ g, rtol=1e-9, atol=1e-9)
    table, which = np.unique(rng.integers(0, 4, size=n), return_inverse=True)
    first = np.array([np.flatnonzero(which == k)[0] for k in range(len(table))])
    select = (np.arange(len(table))[:, None] == which).astype(np.float64)
    margin = found.margin(table[which], first)
    information = np.linalg.inv(select @ inverse @ select.T)
    np.testing.assert_allclose(margin.hessian, information, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(margin.g, information @ (select @ inverse @ g), rtol=1e-9, atol=1e-9)
    least = np.linalg.eigvalsh(information)[0]
    assert least * (1 - 1e-6) <= margin.curvature <= least * (1 + 1e-12)


def test_a_fit_of_cells_that_no_query_tells_apart_is_refused() -> None:
    """An estimate that is not unique would be taken for the one."""
    with fails_with("C057", InternalError):
        CellFit.to_queries("t", np.array([[0, 0, 1]]), np.ones(1), np.ones((3, 1)))


@given(st.integers(0, 100_000))
@settings(max_examples=500, deadline=None)
def test_projection_equals_the_sorted_search(seed: int) -> None:
    """A wrong threshold would break parent sums or nonnegativity at every iterate."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=rng.integers(1, 6))
    pointers = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    v = rng.normal(size=pointers[-1]) * 10.0 ** rng.integers(-3, 6)
    allowed = rng.random(pointers[-1]) < 0.8
    sums = np.where(rng.random(len(sizes)) < 0.2, -1.0, rng.integers(0, 50, size=len(sizes)).astype(float))
    out = np.full(pointers[-1], np.nan)
    project_segments(v, pointers, sums, allowed, out)
    for i, total in enumerate(sums):
        part = slice(pointers[i], pointers[i + 1])
        expected = reference.project(v[part], total, allowed[part])
        np.testing.assert_allclose(out[part], expected, atol=1e-9 * max(1.0, np.abs(v[part]).max()))


def test_a_costly_flow_is_not_called_optimal() -> None:
    """If the residual check missed a negative cycle, a bad rounding would be certified."""
    tails, heads = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])
    capacities, costs = np.ones(4, dtype=np.int64), np.array([5, 1, 0, 0])
    dear, cheap = np.array([1, 0, 1, 0]), np.array([0, 1, 0, 1])
    assert has_negative_cycle(tails, heads, capacities, costs, dear, 4)
    assert not has_negative_cycle(tails, heads, capacities, costs, cheap, 4)


@given(st.lists(st.integers(0, 40), max_size=60))
def test_codes_are_counted_as_sorting_would(codes: list[int]) -> None:
    """Nodes of flow networks are numbered by it: a wrong place would send records to another area."""
    here = np.array(codes, dtype=np.int64)
    present, place = occurring(here)
    found, number = np.unique(here, return_inverse=True)
    np.testing.assert_array_equal(present, found)
    np.testing.assert_array_equal(place, number)


@given(st.integers(0, 100_000))
@settings(max_examples=300, deadline=None)
def test_rows_are_added_by_group_in_their_order(seed: int) -> None:
    """Another order would round otherwise, and a release would have other bytes than when it was made."""
    rng = np.random.default_rng(seed)
    n, n_groups = int(rng.integers(0, 20)), int(rng.integers(0, 5))
    group = rng.integers(-1, n_groups, size=n)
    table = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-6, 7, size=(n, 3))
    for values in (table, table.T.copy().T, np.rint(table).astype(np.int64)):
        expected = np.zeros((n_groups, 3), dtype=values.dtype)
        np.add.at(expected, group[group >= 0], values[group >= 0])
        np.testing.assert_array_equal(group_sums(values, group, n_groups), expected)


@given(st.integers(0, 100_000))
@settings(max_examples=300, deadline=None)
def test_the_optimality_check_adds_up_as_its_twin(seed: int) -> None:
    """What a certificate says of a split's distance from its optimum comes from these two loops."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=rng.integers(1, 6))
    pointers = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    n = int(pointers[-1])
    z = np.where(rng.random(n) < 0.5, rng.normal(1.0, 1.0, n), 0.0)
    allowed, d = rng.random(n) < 0.8, rng.normal(size=n)
    sums = np.where(rng.random(len(sizes)) < 0.2, -1.0, rng.integers(0, 5, size=len(sizes)).astype(float))
    worst = worst_violation(z, allowed, pointers, sums)
    np.testing.assert_allclose(worst, reference.worst_violation(z, allowed, pointers, sums), atol=1e-12)
    expected = reference.remaining_gap(z, allowed, pointers, sums, d)
    leave_gap(z, allowed, pointers, sums, d)
    np.testing.assert_allclose(d, expected, atol=1e-12)


def test_entries_that_are_no_numbers_are_no_optimum() -> None:
    """A solver that overflowed would be called exact if comparisons with what is no number passed."""
    z, allowed = np.array([1.0, np.nan]), np.ones(2, dtype=bool)
    pointers, sums = np.array([0, 2]), np.array([1.0])
    assert not worst_violation(z, allowed, pointers, sums) <= 1e-5
    d = np.array([0.0, np.nan])
    leave_gap(np.array([1.0, 0.0]), allowed, pointers, sums, d)
    assert np.isnan(d[1])


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
    step = StructuredStep(problem, problem.quadratic, power=0.5)
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
    _, primal, dual = step.iterate(at, rho, 3, 0.0)
    for expected, found in zip((here.z, here.u, here.s, here.t), (z, u, s, t), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_allclose(step.solution(at, rho, 3).fixed_multipliers, here.multipliers, atol=1e-8)
    assert max(primal, dual) == pytest.approx(here.residual, abs=1e-8)


def test_steps_stop_at_the_tolerance() -> None:
    """Residuals that were never small enough would take every stage to its last step."""
    problem, _ = random_stage(3)
    step = StructuredStep(problem, problem.quadratic, power=0.5)
    step.factor(0.6)
    none = np.zeros((0, problem.shape[1]))
    z = np.zeros(problem.shape)
    taken, primal, dual = step.iterate(Iterate(z, z.copy(), none, none, none, none), 0.6, 5000, 1e-6)
    assert 1 < taken < 5000
    assert max(primal, dual) <= 1e-6
