"""The whole descent under every kind of invariant, on random small censuses, and the failsafe."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import policies, solved
from topdown.errors import ConfigError, InfeasibleError, InternalError
from topdown.solve import descend, regions
from topdown.solve.implied.classify import plan_verdicts
from topdown.solve.solve import solve


@pytest.mark.parametrize("policy", policies.POLICIES)
@given(seed=st.integers(0, 1_000_000), size=st.sampled_from([0.3, 3.0]))
@settings(max_examples=12, deadline=None)
def test_every_policy_keeps_every_promise(policy: str, seed: int, size: float) -> None:
    """Whatever the noise, every promise holds at every level, all is optimal, and the failsafe rests."""
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, policies.POLICIES[policy])
        answers = solved.noisy(census, seed + 1, size=size)
        exact, tables = policies.exact_values(census), policies.exact_tables(census)
        result = solve(census.context, answers, exact, tables=tables)
    policies.check_promises(census, result.leaves)
    assert result.document["failsafe"] == []
    for level, verdict in zip(result.document["levels"], plan_verdicts(census.context), strict=True):
        assert level["n_unconverged"] == 0
        assert level["n_roundings_optimal"] == level["n_roundings"]
        assert level["level"] == verdict.level
        assert verdict.kind in ("complete_integral", "complete")
        assert level["n_milp"] == (0 if verdict.kind == "complete_integral" else level["n_roundings"])
        if policy in ("blocks", "counties", "caps"):
            assert verdict.kind == "complete_integral"


def test_a_broken_promise_about_rounding_stops_the_solve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the plan promised a flow and the solver takes another way, one of them is wrong: nothing may be published."""
    census = policies.make_census(tmp_path, 1, policies.OLD_AT_HOME)
    said = plan_verdicts(census.context)
    assert "complete" in [v.kind for v in said]
    better = tuple(replace(v, kind="complete_integral") for v in said)
    monkeypatch.setattr(descend, "plan_verdicts", lambda _: better)
    with pytest.raises(InternalError) as caught:
        solve(census.context, solved.noisy(census, 2), policies.exact_values(census))
    assert caught.value.code == "X041"


@pytest.mark.parametrize("policy", ["blocks", "blocks, caps, nested", "counties, caps, mixed"])
def test_without_noise_the_truth_comes_back(policy: str, tmp_path: Path) -> None:
    """Limits that cut into the truth would show here first."""
    census = policies.make_census(tmp_path, 3, policies.POLICIES[policy])
    result = solve(census.context, solved.noisy(census, 0, size=0.0), policies.exact_values(census))
    truth = census.truth[-1]
    np.testing.assert_array_equal(result.leaves.dense(0, truth.n_nodes), truth.dense(0, truth.n_nodes))


@given(seed=st.integers(0, 1_000_000))
@settings(max_examples=25, deadline=None)
def test_without_implied_constraints_the_failsafe_saves_the_release(seed: int) -> None:
    """Tables that cannot be split are changed by the least, reported, and every promise still holds."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        census = policies.make_census(Path(folder), seed, policies.MIXED)
        patch.setattr(regions, "MAX_KINDS", 0)
        result = solve(census.context, solved.noisy(census, seed, size=6.0), policies.exact_values(census))
    policies.check_promises(census, result.leaves)
    for use in result.document["failsafe"]:
        assert use["distance"] % 2 == 0
        assert use["distance"] > 0
        assert use["level"] in ("land", "county")
        assert use["constraints"]


def test_the_failsafe_is_used_and_names_what_conflicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among many noisy lands one must need the failsafe, or the tests above prove nothing."""
    monkeypatch.setattr(regions, "MAX_KINDS", 0)
    uses = []
    for seed in range(40):
        census = policies.make_census(tmp_path / str(seed), seed, policies.MIXED)
        result = solve(census.context, solved.noisy(census, seed, size=6.0), policies.exact_values(census))
        uses += result.document["failsafe"]
    assert uses
    assert any("at least two people per dormitory" in use["constraints"] for use in uses)


def test_one_or_two_workers_report_the_same_failsafe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report must not depend on which worker finished first."""
    monkeypatch.setattr(regions, "MAX_KINDS", 0)
    census = policies.make_census(tmp_path, 5, policies.MIXED, n_blocks=50)
    answers, exact = solved.noisy(census, 6, size=8.0), policies.exact_values(census)
    one, two = (solve(census.context, answers, exact, workers=n) for n in (1, 2))
    assert one.document == two.document
    np.testing.assert_array_equal(one.leaves.count, two.leaves.count)


def test_an_impossible_block_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """People demanded where nobody may live: the plan must name the block and the constraints."""
    shut = policies.MIXED.replace('columns = ["homes"]', 'columns = ["barracks"]')
    more = policies.WOMEN + shut
    with pytest.raises(InfeasibleError) as caught:
        policies.make_census(tmp_path, 1, more, n_blocks=40)
    assert caught.value.code == "I014"
    assert caught.value.node is not None
    assert ("constraint", "at least one woman in each dormitory") in caught.value.details


def test_totals_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """Land and blocks both exact must agree; a block's total must suit its public facts."""
    census = policies.make_census(tmp_path, 2, policies.BLOCKS)
    exact = policies.exact_values(census)
    answers = solved.noisy(census, 3)
    with pytest.raises(InfeasibleError) as caught:
        solve(census.context, answers, exact | {"land": exact["land"] + 1})
    assert caught.value.node == "0"
    closed = np.flatnonzero(~census.context.rules.inhabited[-1])
    block = exact["block"].copy()
    block[closed[0] if len(closed) else 0] = 3 if len(closed) else 0
    with pytest.raises(InfeasibleError) as caught:
        solve(census.context, answers, {"block": block})
    assert caught.value.code == "I013"


def test_crossing_bounds_are_refused(tmp_path: Path) -> None:
    """Bounds that overlap without nesting are not a flow and have no complete limits; say so before the noise."""
    men = policies.OLD_AT_HOME.replace('dwelling = ["home"], age = ["65_plus"]', 'sex = ["male"]')
    with pytest.raises(ConfigError) as caught:
        policies.make_census(tmp_path, 1, policies.OLD_AT_HOME + men)
    assert caught.value.code == "C073"


def test_exact_tables_that_are_not_supported_are_refused(tmp_path: Path) -> None:
    """Margins above the leaves, and those that cross bounds, must be refused: half enforcing them would be worse."""
    with pytest.raises(ConfigError) as caught:
        policies.make_census(tmp_path, 1, policies.COUNTIES.replace('"total"', '"sex"'))
    assert caught.value.code == "C033"
    with pytest.raises(ConfigError) as caught:
        policies.make_census(tmp_path, 1, policies.BLOCKS.replace('"total"', '"sex"'))
    assert caught.value.code == "C073"
