"""The whole descent under every kind of invariant, on random small censuses, and the failsafe."""

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.helpers import policies, solved
from tests.helpers.depth import DEPTH, repeats
from tests.helpers.failing import fails_with
from tests.helpers.solved import solve_answers
from topdown.errors import ConfigError, InfeasibleError, InternalError
from topdown.model import split_polytopes as polytopes
from topdown.solve import release_facts as level_facts
from topdown.solve.implied import plan_verdicts


@pytest.mark.deep
@pytest.mark.parametrize("policy", policies.POLICIES | policies.ONE_OF_EACH)
@given(seed=st.integers(0, 1_000_000), size=st.sampled_from([0.3, 3.0]))
@settings(max_examples=repeats(2, 16), deadline=None)
def test_every_policy_keeps_every_promise(policy: str, seed: int, size: float) -> None:
    """Whatever the noise, every promise holds at every level, all is optimal, and the failsafe rests."""
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, (policies.POLICIES | policies.ONE_OF_EACH)[policy])
        answers = solved.noisy(census, seed + 1, size=size)
        result = policies.solve(census, answers)
    policies.check_promises(census, result.leaves.whole())
    assert result.document.failsafe == []
    for level, verdict in zip(result.document.levels, plan_verdicts(census.context), strict=True):
        assert level.n_unconverged == 0
        assert level.n_roundings_optimal == level.n_roundings
        assert level.level == verdict.level
        assert verdict.kind in ("complete_integral", "complete")
        assert level.n_milp == (0 if verdict.kind == "complete_integral" else level.n_roundings)
        if policy in ("blocks", "counties", "caps", "land dwellings", "county dwellings"):
            assert verdict.kind == "complete_integral"


def test_a_broken_promise_about_rounding_stops_the_solve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the plan promised a flow and the solver takes another way, one of them is wrong: nothing may be published."""
    census = policies.make_census(tmp_path, 1, policies.OLD_AT_HOME)
    said = plan_verdicts(census.context)
    assert "complete" in [v.kind for v in said]
    better = tuple(structs.replace(v, kind="complete_integral") for v in said)
    monkeypatch.setattr(level_facts, "plan_verdicts", lambda _: better)
    with fails_with("X041", InternalError):
        solve_answers(census.context, solved.noisy(census, 2), policies.exact_values(census))


def test_soft_rules_may_leave_the_flow_without_breaking_a_promise(tmp_path: Path) -> None:
    """A rounding that mends a soft rule is an integer program; the promise of a flow was made without soft rules."""
    more = policies.BLOCKS + policies.FEWER_WOMEN
    n_milp = 0
    for seed in range(6):
        census = policies.make_census(tmp_path / str(seed), seed, more)
        answers = solved.noisy(census, seed + 1, size=6.0)
        result = solve_answers(census.context, answers, policies.exact_values(census))
        policies.check_promises(census, result.leaves.whole())
        said = plan_verdicts(census.context)
        assert {v.kind for v in said} == {"complete_integral"}
        assert all("soft rules" in v.sentence for v in said)
        n_milp += sum(level.n_milp for level in result.document.levels)
    assert n_milp > 0


@pytest.mark.parametrize(
    "policy",
    [
        *("blocks", "blocks, caps, nested", "counties, caps, mixed"),
        *("land ages", "county dwellings", "county and land cross"),
    ],
)
def test_without_noise_the_truth_comes_back(policy: str, tmp_path: Path) -> None:
    """Limits that cut into the truth, or an exact table set up wrongly, would show here first."""
    census = policies.make_census(tmp_path, 3, policies.POLICIES[policy])
    result = policies.solve(census, solved.noisy(census, 0, size=0.0))
    truth = census.truth[-1]
    np.testing.assert_array_equal(
        result.leaves.whole().dense(0, truth.n_nodes), truth.dense(0, truth.n_nodes)
    )


@pytest.mark.deep
@given(seed=st.integers(0, 1_000_000))
@settings(max_examples=8 * DEPTH, deadline=None)
def test_without_implied_constraints_the_failsafe_saves_the_release(seed: int) -> None:
    """Tables that cannot be split are changed by the least, reported, and every promise still holds."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        census = policies.make_census(Path(folder), seed, policies.MIXED)
        patch.setattr(polytopes, "MAX_KINDS", 0)
        result = policies.solve(census, solved.noisy(census, seed, size=6.0))
    policies.check_promises(census, result.leaves.whole())
    for use in result.document.failsafe:
        assert use.distance % 2 == 0
        assert use.distance > 0
        assert use.level in ("land", "county")
        assert use.constraints


def test_the_failsafe_is_used_and_names_what_conflicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among many noisy lands one must need the failsafe, or the tests above prove nothing."""
    monkeypatch.setattr(polytopes, "MAX_KINDS", 0)
    uses = []
    for seed in range(40):
        census = policies.make_census(tmp_path / str(seed), seed, policies.MIXED)
        result = policies.solve(census, solved.noisy(census, seed, size=6.0))
        uses += result.document.failsafe
        if any("at least two people per dormitory" in use.constraints for use in uses):
            return
    pytest.fail(f"none of {len(uses)} uses of the failsafe names the bound that it is made for")


def test_one_or_two_workers_report_the_same_failsafe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report must not depend on which worker finished first."""
    monkeypatch.setattr(polytopes, "MAX_KINDS", 0)
    census = policies.make_census(tmp_path, 5, policies.MIXED, n_blocks=50)
    answers, exact = solved.noisy(census, 6, size=8.0), policies.exact_values(census)
    one, two = (solve_answers(census.context, answers, exact, workers=n) for n in (1, 2))
    assert one.document == two.document
    np.testing.assert_array_equal(one.leaves.whole().count, two.leaves.whole().count)


def test_totals_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """Land and blocks both exact must agree; a block's total must suit its public facts."""
    census = policies.make_census(tmp_path, 2, policies.BLOCKS)
    exact = policies.exact_values(census)
    answers = solved.noisy(census, 3)
    with pytest.raises(InfeasibleError) as caught:
        solve_answers(census.context, answers, exact | {"land": exact["land"] + 1})
    assert caught.value.node == "0"
    closed = np.flatnonzero(~census.context.rules.inhabited[-1])
    block = exact["block"].copy()
    block[closed[0] if len(closed) else 0] = 3 if len(closed) else 0
    with fails_with("I013", InfeasibleError):
        solve_answers(census.context, answers, {"block": block})


REFUSED = {  # what no complete split is known for, and the two constraints that must be named
    "totals below": (
        policies.exact("sexes", "county", "sex") + policies.BLOCKS,
        ("'sexes'", "'blocks'"),
    ),
    "a bound across answers": (
        policies.exact("sexes", "county", "sex"),
        ("'at least two people per dormitory'", "'sexes'"),
    ),
    "two tables of one level": (
        policies.exact("sexes", "county", "sex") + policies.exact("ages", "county", "age"),
        ("'sexes'", "'ages'"),
    ),
    "two tables of the root": (
        policies.exact("sexes", "land", "sex") + policies.exact("ages", "land", "age"),
        ("'sexes'", "'ages'"),
    ),
    "a coarser table below": (
        policies.exact("both", "county", "dwelling * sex") + policies.DWELLINGS,
        ("'both'", "'blocks'"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_exact_tables_without_complete_split_are_refused(case: str, tmp_path: Path) -> None:
    """Half enforcing them would be worse; the message must name both constraints."""
    more, names = REFUSED[case]
    with fails_with("C033", ConfigError) as caught:
        policies.make_census(tmp_path, 1, more)
    assert all(name in str(caught.value) for name in names)


@pytest.mark.deep
@pytest.mark.parametrize("passes", ["sex", "age", "dwelling * sex"])
@given(seed=st.integers(0, 1_000_000), size=st.sampled_from([0.3, 3.0]))
@settings(max_examples=5 * DEPTH, deadline=None)
def test_passes_that_cross_exact_tables_keep_them(passes: str, seed: int, size: float) -> None:
    """A pass fixes its own table for the next; the exact one must not get lost between them, at root or county."""
    more = policies.POLICIES["county and land cross"]
    text = solved.toy_run().replace("passes = [", f'passes = [\n  {{ table = "{passes}" }},')
    text = text.replace('{ queries = ["total"], table = "total" },', "")
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, more, run=text)
        result = policies.solve(census, solved.noisy(census, seed + 1, size=size))
    policies.check_promises(census, result.leaves.whole())
    for level in result.document.levels:
        assert level.max_kkt_residual_persons <= 1e-2  # a table fixed to 1e-7 can leave a pass no room
        assert level.n_roundings_optimal == level.n_roundings


def test_exact_tables_that_contradict_are_refused(tmp_path: Path) -> None:
    """Tables of two levels, or a table and public facts, must agree; the place is named before anything is solved."""
    census = policies.make_census(tmp_path, 2, policies.POLICIES["county dwellings x sex"])
    answers, exact, tables = (
        solved.noisy(census, 3),
        policies.exact_values(census),
        policies.exact_tables(census),
    )
    moved = tables["homes"] + np.array([[1, -1, 0]])
    with pytest.raises(InfeasibleError, match="sum of the exact tables below") as caught:
        solve_answers(census.context, answers, exact, tables=tables | {"homes": moved})
    assert (caught.value.code, caught.value.node) == ("I013", "0")
    swapped = tables["both"].copy()
    swapped[1] = swapped[1][[4, 5, 2, 3, 0, 1]]  # everybody at home in barracks, and the other way round
    land = swapped.sum(axis=0).reshape(3, 2).sum(axis=1)[None, :]
    with fails_with("I013", InfeasibleError) as caught:
        solve_answers(census.context, answers, exact, tables={"both": swapped, "homes": land})
    assert caught.value.node is not None


def test_a_root_table_against_the_facts_is_refused(tmp_path: Path) -> None:
    """The root's table may cross bounds; that no records fit both is decided exactly, before least squares."""
    census = policies.make_census(tmp_path, 2, policies.exact("adults", "land", "dwelling * adult"))
    tables = policies.exact_tables(census)
    wrong = tables["adults"].copy()
    wrong[0, 0], wrong[0, 3], wrong[0, 2] = wrong[0].sum() - 1, 1, 0  # one person in dormitories
    wrong[0, [1, 4, 5]] = 0
    with pytest.raises(InfeasibleError) as caught:
        solve_answers(
            census.context, solved.noisy(census, 3), policies.exact_values(census), tables={"adults": wrong}
        )
    assert (caught.value.code, caught.value.node) == ("I013", "0")


@pytest.mark.deep
@given(seed=st.integers(0, 1_000_000))
@settings(max_examples=8 * DEPTH, deadline=None)
def test_the_failsafe_keeps_exact_tables(seed: int) -> None:
    """A repair below a county may not undo what is exact for the county or the land."""
    more = policies.POLICIES["county and land cross"] + policies.MIXED
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        census = policies.make_census(Path(folder), seed, more)
        patch.setattr(polytopes, "MAX_KINDS", 0)
        try:
            result = policies.solve(census, solved.noisy(census, seed, size=6.0))
        except InfeasibleError:  # a plan of so many kinds with exact tables that cross is refused (C074)
            reject()
    policies.check_promises(census, result.leaves.whole())


@pytest.mark.deep
def test_the_failsafe_with_exact_tables_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some repair must be needed, and the exact table be named where it is to blame, or the test above is empty."""
    monkeypatch.setattr(polytopes, "MAX_KINDS", 0)
    uses = []
    for seed in range(10 * DEPTH):
        more = policies.POLICIES["county and land cross"] + policies.MIXED
        census = policies.make_census(tmp_path / str(seed), seed, more)
        with suppress(InfeasibleError):  # refused (C074) outside tests, as above
            uses += policies.solve(census, solved.noisy(census, seed, size=6.0)).document.failsafe
    assert uses
    assert any("both" in use.constraints for use in uses)
