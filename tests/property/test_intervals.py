"""Intervals in tables: estimates and deviations against one dense matrix, ends against exact fractions."""

import json
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.helpers import policies, solved
from tests.helpers.dense_tree import solve_densely
from tests.helpers.failing import fails_with
from tests.helpers.interval_census import asks, numbers, true_rows
from tests.helpers.small_release import make_context
from tests.helpers.tree_census import case_of
from topdown.app import fitted_by_no_pass, spent_on_exact
from topdown.cli import main
from topdown.errors import ConfigError
from topdown.formats import EstimateOfLevel
from topdown.model import parse_query
from topdown.plan import plan_from_document
from topdown.publish import interval_ends, intervals_of, is_exact, normal_quantile
from topdown.publish import table_intervals as intervals
from topdown.solve.tree import check_intervals

COVERAGE = Fraction(19, 20)


@pytest.mark.parametrize("seed", range(3))
def test_estimates_and_deviations_are_those_of_one_dense_matrix(tmp_path: Path, seed: int) -> None:
    """A number beside a count that is not the estimate of that count would be believed."""
    census = asks(solved.make_census(tmp_path, seed), COVERAGE)
    context = census.context
    total = parse_query(context.plan.schema, "total")
    case = case_of(census, solved.noisy(census, seed))
    dense = solve_densely(case, (total, census.exact["land"].astype(float)))
    rows = true_rows(census)
    found = numbers(census, seed).at({place: (at.node, at.answer) for place, at in rows.items()})
    for (name, depth), at in rows.items():
        labels = parse_query(context.plan.schema, name).labels
        up = context.geography.ancestors_of_leaves[depth]
        for i in range(0, len(at.node), 3):
            chosen = (up[dense.leaf] == at.node[i]) & (labels[dense.cell] == at.answer[i])
            estimate, variance = dense.sums(chosen)
            assert 1000 * estimate == pytest.approx(found[name, depth][0][i], abs=0.501)
            stddev = 1000 * max(variance, 0.0) ** 0.5
            assert stddev - 1e-3 <= found[name, depth][1][i] <= stddev + 1.01


def test_rows_are_the_answers_that_public_facts_leave_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row too few hides a zero that needs its interval; one too many gives an interval to what is impossible."""
    census = asks(solved.make_census(tmp_path, 5), COVERAGE)
    rules, plan = census.context.rules, census.context.plan
    for (name, depth), at in true_rows(census).items():
        query = plan.query(name)
        wanted = {
            (node, int(query.labels[cell]))
            for node in range(len(rules.open[depth]))
            for cell in np.flatnonzero(rules.open[depth][node, rules.class_of_cell])
        }
        if name == "total":
            wanted = {(node, 0) for node in range(len(rules.open[depth]))}
        assert sorted(wanted) == list(zip(at.node.tolist(), at.answer.tolist(), strict=True))
        assert at.listed == "all"
    monkeypatch.setattr(intervals, "MOST_ROWS", 50)
    few = true_rows(census)["detailed", 2]
    assert few.listed == "nonzero"
    assert (few.count > 0).all()


def by_fractions(
    e: int, s: int, tails: Fraction, above: list[tuple[int, int]], count: int
) -> tuple[int, int]:
    """Return both ends by the definition, word by word."""
    estimate, stddev = Fraction(e, 1000), Fraction(s, 1000)
    z = Fraction(normal_quantile(tails / 2), 10**6)
    own = Fraction(normal_quantile(tails / 4), 10**6) if above else z
    low, high = ceil(estimate - z * stddev), floor(estimate + own * stddev)
    if low > high:
        low = high = floor(estimate + Fraction(1, 2))
    for up, spread in above:
        share = Fraction(normal_quantile(tails / 4 / len(above)), 10**6)
        high = min(high, floor(Fraction(up, 1000) + share * Fraction(spread, 1000)))
    low, high = max(0, min(low, high)), max(0, high)
    return min(low, count), max(high, count)


@given(
    e=st.integers(-(10**7), 10**9),
    s=st.integers(0, 10**6),
    tails=st.fractions(Fraction(1, 10_000), Fraction(1, 2), max_denominator=10_000),
    above=st.lists(st.tuples(st.integers(-5000, 10**7), st.integers(0, 10**5)), max_size=2),
    count=st.integers(0, 10**6),
)
def test_ends_follow_from_the_written_numbers(
    e: int, s: int, tails: Fraction, above: list[tuple[int, int]], count: int
) -> None:
    """An end rounded the wrong way, or a tail shared wrongly, makes the chance smaller than stated."""
    low, high = interval_ends(
        np.array([e]), np.array([s]), tails, [(np.array([up]), np.array([sd])) for up, sd in above]
    )
    expected = by_fractions(e, s, tails, above, count)
    assert expected == (min(int(low[0]), count), max(int(high[0]), count))


def test_quantiles_are_rounded_up() -> None:
    """A quantile rounded down makes every interval too short."""
    assert normal_quantile(Fraction(1, 40)) == 1_959_964
    assert normal_quantile(Fraction(1, 20)) == 1_644_854
    assert normal_quantile(Fraction(1, 200)) == 2_575_830
    assert normal_quantile(Fraction(1, 80)) == 2_241_403
    assert normal_quantile(Fraction(1, 2)) == 0


def test_exact_tables_have_no_width_and_others_hold_the_count(tmp_path: Path) -> None:
    """What is exact by policy has deviation 0, and no count may lie outside the interval beside it."""
    census = asks(solved.make_census(tmp_path, 6), COVERAGE)
    rows = true_rows(census)
    found = intervals_of(census.context, rows, numbers(census, 6))
    plan = census.context.plan
    assert is_exact(plan, plan.query("total"), 0)
    assert not is_exact(plan, plan.query("total"), 1)
    assert not is_exact(plan, plan.query("detailed"), 0)
    for (name, depth), at in found.items():
        count = rows[name, depth].count
        assert ((at.low >= 0) & (at.low <= count) & (count <= at.high)).all()
        assert (at.exact == (at.stddev == 0)).all()
        assert (at.low[at.exact] == count[at.exact]).all()
        assert (at.high[at.exact] == count[at.exact]).all()
        closed = ~census.context.rules.inhabited[depth][rows[name, depth].node]
        assert (at.exact == (closed | (name == "total" and depth == 0))).all()


def test_areas_above_shorten_only_large_tables_of_leaves(tmp_path: Path) -> None:
    """A tail given away for nothing makes the intervals of small tables longer; a parent's bound must hold its leaf."""
    census = asks(solved.make_census(tmp_path, 7), COVERAGE)
    rows = true_rows(census)
    found = intervals_of(census.context, rows, numbers(census, 7))
    shorter = 0
    for (name, depth), at in found.items():
        free = ~at.exact
        low, high = interval_ends(at.estimate, at.stddev, 1 - COVERAGE, [])
        count = rows[name, depth].count
        plain = np.maximum(high, count)[free]
        if depth == 2 and census.context.plan.query(name).n_answers >= 16:
            assert (np.minimum(low, count)[free] >= at.low[free]).all()
            shorter += int((at.high[free] < plain).sum())
        else:
            assert (plain == at.high[free]).all()
    assert shorter > 0


def test_intervals_do_not_depend_on_what_splits_are_fitted_to(tmp_path: Path) -> None:
    """What a level is fitted to for the solver's sake must not change numbers that do not come from it."""
    census = solved.make_census(tmp_path, 8)
    place = {("detailed", 2): (np.arange(3, dtype=np.int64), np.zeros(3, dtype=np.int64))}
    own, tree = (numbers(asks(census, COVERAGE, to), 8).at(place) for to in ("own", "tree"))
    assert own["detailed", 2][0].tolist() == tree["detailed", 2][0].tolist()
    assert own["detailed", 2][1].tolist() == tree["detailed", 2][1].tolist()
    soft = policies.make_census(tmp_path / "soft", 2, policies.FEW)
    check_intervals(asks(soft, COVERAGE).context)


def test_plans_without_a_whole_tree_estimate_are_refused(tmp_path: Path) -> None:
    """Intervals that do not come from the whole tree would be called what they are not."""
    plain = make_context(tmp_path / "geometric", "geometric")
    check_intervals(plain)
    context = asks(solved.Census(plain, ()), COVERAGE).context
    with fails_with("C211", ConfigError, match="the noise is not discrete Gaussian"):
        check_intervals(context)


def test_a_plan_with_intervals_reads_back(tmp_path: Path) -> None:
    """The coverage is part of what is promised, so of the plan and its hash; odd ones are refused."""
    run = solved.toy_run()
    said = '[estimates]\ncoverage = "{}"\n\n[budget]'
    census = solved.make_census(tmp_path, 1, run=run.replace("[budget]", said.format("19/20")))
    plan = census.context.plan
    assert plan.to_document()["estimates"] == {"targets": "own", "coverage": "19/20"}
    assert plan == plan_from_document(plan.to_document())
    for odd in ("1", "0", "1/3"):
        with fails_with("C210", ConfigError):
            solved.make_census(tmp_path, 1, run=run.replace("[budget]", said.format(odd)))


def test_a_plan_foretells_the_deviations_of_its_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever splits the budget by what the plan says must get what it says."""
    run = solved.toy_run().replace("[budget]", '[estimates]\ncoverage = "19/20"\n\n[budget]')
    census = solved.make_census(tmp_path, 9, run=run)
    rows = true_rows(census)
    found = intervals_of(census.context, rows, numbers(census, 9))
    assert main(["plan", str(tmp_path / "run.toml"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    told = document["accuracy"]
    order = list(census.context.geography.level_names)
    for at in told:
        depth = order.index(at["level"])
        inside = census.context.rules.inhabited[depth][rows[at["query"], depth].node]
        mean = found[at["query"], depth].stddev[inside].mean() / 1000
        assert at["stddev"] == pytest.approx(mean, abs=0.0011, rel=1e-3)
        assert at["half_width"] == pytest.approx(1.96 * at["stddev"], rel=1e-3)
    assert len(told) == len(rows)
    assert main(["plan", str(tmp_path / "run.toml")]) == 0
    assert "mean standard deviation" in capsys.readouterr().out


def test_budget_spent_on_exact_numbers_is_named(tmp_path: Path) -> None:
    """A third of the budget can go to a number that is public anyway, and nobody sees it."""
    plan = asks(solved.make_census(tmp_path, 9), COVERAGE).context.plan
    assert spent_on_exact(plan) == []
    land = plan.levels[0]
    wasted = replace(
        land, measurements=(replace(land.measurements[0], query="total"), *land.measurements[1:])
    )
    per_cent = int(100 * land.measurements[0].loss / plan.loss)
    expected = f"{per_cent} % of the budget measures total of level land, which is exact"
    assert [w.text for w in spent_on_exact(replace(plan, levels=(wasted, *plan.levels[1:])))] == [expected]


def test_queries_that_no_pass_fits_are_named(tmp_path: Path) -> None:
    """Budget that brings no table nearer to the truth is spent without a word; where all answers count, it is not."""
    plan = solved.make_census(tmp_path, 9).context.plan
    assert fitted_by_no_pass(plan, []) == []
    level = plan.levels[1]
    left_out = level.passes[-1].queries[0]
    passes = tuple(
        structs.replace(p, queries=tuple(q for q in p.queries if q != left_out)) for p in level.passes
    )
    lazy = replace(plan, levels=(plan.levels[0], replace(level, passes=passes), *plan.levels[2:]))
    (said,) = fitted_by_no_pass(lazy, [])
    assert said.text.startswith(f"{left_out} of level {level.name} is measured")
    assert fitted_by_no_pass(lazy, [EstimateOfLevel(level=level.name, targets="tree", why="")]) == []
