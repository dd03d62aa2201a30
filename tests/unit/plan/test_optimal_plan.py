"""Plans of mechanism "optimal": shares split epsilon and delta exactly, and each query has the law it pays for."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.failing import fails_with
from tests.helpers.small_release import LEAVES, make_context, run_file
from topdown.errors import TopdownError
from topdown.plan import Plan, optimal_weights, plan_from_document, prepare
from topdown.verify import UNIT, delta_needed

OPTIMAL = run_file(mechanism="optimal")


def planned(folder: Path, text: str) -> Plan:
    """Return the plan of a run file of the toy land."""
    (folder / "leaves.csv").write_text(LEAVES, encoding="utf-8")
    (folder / "run.toml").write_text(text, encoding="utf-8")
    return prepare(folder / "run.toml").context.plan


@pytest.mark.parametrize(("neighbours", "moved"), [("bounded", 2), ("add_remove", 1)])
def test_shares_split_epsilon_and_delta_exactly(tmp_path, neighbours, moved):
    """A sum of parts that is not the whole would charge another promise than the one approved."""
    invariants = (
        "" if neighbours == "bounded" else _without_exact()
    )  # a total that is exact leaves nobody to add
    plan = make_context(tmp_path, "optimal", neighbours=neighbours, invariants=invariants).plan
    every = [m for level in plan.levels for m in level.measurements]
    assert (Fraction(4), Fraction(1, 100_000)) == (plan.loss, plan.delta_of(plan.loss))
    assert (Fraction(4), Fraction(1, 100_000)) == (sum(m.loss for m in every), sum(m.delta for m in every))
    for m in every:
        assert m.loss == moved * m.parameter
        assert m.delta == moved * m.count_delta
        assert m.loss * plan.delta == m.delta * plan.budget


def _without_exact() -> str:
    from tests.helpers.policies import inexact_toy

    return inexact_toy()


def test_every_law_keeps_its_promise_and_no_larger_one_would_do(tmp_path):
    """A law that needs more than its delta spends what nobody charged; one that needs less is not the best."""
    for m in (m for level in planned(tmp_path, OPTIMAL).levels for m in level.measurements):
        need = delta_needed(m.whole_weights, m.parameter)
        assert need <= m.count_delta
        assert need > m.count_delta * (1 - Fraction(1, 10**6))
        exact = Fraction(2 * sum(k * k * w for k, w in enumerate(m.whole_weights)), UNIT)
        assert 0 <= m.variance - exact < Fraction(1, 1 << 30)


def test_equal_promises_share_one_law(tmp_path):
    """A plan of fifty queries that solves fifty times would take minutes to look at."""
    optimal_weights.cache_clear()
    plan = planned(tmp_path, OPTIMAL)
    promises = {(m.parameter, m.count_delta) for level in plan.levels for m in level.measurements}
    assert len(promises) == optimal_weights.cache_info().misses
    assert len(promises) < sum(len(level.measurements) for level in plan.levels)


def test_a_plan_is_read_back_with_its_laws(tmp_path):
    """A release whose plan.json loses a weight could not be checked, nor solved again."""
    plan = planned(tmp_path, OPTIMAL)
    document = json.loads(json.dumps(plan.to_document()))
    assert plan == plan_from_document(document)
    assert document["delta"] == "1/100000"
    weights = document["levels"][0]["measurements"][0]["weights"]
    assert 2 * sum(map(int, weights)) - int(weights[0]) == 2**128


def test_other_plans_have_no_such_keys(tmp_path):
    """A new key in old plans would change their hash, and no ledger would know them again."""
    plan = make_context(tmp_path).plan
    text = json.dumps(plan.to_document())
    assert plan.plan_hash == plan_from_document(json.loads(text)).plan_hash
    assert '"delta"' not in text
    assert '"weights"' not in text


@pytest.mark.parametrize(
    ("old", "new", "code", "fix"),
    [
        ('delta = "1/100000"', "delta = 0", "C152", "geometric"),
        ('delta = "1/100000"', 'delta = "1/999"', "C154", "large_delta = true"),
        ('delta = "1/100000"', "delta = 1\nlarge_delta = true", "C154", "smaller"),
        ('delta = "1/100000"', "", "C050", "delta"),
        ('delta = "1/100000"', 'delta = "1/1000000000000"', "C152", "1/1000000"),
        ('epsilon = "4"', 'rho = "4"', "C050", "epsilon"),
        ('delta_limit = "1/50000"', "", "B023", "delta_limit"),
        ('epsilon = "4"', 'epsilon = "1/100000"', "C155", "larger"),
        ('epsilon = "4"', "epsilon = 400", "C151", "10"),
        ('mechanism = "optimal"', 'mechanism = "geometric"', "C050", "only"),
        ('delta = "1/100000"', 'delta = "0,00001"', "C014", "fractions"),
    ],
)
def test_what_cannot_be_promised_is_refused(tmp_path, old, new, code, fix):
    """A budget that no law keeps, or that gives exact answers away, must stop before anything is charged."""
    assert old in OPTIMAL
    with pytest.raises(TopdownError) as caught:
        planned(tmp_path, OPTIMAL.replace(old, new, 1))
    assert (code, 2) == (caught.value.code, caught.value.exit_code)
    assert fix in caught.value.fix


def test_a_large_delta_is_taken_where_it_is_meant(tmp_path):
    """Whoever compares with a paper could not, if there were no way at all."""
    text = OPTIMAL.replace('delta = "1/100000"', 'delta = "1/100"\nlarge_delta = true', 1)
    assert Fraction(1, 100) == planned(tmp_path, text).delta


@pytest.mark.parametrize("key", ["delta", "delta_limit", "large_delta"])
def test_a_delta_of_other_noise_is_refused(tmp_path, key):
    """A delta that nothing keeps would look like a promise."""
    plain = run_file()
    lines = {"delta": 'delta = "1/100000"', "large_delta": "large_delta = true"}
    text = plain.replace('rho = "2"', f'rho = "2"\n{lines.get(key, "")}', 1)
    if key == "delta_limit":
        text = text.replace("[ledger]\n", '[ledger]\ndelta_limit = "1/1000"\n', 1)
    with fails_with("C158" if key == "delta_limit" else "C050"):
        planned(tmp_path, text)
