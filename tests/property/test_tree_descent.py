"""The descent fitted to one estimate of the whole tree: what it is fitted to, and that every promise holds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.helpers import policies, random_census, solved
from tests.helpers.dense_tree import Case, Dense, solve_densely
from tests.helpers.solved import solve_answers
from tests.helpers.tree_census import case_of, with_tree
from topdown.plan import Pass
from topdown.solve import (
    FixedTable,
    Node,
    PassRows,
    Tally,
    TopDownSolver,
    make_top_down_solver,
)
from topdown.solve.least_squares import PerChild
from topdown.solve.tree import TreeStatistics
from topdown.solve.tree import tree_objective as objective


@pytest.fixture
def toy(tmp_path: Path) -> solved.Census:
    """Return a toy land whose plan asks for the tree estimate."""
    return with_tree(solved.make_census(tmp_path, 5, n_blocks=14))


def descent_of(census: solved.Census, answers: solved.NoisyAnswers) -> TopDownSolver:
    """Return the solver of a census."""
    tables = policies.exact_tables(census)
    return make_top_down_solver(census.context, answers, policies.exact_values(census), tables=tables)


@pytest.mark.parametrize("by_means", [False, True])
@pytest.mark.parametrize(
    "policy", ["caps inside", "mixed", "county and land cross", "land ages, block totals"]
)
def test_promises_hold_whatever_splits_are_fitted_to(
    policy: str, by_means: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the objective changes: rules, exact tables and certified optima are those of every release."""
    if by_means:
        monkeypatch.setattr(objective, "MOST_WRITTEN_OUT", 0)
    census = with_tree(policies.make_census(tmp_path, 3, policies.POLICIES[policy]))
    result = policies.solve(census, solved.noisy(census, 4, size=2.0))
    policies.check_promises(census, result.leaves.whole())
    assert result.document.failsafe == []
    assert all(level.n_unconverged == 0 for level in result.document.levels)
    assert [at.targets for at in result.document.statistics.targets] == ["tree", "tree", "own"]
    assert result.document.statistics.residual_persons <= 1e-9


@pytest.mark.parametrize("tables", [("detailed",), ("age", "dwelling * age", "detailed")])
def test_a_root_by_means_is_that_of_its_matrix(
    tables: tuple[str, ...], toy: solved.Census, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide root is never written out: a step, a check or a table of another matrix would release other people."""
    top, *below = toy.context.plan.levels
    passes = tuple(Pass(table=name, queries=top.passes[-1].queries) for name in tables)
    plan = replace(toy.context.plan, levels=(replace(top, passes=passes), *below))
    census = solved.Census(replace(toy.context, plan=plan), toy.truth)
    found = []
    for most in (objective.MOST_WRITTEN_OUT, 0):
        monkeypatch.setattr(objective, "MOST_WRITTEN_OUT", most)
        tally = Tally()
        found.append(descent_of(census, solved.noisy(toy, 5)).root(tally))
        level = tally.level(top.name)
        assert level.n_unconverged == 0
    assert np.array_equal(found[0].cells, found[1].cells)
    assert np.array_equal(found[0].counts, found[1].counts)


def test_tables_of_a_root_are_those_of_its_cells(toy: solved.Census) -> None:
    """The covariance of a table is added up from components: a wrong one would weigh its answers wrongly."""
    descent = descent_of(toy, solved.noisy(toy, 5))
    split, _ = descent.open_root()
    level, cells = descent.facts.levels[0], split.cells
    whole = split.objective.quadratic(level, rows_of(descent, 0, cells, len(level.passes) - 1, None))
    covariance, fit = np.linalg.inv(whole.hessian), np.linalg.solve(whole.hessian, whole.g)
    for name in ("total", "age", "sex", "dwelling * sex"):
        table = toy.context.plan.query(name).labels.astype(np.int64)
        answers, first = np.unique(table[cells], return_index=True)
        step, none = Pass(table=name, queries=()), FixedTable.none(len(cells), 1).floats()
        allowed = np.ones((len(first), 1), dtype=bool)
        rows = PassRows(step, False, cells, None, table[cells], first, none, allowed)
        found = split.objective.quadratic(replace(level, tables={**level.tables, name: table}), rows)
        select = (answers[:, None] == table[cells]).astype(float)
        expected = np.linalg.inv(select @ covariance @ select.T)
        assert found.hessian == pytest.approx(expected, rel=1e-7, abs=1e-9)
        assert found.g == pytest.approx(expected @ (select @ fit), rel=1e-7)
        assert found.curvature == pytest.approx(np.linalg.eigvalsh(expected)[0], rel=1e-6)


@pytest.mark.parametrize("seed", [1, 4, 9])
def test_random_censuses_keep_their_promises(seed: int, tmp_path: Path) -> None:
    """Any schema, geography and rules that a plan accepts must be solved or left to own measurements by name."""
    census = with_tree(random_census.make_random_census(tmp_path, seed))
    result = policies.solve(census, solved.noisy(census, seed))
    policies.check_promises(census, result.leaves.whole())
    assert all(level.n_unconverged == 0 for level in result.document.levels)


def test_workers_do_not_change_a_byte(toy: solved.Census) -> None:
    """The estimate is made once and inherited; a worker that made its own could differ."""
    answers = solved.noisy(toy, 6)
    one = solve_answers(toy.context, answers, toy.exact, workers=1)
    two = solve_answers(toy.context, answers, toy.exact, workers=2)
    assert one.document == two.document
    assert np.array_equal(one.leaves.whole().count, two.leaves.whole().count)
    assert np.array_equal(one.leaves.whole().cell, two.leaves.whole().cell)


def test_a_leaf_split_of_the_same_parent_is_that_of_own_measurements(toy: solved.Census) -> None:
    """Leaves have nothing below them: their splits must not change by a byte."""
    answers = solved.noisy(toy, 7)
    tree = descent_of(toy, answers)
    plain = replace(toy.context, plan=replace(toy.context.plan, estimates=None))
    own = descent_of(solved.Census(plain, toy.truth), answers)
    parent = tree.children(0, tree.root(Tally()), Tally())[0]
    for one, other in zip(tree.children(1, parent, Tally()), own.children(1, parent, Tally()), strict=True):
        assert np.array_equal(one.cells, other.cells)
        assert np.array_equal(one.counts, other.counts)


def test_inner_answers_are_read_once(toy: solved.Census) -> None:
    """Once the statistics are made the descent reads leaves only; inner answers read again would count twice."""
    answers = solved.noisy(toy, 8)
    expected = solve_answers(toy.context, answers, toy.exact).leaves.whole()
    descent = descent_of(toy, answers)
    nodes = [descent.root(Tally())]
    zeros = tuple(values if i == 2 else np.zeros_like(values) for i, values in enumerate(answers.values))
    vars(descent.statistics)["answers"] = replace(answers, values=zeros)
    for depth in range(2):
        nodes = [child for node in nodes for child in descent.children(depth, node, Tally())]
    assert np.array_equal(expected.count, np.concatenate([leaf.counts for leaf in nodes]))


def rows_of(
    descent: TopDownSolver, depth: int, cells: NDArray[np.int64], step: int, parent: Node | None
) -> PassRows:
    """Return a pass whose rows are its table's answers, nothing fixed."""
    level = descent.facts.levels[depth]
    last = step == len(level.passes) - 1
    table = level.tables[level.passes[step].table][cells]
    first = np.arange(len(cells)) if last else np.unique(table, return_index=True)[1]
    counts = None if parent is None else parent.counts
    n_nodes = len(descent.facts.open_children(0, parent.index)) if parent is not None else 1
    fixed = FixedTable.none(len(cells), n_nodes).floats()
    allowed = np.ones((len(first), n_nodes), dtype=bool)
    return PassRows(level.passes[step], last, cells, counts, table, first, fixed, allowed)


def test_cells_are_fitted_to_all_that_is_measured_at_and_below_a_child(toy: solved.Census) -> None:
    """Without constraints the minimiser of a child's quadratic is the dense estimate from its own part of the tree."""
    answers = solved.noisy(toy, 9)
    descent = descent_of(toy, answers)
    case = case_of(toy, answers)
    everywhere = np.arange(case.schema.n_cells)
    open_cells = everywhere[case.is_open[0][0][case.lattice.place[0]]]
    slow = solve_densely(case)
    _, at_root = descent.statistics.split(0, 0, 1)
    root = at_root.quadratic(descent.facts.levels[0], rows_of(descent, 0, open_cells, 0, None))
    x = np.linalg.solve(root.hessian, root.g[:, 0])
    expected = [slow.sums(slow.cell == cell)[0] for cell in open_cells]
    assert expected == pytest.approx(x, abs=1e-7)
    parent = Node(0, open_cells, np.ones(len(open_cells), dtype=np.int64))
    nodes, below = descent.statistics.split(1, 0, len(case.geography.levels[1]))
    rows = rows_of(descent, 1, open_cells, 1, parent)
    quadratic = below.quadratic(descent.facts.levels[1], rows)
    assert isinstance(quadratic, PerChild)
    part = without_the_land(case)
    for j, node in enumerate(nodes):
        mine = case.is_open[1][node][case.lattice.place[0][open_cells]]
        h = quadratic.block(j, np.flatnonzero(mine))
        x = np.linalg.solve(h, quadratic.g[mine, j])
        inside = case.geography.levels[2].parent[part.leaf] == node
        expected = [part.sums(inside & (part.cell == cell))[0] for cell in open_cells[mine]]
        assert expected == pytest.approx(x, abs=1e-7)


def test_bounds_of_the_check_use_what_lies_below_every_child(toy: solved.Census) -> None:
    """A curvature or inverse above the true one would certify what is far off; one without K certifies nothing."""
    descent = descent_of(toy, solved.noisy(toy, 9))
    cells = np.flatnonzero(toy.truth[0].answers(toy.context.plan.query("detailed"))[0])
    parent = Node(0, cells, np.ones(len(cells), dtype=np.int64))
    _, below = descent.statistics.split(1, 0, len(toy.context.geography.levels[1]))
    quadratic = below.quadratic(descent.facts.levels[1], rows_of(descent, 1, cells, 1, parent))
    rest = np.random.default_rng(1).normal(size=quadratic.g.shape)
    expected = 0.0
    for j in range(rest.shape[1]):
        block = quadratic.beyond[j]
        is_open = np.diag(block) > 0
        rest[~is_open, j] = 0.0
        whole = (quadratic.hessian + block)[np.ix_(is_open, is_open)]
        assert np.linalg.eigvalsh(whole)[0] >= quadratic.curvature
        expected += rest[is_open, j] @ np.linalg.solve(whole, rest[is_open, j])
    without = replace(quadratic, least_beyond=0.0)
    assert expected <= quadratic.inverse_norm(rest, 0.0) < without.inverse_norm(rest, 0.0)


def without_the_land(case: Case) -> Dense:
    """Return the dense estimate when the land is not measured: then counties have nothing to do with each other."""
    return solve_densely(replace(case, weights=(tuple(0.0 for _ in case.weights[0]), *case.weights[1:])))


def test_totals_are_the_dense_estimate_given_the_parents_table(toy: solved.Census) -> None:
    """The pass of totals uses t and its variance once the land's whole table is known: by equalities of every cell."""
    answers = solved.noisy(toy, 10)
    descent, case = descent_of(toy, answers), case_of(toy, answers)
    open_cells = np.flatnonzero(case.is_open[0][0][case.lattice.place[0]])
    rng = np.random.default_rng(1)
    parent = Node(0, open_cells, rng.integers(1, 60, len(open_cells)))
    nodes, below = descent.statistics.split(1, 0, len(case.geography.levels[1]))
    quadratic = below.quadratic(descent.facts.levels[1], rows_of(descent, 1, open_cells, 0, parent))
    assert isinstance(quadratic, PerChild)
    slow = solve_densely(case)
    f = np.stack([slow.cell == cell for cell in open_cells]).astype(float)
    gain = slow.v @ f.T @ np.linalg.inv(f @ slow.v @ f.T)
    given = Dense(
        slow.leaf, slow.cell, slow.x + gain @ (parent.counts - f @ slow.x), slow.v - gain @ f @ slow.v
    )
    for j, node in enumerate(nodes):
        total, variance = given.sums(case.geography.levels[2].parent[given.leaf] == node)
        weight = float(quadratic.block(j, np.zeros(1, dtype=np.int64))[0, 0])
        assert 1 / variance == pytest.approx(weight, rel=1e-6)
        assert total == pytest.approx(float(quadratic.g[0, j]) / weight, abs=1e-6)


def test_the_judge_sees_a_wrong_estimate(toy: solved.Census) -> None:
    """A judge that passes anything is none: one answer of a level changed after the estimate must show."""
    answers = solved.noisy(toy, 11)
    descent = descent_of(toy, answers)
    good = descent.statistics
    assert isinstance(good, TreeStatistics)
    assert good.residual <= 1e-9
    for depth in range(3):
        values = tuple(v + (i == depth) * np.arange(v.shape[1]) % 2 for i, v in enumerate(answers.values))
        other = replace(good, answers=replace(answers, values=values))
        vars(other).update(found=good.found, root=good.root)
        assert other.residual > 1e-3


def test_simulations_share_covariances_and_nothing_else(toy: solved.Census) -> None:
    """A descent for other answers must be the one made from them alone."""
    first, second = solved.noisy(toy, 12), solved.noisy(toy, 13)
    descent = descent_of(toy, first)
    descent.root(Tally())
    again, fresh = descent.again(second), descent_of(toy, second)
    assert isinstance(again.statistics, TreeStatistics)
    assert again.statistics.covariances is descent.statistics.covariances  # type: ignore[attr-defined]
    assert np.array_equal(fresh.root(Tally()).counts, again.root(Tally()).counts)
