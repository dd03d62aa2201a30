"""The whole descent on random small censuses: every promise of the solver, checked from outside."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import solved
from topdown.errors import InfeasibleError
from topdown.solve import solve_answers


@given(st.integers(0, 1_000_000), st.sampled_from([0.0, 0.3, 3.0]))
@settings(max_examples=40, deadline=None)
def test_every_release_keeps_every_promise(seed: int, size: float) -> None:
    """Whatever the noise: whole, nonnegative, exact total, open cells only, lower bounds, all optimal."""
    with tempfile.TemporaryDirectory() as folder:
        census = solved.make_census(Path(folder), seed)
        result = solve_answers(census.context, solved.noisy(census, seed + 1, size=size), census.exact)
    context, leaves = census.context, result.leaves.whole()
    assert leaves.count.min() > 0
    assert leaves.n_records == census.truth[0].n_records
    rules = context.rules
    for i, table in enumerate(leaves.at_every_level(context.geography)):
        assert rules.open[i][table.node, rules.class_of_cell[table.cell]].all()
        for b, cells in enumerate(rules.bound_cells):
            held = table.dense(0, table.n_nodes)[:, cells].sum(axis=1)
            assert (held >= rules.lower[i][:, b]).all()
    for level in result.document.levels:
        assert level.n_unconverged == 0
        assert level.max_kkt_residual_persons <= 1e-5
        assert level.n_roundings_optimal == level.n_roundings


@given(st.integers(0, 1_000_000))
@settings(max_examples=15, deadline=None)
def test_without_noise_the_truth_comes_back(seed: int) -> None:
    """If noiseless answers did not give the truth, the solver would be adding error of its own."""
    with tempfile.TemporaryDirectory() as folder:
        census = solved.make_census(Path(folder), seed)
        result = solve_answers(census.context, solved.noisy(census, 0, size=0.0), census.exact)
    truth = census.truth[-1]
    np.testing.assert_array_equal(
        result.leaves.whole().dense(0, truth.n_nodes), truth.dense(0, truth.n_nodes)
    )


def test_one_or_two_workers_give_the_same_table(tmp_path: Path) -> None:
    """Scheduling must not be able to change a published number."""
    census = solved.make_census(tmp_path, 3, n_blocks=60)
    targets = solved.noisy(census, 4)
    one = solve_answers(census.context, targets, census.exact, workers=1)
    two = solve_answers(census.context, targets, census.exact, workers=2)
    assert one.document == two.document
    for name in ("node", "cell", "count"):
        np.testing.assert_array_equal(getattr(one.leaves.whole(), name), getattr(two.leaves.whole(), name))


def test_backends_solve_the_same_tree(tmp_path: Path) -> None:
    """A reference solver in place of the default must find the same estimates, hence nearly the same table."""
    census = solved.make_census(tmp_path, 6, n_blocks=20)  # its roundings do not tie
    targets = solved.noisy(census, 7)
    default = solve_answers(census.context, targets, census.exact)
    other = solve_answers(census.context, targets, census.exact, backend="piqp")
    n = default.leaves.n_nodes
    moved = np.abs(default.leaves.whole().dense(0, n) - other.leaves.whole().dense(0, n)).sum()
    assert moved <= 0.02 * default.leaves.n_records


def test_exact_totals_below_the_root_are_kept(tmp_path: Path) -> None:
    """An exact county total must hold to the person although its own measurement is noisy."""
    census = solved.make_census(tmp_path, 7, n_blocks=30)
    exact = census.exact | {"county": census.truth[1].totals()}
    result = solve_answers(census.context, solved.noisy(census, 8, size=3.0), exact)
    counties = result.leaves.whole().at_every_level(census.context.geography)[1]
    np.testing.assert_array_equal(counties.totals(), census.truth[1].totals())


def test_a_total_below_its_lower_bounds_is_infeasible(tmp_path: Path) -> None:
    """Constraints that exclude each other must end in an error that names the node, never in a table."""
    census = solved.make_census(tmp_path, 9)
    with pytest.raises(InfeasibleError) as caught:
        solve_answers(census.context, solved.noisy(census, 1), {"land": np.array([1])})
    assert caught.value.node == "0"
    assert caught.value.exit_code == 3


def test_a_crossing_chain_goes_to_the_integer_program(tmp_path: Path) -> None:
    """Rounding tables that cross are not a flow; they must be routed to the integer program and say so."""
    settings_text = (solved.TOP / "settings" / "toy.toml").read_text()
    levels = settings_text[settings_text.index("[[level]]") :].replace(
        '{ table = "dwelling", weight = 1 }',
        '{ table = "sex", weight = 1 }, { table = "dwelling", weight = 1 }',
    )
    census = solved.make_census(tmp_path, 11, run=solved.toy_run(levels=levels))
    result = solve_answers(census.context, solved.noisy(census, 12), census.exact)
    routes = {level.level: level.n_milp for level in result.document.levels}
    assert routes["land"] == 0 or routes["land"] == 1
    assert routes["county"] == 1
    assert all(level.n_roundings_optimal == level.n_roundings for level in result.document.levels)
