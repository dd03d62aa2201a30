"""Splits of wide schemas without a dense Hessian, against the same splits with one."""

from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.country import LEVELS, write_country
from topdown.cli import main
from topdown.plan import prepare
from topdown.solve import (
    AnswersInMemory,
    FixedTable,
    LowerBounds,
    OwnObjective,
    PassRows,
    make_top_down_solver,
    structured_quadratic,
)
from topdown.solve.least_squares import MOST_CROSSING, Problem, SoftRules, Structured, TreeStep, run, solve


def case(seed: int, sizes: tuple[int, ...], m: int, people: int) -> tuple[Problem, Problem]:
    """Return one split as a structured problem and as a dense one; m = 0 makes a root."""
    random = np.random.default_rng(seed)
    n, columns = int(np.prod(sizes)), max(m, 1)
    grid = np.stack(np.unravel_index(np.arange(n), sizes))
    at = np.stack([np.zeros(n, dtype=np.int64), *grid, np.arange(n)])
    offsets = np.concatenate(([0], np.cumsum(at.max(axis=1) + 1)))
    weights = random.uniform(0.2, 2.0, len(at))
    truth = random.multinomial(people, random.dirichlet(np.full(n * columns, 0.1))).reshape(n, columns)
    answers = np.zeros((offsets[-1], columns))
    for row, start in zip(at, offsets, strict=False):
        np.add.at(answers, start + row, truth)
    answers += random.normal(size=answers.shape) * 2
    quadratic = structured_quadratic(at, offsets[:-1, None] + at, weights, answers)
    assert quadratic is not None
    allowed = random.random((n, columns)) < 0.9
    if m:
        truth *= allowed
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
    one, residual = run(wide, TreeStep(wide, wide.quadratic, 0.5))
    other, _ = solve(dense)
    assert residual < 1e-4
    assert other.z == pytest.approx(one.z, abs=1e-3)


def test_a_split_of_a_wide_schema_forms_no_matrix(tmp_path: Path) -> None:
    """A matrix of all pairs of 9,600 cells takes a gigabyte and minutes for every area."""
    write_country(tmp_path, 60, 12)
    arguments = ["init", "--codes", "codes.csv", "--levels", ",".join(LEVELS), "--no-count", "--quiet"]
    with chdir(tmp_path):
        assert (
            main([*arguments, "--records", "people.csv", "--leaves", "places.csv", "--out", "run.toml"]) == 0
        )
    context = prepare(tmp_path / "run.toml").context
    width, n = context.plan.levels[0].answers_per_node, context.plan.schema.n_cells
    level = make_top_down_solver(context, AnswersInMemory((), ()), {}).facts.levels[0]
    cells = np.arange(n)
    allowed = np.ones((n, 1), dtype=bool)
    table = level.tables["detailed"]
    rows = PassRows(
        level.passes[-1], True, cells, None, table, cells, FixedTable.none(n, 1).floats(), allowed, True
    )
    assert isinstance(OwnObjective(np.zeros((width, 1))).quadratic(level, rows), Structured)


def test_answers_that_cross_are_few_or_the_matrix_is_formed() -> None:
    """More answers than a Schur complement holds would end a run in the solver, after the budget was spent."""
    n = 5 * MOST_CROSSING
    at = np.stack([np.arange(n) // 4, np.arange(n)])
    answers, weights = np.zeros((n + n // 4, 1)), np.ones(2)
    assert structured_quadratic(at, np.stack([at[0], n // 4 + at[1]]), weights, answers) is None
    few = np.stack([np.arange(n) // 5, np.arange(n)])
    assert structured_quadratic(few, np.stack([few[0], n // 5 + few[1]]), weights, answers) is not None
