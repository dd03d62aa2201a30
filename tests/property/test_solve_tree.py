"""The whole descent on random small, tiny and degenerate censuses: every promise of the solver, from outside."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers import policies, solved
from tests.helpers.depth import DEPTH, repeats
from tests.helpers.random_census import draw, make_random_census
from tests.helpers.solved import solve_answers
from tests.oracles.quadratic_solvers import solve_splits_by
from topdown.errors import ConfigError, TopdownError
from topdown.model import Histogram
from topdown.model import split_polytopes as polytopes
from topdown.plan import prepare
from topdown.solve import Solved, try_exact_statistics


@pytest.mark.deep
@given(st.integers(0, 1_000_000), st.sampled_from([0.0, 0.3, 3.0]))
@settings(max_examples=repeats(20, 80), deadline=None)
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
    solved.check_proved(result.document)


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


def test_another_solver_finds_the_same_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference solver in place of the default must find the same estimates, hence nearly the same table."""
    census = solved.make_census(tmp_path, 6, n_blocks=20)  # its roundings do not tie
    targets = solved.noisy(census, 7)
    default = solve_answers(census.context, targets, census.exact)
    solve_splits_by(monkeypatch, "piqp")
    other = solve_answers(census.context, targets, census.exact)
    n = default.leaves.n_nodes
    moved = np.abs(default.leaves.whole().dense(0, n) - other.leaves.whole().dense(0, n)).sum()
    assert moved <= 0.02 * default.leaves.n_records


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


seeds = st.integers(0, 10_000_000)
SIZES = st.sampled_from([0.0, 0.3, 3.0, 30.0, 300.0])  # of the noise, against the planned one


def census_of(seed: int, *, plain: bool = False) -> solved.Census:
    """Return a random census; constraints that the plan refuses are drawn again by hypothesis."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return make_random_census(Path(folder), seed, plain=plain)
        except ConfigError as error:
            assume(error.code not in ("C073", "C074"))
            if error.code == "C120":  # nobody could be anybody else
                assert not draw(seed, plain=plain).some_can_change()
                assume(False)
            raise


def solve_all(census: solved.Census, seed: int, size: float) -> Solved:
    """Solve a census from noisy answers and check that everything was solved and proved."""
    result = policies.solve(census, solved.noisy(census, seed, size=size))
    policies.check_promises(census, result.leaves.whole())
    assert not len(result.leaves.whole().count) or result.leaves.whole().count.min() > 0
    solved.check_proved(result.document)
    return result


@pytest.mark.deep
@given(seeds, SIZES)
@settings(max_examples=repeats(15, 160), deadline=None)
def test_every_census_can_be_released(seed: int, size: float) -> None:
    """Noise is paid for before the first split: after it there must be no infeasible area and no unproved answer."""
    census = census_of(seed)
    result = solve_all(census, seed + 1, size)
    assert result.document.failsafe == []
    if size == 0.0 and census.context.plan.invariants.exact:
        n = result.leaves.n_nodes
        np.testing.assert_array_equal(result.leaves.whole().dense(0, n), census.truth[-1].dense(0, n))


@pytest.mark.deep
@given(seeds, SIZES)
@settings(max_examples=repeats(8, 80), deadline=None)
def test_without_limits_the_failsafe_keeps_every_promise(seed: int, size: float) -> None:
    """Where limits are not kept (more kinds than MAX_KINDS), the failsafe alone must lead to a release."""
    census = census_of(seed, plain=True)  # what the plan accepts for any number of kinds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polytopes, "MAX_KINDS", 0)
        result = solve_all(census, seed + 1, size)
    for use in result.document.failsafe:
        assert use.distance >= 2
        assert use.distance % 2 == 0
        assert use.level != census.context.geography.level_names[-1]
        assert use.constraints
        assert use.smallest


@dataclass(frozen=True)
class Shape:
    """A small land and where its people are.

    Args:
        leaves: (geocode, homes, dormitories, barracks).
        people: (leaf, dwelling, sex, age, count), by index.
    """

    leaves: tuple[tuple[str, int, int, int], ...]
    people: tuple[tuple[int, ...], ...] = ()


HOMES = (("101", 3, 0, 0), ("102", 2, 0, 0), ("201", 1, 0, 0), ("202", 0, 0, 0))
SHAPES = {
    "nobody": Shape(HOMES),
    "nobody in the only area": Shape((("101", 1, 0, 0),)),
    "one person": Shape(HOMES, ((1, 0, 1, 2, 1),)),
    "one area": Shape((("101", 1, 1, 1),), ((0, 0, 0, 0, 5), (0, 1, 1, 1, 3))),
    "everybody in one cell": Shape(HOMES, ((0, 0, 0, 1, 9), (2, 0, 0, 1, 4))),
    "homes closed everywhere": Shape((("101", 0, 1, 0), ("201", 0, 1, 1)), ((0, 1, 1, 1, 2),)),
    "every cell of a county closed": Shape((*HOMES[:2], ("201", 0, 0, 0)), ((0, 0, 0, 1, 7),)),
    "an empty county": Shape(HOMES, ((0, 0, 1, 0, 3), (1, 0, 0, 2, 4))),
}


def make_census(folder: Path, policy: str, shape: Shape, run: str) -> solved.Census:
    """Write a land of a shape under a policy; return it with people who keep its rules."""
    rows = "".join(",".join(map(str, leaf)) + "\n" for leaf in shape.leaves)
    (folder / "leaves.csv").write_text("geocode,homes,dormitories,barracks\n" + rows)
    toy = (solved.TOP / "invariants" / "toy.toml").read_text()
    (folder / "own.toml").write_text(f"{toy}\n{policies.POLICIES[policy]}")
    (folder / "run.toml").write_text(run.replace('invariants = "toy"', 'invariants = "own.toml"'))
    context = prepare(folder / "run.toml").context
    table = np.zeros((len(shape.leaves), *context.plan.schema.shape), dtype=np.int64)
    for *place, count in shape.people:
        table[tuple(place)] += count
    flat = table.reshape(len(table), -1)
    node, cell = np.nonzero(flat)
    truth = Histogram.build(len(flat), flat.shape[1], node, cell, flat[node, cell])
    truth = policies.fit_records(context, truth)
    return solved.Census(context, truth.at_every_level(context.geography))


@pytest.mark.deep
@pytest.mark.parametrize("policy", policies.POLICIES)
def test_every_degenerate_census_is_refused_by_its_plan_or_solved(tmp_path: Path, policy: str) -> None:
    """A census of nobody with an exact table was charged, and no solve of it ever ended."""
    turn, n_solved = list(policies.POLICIES).index(policy) % 3, 0
    for number, shape in enumerate(SHAPES):
        if number not in (0, 3) and number % 3 != turn and DEPTH == 1:
            continue
        try:
            census = make_census(tmp_path, policy, SHAPES[shape], solved.toy_run())
        except ConfigError as error:
            if error.code != "C120":  # no two data sets are neighbours under it
                raise
            continue
        n_solved += 1
        totals, tables = policies.exact_values(census), policies.exact_tables(census)
        values = {
            e.name: tables[e.name] if e.name in tables else totals[e.level][:, None]
            for e in census.context.plan.invariants.exact
        }
        try_exact_statistics(census.context, values)
        for seed in range(DEPTH):
            result = solve_answers(
                census.context, solved.noisy(census, seed, size=3.0), totals, tables=tables
            )
            policies.check_promises(census, result.leaves.whole())
            assert result.document.failsafe == [], shape
    assert n_solved


def test_what_fails_of_exact_statistics_names_them_only(tmp_path: Path) -> None:
    """An exact table of other people than the total counts must be refused where nothing is charged yet."""
    census = make_census(tmp_path, "land ages", SHAPES["one person"], solved.toy_run())
    totals, tables = policies.exact_values(census), policies.exact_tables(census)
    wrong = {name: table + 1 for name, table in tables.items()}
    values = wrong | {
        e.name: totals[e.level][:, None] for e in census.context.plan.invariants.exact if e.name not in wrong
    }
    with pytest.raises(TopdownError) as caught:
        try_exact_statistics(census.context, values)
    assert caught.value.code.startswith("I")
