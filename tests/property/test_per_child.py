"""Least squares with a matrix of its own for each child, and splits of wide schemas without a dense one."""

from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.country import LEVELS, write_country
from tests.helpers.dense_tree import never, schema_of
from tests.oracles.quadratic_solvers import solve_with
from topdown.cli import main
from topdown.model import parse_query
from topdown.plan import prepare
from topdown.solve import (
    AnswersInMemory,
    FixedTable,
    LowerBounds,
    OwnObjective,
    PassRows,
    gram,
    group_sums,
    information,
    make_lattice,
    make_top_down_solver,
    structured_quadratic,
)
from topdown.solve.least_squares import (
    MOST_CROSSING,
    TARGET_PERSONS,
    LatticeQuadratic,
    LatticeStep,
    PerChild,
    Problem,
    SoftRules,
    Structured,
    StructuredStep,
    power_method,
    residual_persons,
    run,
    solve,
)

SCHEMA = schema_of((3, 2, 4), recoded=(0,))
LATTICE = make_lattice(SCHEMA, never({"a0": ("v0",)}), ())
NAMES = ("r0 * a2", "a1 * a2", "detailed")


def problem_of(seed: int, *, fixed: bool = True, bounded: bool = False, m: int = 4) -> Problem:
    """Draw a parent with records in some cells, children with different open values, and what is known of them."""
    rng = np.random.default_rng(seed)
    values = tuple(np.flatnonzero(row) for row in (rng.random((m, 3)) < 0.7) | np.eye(m, 3, dtype=bool))
    values = tuple(v if len(v) else np.array([0]) for v in values)
    weights = rng.uniform(0.01, 0.5, 3)
    queries = [parse_query(SCHEMA, name) for name in NAMES]
    own = information(LATTICE, queries, weights)
    is_open = np.stack([np.isin(np.arange(3), v) for v in values], axis=1)  # (dense, m)
    cells = np.sort(rng.choice(SCHEMA.n_cells, int(rng.integers(4, 24)), replace=False))
    dense, product = LATTICE.place[:, cells]
    kept = is_open[dense].any(axis=1)
    cells, dense, product = cells[kept], dense[kept], product[kept]
    allowed = is_open[dense]
    truth = rng.poisson(rng.choice([0.3, 3.0, 30.0], (len(cells), 1)), allowed.shape) * allowed
    matrices, linear = [], []
    for j, v in enumerate(values):
        root = rng.normal(size=(LATTICE.n_components, len(v), len(v))) * rng.uniform(0.1, 2.0)
        matrices.append(root @ np.swapaxes(root, 1, 2) + 0.05 * np.eye(len(v)))
        full = np.zeros((len(v), LATTICE.n_product))
        mine = allowed[:, j]
        full[np.searchsorted(v, dense[mine]), product[mine]] = truth[mine, j]
        noisy = full + rng.normal(size=full.shape) * 4
        both = own.matrices[:, v[:, None], v[None, :]] + matrices[-1]
        linear.append(LATTICE.apply(both[None], noisy[None])[0])
    labels = np.ascontiguousarray(np.stack([q.labels[cells] for q in queries]).astype(np.int64))
    n = len(cells)
    table = FixedTable.total(n, truth.sum(axis=0).astype(float)) if fixed else FixedTable.none(n, m).floats()
    bounds = LowerBounds.none(n, m).floats()
    if bounded:
        of = np.where(dense < 2, dense, -1).astype(np.int64)
        bounds = LowerBounds(of, group_sums(truth, of, 2).astype(float))
    return Problem(
        quadratic=LatticeQuadratic(
            LATTICE,
            dense,
            product,
            values,
            tuple(matrices),
            labels,
            weights,
            own.matrices,
            tuple(linear),
            float(weights[2]),
            float(weights.min()),
            table,
            allowed,
        ),
        pointers=np.arange(0, n * m + 1, m),
        sums=truth.sum(axis=1).astype(float),
        allowed=np.ascontiguousarray(allowed),
        fixed=table,
        bounds=bounds,
        compared=SoftRules.none(n, m),
    )


def stacked(problem: Problem) -> Problem:
    """Write the matrices of a problem out."""
    lattice = problem.quadratic
    assert isinstance(lattice, LatticeQuadratic)
    shared, rows = gram(lattice.labels, lattice.weights), np.arange(problem.shape[0])
    beyond = np.stack([lattice.block(j, rows) - shared for j in range(problem.shape[1])])
    written = PerChild(
        shared, beyond, lattice.g, lattice.curvature, lattice.scale, problem.fixed, problem.allowed
    )
    return replace(problem, quadratic=written)


@pytest.mark.parametrize("seed", range(12))
def test_lattice_stacked_and_interior_points_find_one_optimum(seed: int) -> None:
    """A wrong matrix, penalty or correction in one of the three would give another table."""
    problem = problem_of(seed, fixed=seed % 3 > 0, bounded=seed % 2 == 1)
    lattice, at_lattice = solve(problem)
    dense, at_dense = solve(stacked(problem))
    interior, at_interior = solve_with("interior", stacked(problem))
    assert max(at_lattice, at_dense, at_interior) <= TARGET_PERSONS
    assert lattice.z == pytest.approx(dense.z, abs=2e-5)
    assert interior.z == pytest.approx(dense.z, abs=2e-5)
    assert lattice.iterations < 5000  # by its own steps, not by interior points


def test_swapped_children_fail_the_check() -> None:
    """The check must look at each child's own matrix."""
    problem = problem_of(3)
    lattice, written = problem.quadratic, stacked(problem).quadratic
    assert isinstance(lattice, LatticeQuadratic)
    assert isinstance(written, PerChild)
    same = [j for j in range(1, 4) if len(lattice.values[j]) == len(lattice.values[0])]
    blocks = written.beyond.copy()
    blocks[[0, same[0] if same else 1]] = blocks[[same[0] if same else 1, 0]]
    swapped = replace(problem, quadratic=replace(written, beyond=blocks))
    found, residual = solve(swapped)
    assert residual <= TARGET_PERSONS
    assert residual_persons(problem, found) > 1e-2


def test_products_by_means_are_those_of_the_blocks() -> None:
    """The check and the steps use products; interior points and stacked steps use blocks."""
    for seed in range(5):
        problem = problem_of(seed)
        one, other = problem.quadratic, stacked(problem).quadratic
        x = np.random.default_rng(seed).normal(size=problem.shape)
        assert one.gradient(x) == pytest.approx(other.gradient(x), abs=1e-10)


def test_largest_curvature_leaves_out_what_is_told() -> None:
    """The penalty of ADMM comes from it; totals that are fixed would make it far too large."""
    problem = stacked(problem_of(5))
    quadratic = problem.quadratic
    assert isinstance(quadratic, PerChild)
    heavier = quadratic.beyond + 1e6
    heavy = replace(quadratic, beyond=heavier)
    expected = []
    for j in range(4):
        mine = problem.allowed[:, j]
        centre = np.eye(mine.sum()) - 1 / mine.sum()
        full = quadratic.block(j, np.flatnonzero(mine))
        expected.append(float(np.linalg.eigvalsh(centre @ full @ centre)[-1]))
    assert max(expected) * 0.5 <= quadratic.largest_eigenvalue <= max(expected) * (1 + 1e-6)
    assert heavy.largest_eigenvalue == pytest.approx(quadratic.largest_eigenvalue, rel=0.2)
    assert power_method(lambda v: heavy.hessian @ v + heavier[0] @ v, len(heavy.hessian)) > 1e6


def test_groups_that_cut_across_product_cells_are_not_for_the_lattice() -> None:
    """Its correction moves all product cells of a dense value alike: other groups must be refused, not misread."""
    problem = problem_of(2)
    quadratic = problem.quadratic
    assert isinstance(quadratic, LatticeQuadratic)
    n, m = problem.shape
    cut = LowerBounds((np.arange(n) % 2).astype(np.int64), np.zeros((2, m)))
    with pytest.raises(TypeError, match="cuts across"):
        LatticeStep(replace(problem, bounds=cut), quadratic)


def case(seed: int, sizes: tuple[int, ...], m: int, people: int) -> tuple[Problem, Problem]:
    """Return one split as a structured problem and as a dense one; m = 0 makes a root."""
    random = np.random.default_rng(seed)
    n, columns = int(np.prod(sizes)), max(m, 1)
    grid = np.stack(np.unravel_index(np.arange(n), sizes))
    at = np.stack([np.zeros(n, dtype=np.int64), *grid, np.arange(n)])
    offsets = np.concatenate(([0], np.cumsum(at.max(axis=1) + 1)))
    weights = random.uniform(0.2, 2.0, len(at))
    truth = random.multinomial(people, random.dirichlet(np.full(n * columns, 0.1))).reshape(n, columns)
    allowed = random.random((n, columns)) < 0.9
    truth *= allowed
    answers = np.zeros((offsets[-1], columns))
    for row, start in zip(at, offsets, strict=False):
        np.add.at(answers, start + row, truth)
    answers += random.normal(size=answers.shape) * 2
    quadratic = structured_quadratic(at, offsets[:-1, None] + at, weights, answers)
    assert quadratic is not None
    if m:
        pointers, sums = np.arange(0, n * m + 1, m), truth.sum(axis=1).astype(float)
        fixed = FixedTable.total(n, truth.sum(axis=0).astype(float))
    else:
        pointers, sums = np.array([0, n]), np.array([-1.0])
        fixed = FixedTable.none(n, 1).floats()
    none = LowerBounds.none(n, columns).floats()
    wide = Problem(quadratic, pointers, sums, allowed, fixed, none, SoftRules.none(n, columns))
    return wide, Problem(quadratic.dense(), pointers, sums, allowed, fixed, none, SoftRules.none(n, columns))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("m", "people"), [(0, 500), (1, 40), (3, 60), (7, 900)])
def test_wide_and_dense_find_the_same_table(seed: int, m: int, people: int) -> None:
    """A step that inverts another matrix than the one minimised gives a certified-looking table of other people."""
    wide, dense = case(seed, (2, 3, 5, 2), m, people)
    one, residual = run(wide, StructuredStep(wide, wide.quadratic, 0.5))
    other, _ = solve(dense)
    assert residual < 1e-4
    assert other.z == pytest.approx(one.z, abs=1e-3)


@pytest.mark.parametrize("m", [0, 4])
def test_a_wide_split_of_a_large_country_converges(m: int) -> None:
    """Rounding errors of a step that grow with the people, not with the step, leave a large country uncertified."""
    wide, _ = case(5, (4, 5, 12, 5), m, 2_000_000_000)
    assert solve(wide)[1] <= TARGET_PERSONS


def test_a_wide_root_takes_few_steps() -> None:
    """A root without a known total was left to thousands of steps of ADMM, which rounding error then stopped."""
    wide, _ = case(5, (4, 5, 12, 5), 0, 2_000)
    assert solve(wide)[0].iterations <= 20


def test_a_wide_schema_forms_no_matrix(tmp_path: Path) -> None:
    """A matrix of all pairs of 9,600 cells takes a gigabyte and minutes for every area, fitted to the tree too."""
    write_country(tmp_path, 60, 12)
    arguments = ["init", "--codes", "codes.csv", "--levels", ",".join(LEVELS), "--no-count", "--quiet"]
    with chdir(tmp_path):
        assert (
            main([*arguments, "--records", "people.csv", "--leaves", "places.csv", "--out", "run.toml"]) == 0
        )
    run = tmp_path / "run.toml"
    fitted = prepare(run).context
    context = replace(fitted, plan=replace(fitted.plan, estimates=None))
    width, n = context.plan.levels[0].answers_per_node, context.plan.schema.n_cells
    level = make_top_down_solver(context, AnswersInMemory((), ()), {}).facts.levels[0]
    cells = np.arange(n)
    allowed = np.ones((n, 1), dtype=bool)
    table = level.tables["detailed"]
    rows = PassRows(
        level.passes[-1], True, cells, None, table, cells, FixedTable.none(n, 1).floats(), allowed, True
    )
    assert isinstance(OwnObjective(np.zeros((1, width), dtype=np.int32)).quadratic(level, rows), Structured)
    values = tuple(np.zeros((len(at.codes), width), dtype=np.int64) for at in fitted.geography.levels)
    nodes = tuple(np.arange(len(at.codes)) for at in fitted.geography.levels)
    tree = make_top_down_solver(fitted, AnswersInMemory(nodes, values), {})
    split, _ = tree.open_root()
    assert isinstance(split.objective.quadratic(tree.facts.levels[0], rows), LatticeQuadratic)


def test_answers_that_cross_are_few_or_the_matrix_is_formed() -> None:
    """More answers than a Schur complement holds would end a run in the solver, after the budget was spent."""
    n = 5 * MOST_CROSSING
    at = np.stack([np.arange(n) // 4, np.arange(n)])
    answers, weights = np.zeros((n + n // 4, 1)), np.ones(2)
    assert structured_quadratic(at, np.stack([at[0], n // 4 + at[1]]), weights, answers) is None
    few = np.stack([np.arange(n) // 5, np.arange(n)])
    assert structured_quadratic(few, np.stack([few[0], n // 5 + few[1]]), weights, answers) is not None
