"""Two kinds of noise for the queries of a plan, under one promise: what is certified, and which is better."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.failing import fails_with
from tests.helpers.runs import run_text
from tests.helpers.small_release import make_context
from topdown.app import NoiseCompared, certified_split
from topdown.app.compare_noise import compare_noise
from topdown.errors import ConfigError
from topdown.optimal_noise import worst_delta
from topdown.plan import Base, Plan, prepare
from topdown.privacy.accountant import Composition, FiniteLoss, Mixture, discrete_gaussian_variance

MILLIONTH = Fraction(1, 10**6)
FREE = """\
type = "topdown.invariants"
version = 1
name = "own"
title = "Nothing exact"
schema = "toy"
"""
LEVEL = """\

[[level]]
name = "land"
share = "1"
passes = [{ queries = ["detailed"], table = "detailed" }]
rounding = [{ table = "detailed", weight = 1 }]

[level.queries]
"detailed" = "1"
"""


def plan_of_counts(folder: Path, neighbours: str = "add_remove") -> Plan:
    """Return the plan of one query at one level: one count moves if a record is added."""
    (folder / "leaves.csv").write_text("geocode\n011\n", encoding="utf-8")
    (folder / "own.toml").write_text(FREE, encoding="utf-8")
    text = run_text(
        '[budget]\nrho = "1/10"\n' + LEVEL,
        {"invariants": "own.toml", "settings": "toy", "neighbours": neighbours},
        input={"records": "none.csv", "leaves": "leaves.csv"},
        geography={"levels": ["land"], "prefix_lengths": [3]},
        ledger={"rho_limit": "5"},
    )
    (folder / "run.toml").write_text(text, encoding="utf-8")
    return prepare(folder / "run.toml").context.plan


def parameters(found: NoiseCompared) -> list[Fraction]:
    """Parameters of discrete Gaussian noise, in the plan's order."""
    return [query.gaussian_parameter for query in found.queries]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Eight queries on three levels, a record replaced: sixteen counts."""
    return make_context(tmp_path_factory.mktemp("toy")).plan


@pytest.fixture(scope="module")
def found(toy: Plan) -> NoiseCompared:
    """Both kinds under (1, 10^-6)."""
    return compare_noise(toy, MILLIONTH, Fraction(1))


def test_both_kinds_keep_what_is_said(found: NoiseCompared) -> None:
    """A comparison of noise that keeps less than the other kind would recommend the weaker one."""
    own = Composition.of((variance, 1, 2) for variance in parameters(found))
    assert own.delta(1).upper <= found.gaussian_delta <= MILLIONTH
    assert found.optimal_delta <= MILLIONTH
    assert found.n_counts == 16
    assert found.method == "composed losses"


def test_neither_kind_is_made_wider_than_it_must(found: NoiseCompared) -> None:
    """The kind that is calibrated with slack would look worse than it is."""
    assert found.gaussian_delta > MILLIONTH * Fraction(999, 1000)
    assert found.optimal_delta > MILLIONTH * Fraction(99, 100)


def test_past_the_crossover_gaussian_noise_is_better(found: NoiseCompared) -> None:
    """Sixteen counts at (1, 10^-6): noise with finitely many values has about 1.6 times the variance."""
    assert found.better == "discrete_gaussian"
    assert all(1.5 < float(query.ratio) < 1.7 for query in found.queries)


def test_the_proportions_of_the_plan_are_kept(toy: Plan, found: NoiseCompared) -> None:
    """Noise moved from one query to another would compare two plans."""
    planned = [m.variance for level in toy.levels for m in level.measurements]
    assert len({v / p for v, p in zip(parameters(found), planned, strict=True)}) == 1
    ratios = [float(query.ratio) for query in found.queries]
    assert max(ratios) / min(ratios) < 1.01


def test_one_count_is_the_law_itself(tmp_path: Path) -> None:
    """One count under its own promise: the table's variances, a tenth of the Gaussian one."""
    one = compare_noise(plan_of_counts(tmp_path), MILLIONTH, Fraction(1))
    (query,) = one.queries
    assert (one.n_counts, one.method, one.better) == (1, "sums", "optimal")
    assert (query.epsilon, query.delta) == (1, MILLIONTH)
    assert float(query.optimal_variance) == pytest.approx(1.841100, rel=1e-6)
    assert float(query.gaussian_variance) == pytest.approx(17.899490, rel=1e-4)


def test_a_replaced_record_moves_two_counts(tmp_path: Path) -> None:
    """One count forgotten would halve the noise of both kinds and break the promise."""
    two = compare_noise(plan_of_counts(tmp_path, "bounded"), MILLIONTH, Fraction(1))
    (query,) = two.queries
    assert two.n_counts == 2
    assert float(query.ratio) == pytest.approx(0.22, abs=0.005)
    assert Composition.of([(query.gaussian_parameter, 1, 2)]).delta(1).upper <= MILLIONTH


def test_the_accountant_agrees_on_the_composition() -> None:
    """The bound in whole numbers against the enclosure of every pair of outcomes, for laws as they would be drawn."""
    split = certified_split({Fraction(1): 2}, Fraction(2), Fraction(1, 1000))
    law = split.laws[Fraction(1)]
    assert worst_delta(law.weights, 1, law.ask.promises[0].epsilon) <= law.ask.promises[0].delta
    masses = [law.mass(v) for v in range(law.first, law.last + 1)]
    pairs = tuple(zip([*masses, Fraction(0)], [Fraction(0), *masses], strict=True))
    box = Mixture([(FiniteLoss(pairs), 2)]).delta(2)
    assert box.lower <= split.delta
    assert box.upper <= Fraction(1, 1000)


def test_little_noise_is_compared_by_its_variance(toy: Plan) -> None:
    """At a large epsilon discrete Gaussian noise is mostly 0: its parameter would make it look ten times as wide."""
    much = compare_noise(toy, MILLIONTH, Fraction(60))
    for query in much.queries:
        true = discrete_gaussian_variance(query.gaussian_parameter)
        assert query.gaussian_variance == true.lower
        assert query.ratio >= query.optimal_variance / true.upper
    assert min(query.gaussian_variance / query.gaussian_parameter for query in much.queries) < Fraction(9, 10)


def test_without_an_epsilon_the_plan_gives_it(toy: Plan) -> None:
    """The plan's own noise is then one of the two kinds, unchanged."""
    own = compare_noise(toy, Fraction(1, 10**5))
    assert parameters(own) == [m.variance for level in toy.levels for m in level.measurements]
    exact = Composition.of((m.variance, 1, 2) for level in toy.levels for m in level.measurements)
    assert exact.epsilon(Fraction(1, 10**5)).upper <= own.epsilon
    assert float(own.epsilon) == pytest.approx(float(exact.epsilon(Fraction(1, 10**5)).upper), rel=1e-5)


def test_a_plan_of_geometric_noise_gives_its_epsilon(tmp_path: Path) -> None:
    """Its epsilon holds at every delta; Gaussian noise is then scaled to it."""
    plan = make_context(tmp_path, "geometric").plan
    other = compare_noise(plan, MILLIONTH)
    assert other.epsilon == plan.loss
    own = Composition.of((variance, 1, 2) for variance in parameters(other))
    assert own.delta(plan.loss).upper <= MILLIONTH
    planned = [2 * m.parameter**2 for level in plan.levels for m in level.measurements]
    assert len({v / p for v, p in zip(parameters(other), planned, strict=True)}) == 1


def test_an_extension_is_refused(toy: Plan) -> None:
    """The release that is extended measured the same records: its noise would be left out of the promise."""
    base = Base("b", "0" * 64, "0" * 64, "0" * 64, (), (1, 1, 1))
    with fails_with("C005", ConfigError):
        compare_noise(replace(toy, base=base), MILLIONTH, Fraction(1))


@pytest.mark.parametrize(
    ("delta", "epsilon", "code"),
    [
        (Fraction(0), None, "C152"),
        (Fraction(1, 10**13), Fraction(1), "C152"),
        (Fraction(1, 500), None, "C154"),
        (MILLIONTH, Fraction(0), "C151"),
        (MILLIONTH, Fraction(101), "C151"),
        (MILLIONTH, Fraction(1, 10**300), "C151"),
        (MILLIONTH, Fraction(1, 1000), "C152"),
    ],
)
def test_refusals(toy: Plan, delta: Fraction, epsilon: Fraction | None, code: str) -> None:
    """A large delta gives exact answers away; numbers out of reach must not hang or crash."""
    with fails_with(code, ConfigError):
        compare_noise(toy, delta, epsilon)
