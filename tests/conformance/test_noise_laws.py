"""Every noise law means the same to whoever plans, draws, shows, audits or checks it."""

import math
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from topdown.formats import LawName, Mechanism, Neighbours
from topdown.measure import noise_law
from topdown.model import Attribute, Schema, parse_query
from topdown.plan import MeasurementPlan, count_weights
from topdown.practice import LikelihoodRatios, PairAnswers
from topdown.privacy import (
    RELATIONS,
    AesBits,
    Claim,
    Measurement,
    Relation,
    Sampler,
    SimulationBits,
    draw_one,
    protected_attributes,
    stated_changes,
)
from topdown.privacy import laws as privacy_laws
from topdown.privacy.accountant import NoisyCounts, compose_noise
from topdown.privacy.laws import LAWS, NoiseLaw, WeightedInteger, law_of_mechanism
from topdown.verify import DrawnNoise, MovedCounts, law_problem, loss_of, loss_of_laws, noise_laws

PARAMETER = Fraction(9, 2)
SCHEMA = Schema("s", "", "person", (Attribute("a", ("x", "y"), ()), Attribute("b", ("u", "v"), ())))
EPSILON, DELTA = Fraction(1, 2), Fraction(1, 1000)
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def measured(law: NoiseLaw) -> MeasurementPlan:
    """Return a measurement of one count with noise of this law."""
    plain = MeasurementPlan("total", 1, Fraction(1), Fraction(1), law.name, PARAMETER)
    if not law.has_delta:
        return plain
    weights = count_weights(law, EPSILON, DELTA)
    return replace(plain, loss=2 * EPSILON, parameter=EPSILON, delta=2 * DELTA, weights=weights)


def energy_of(law: NoiseLaw, k: int) -> float:
    """Return -log of pmf(k), up to a constant."""
    found = noise_law(measured(law))
    if isinstance(found, WeightedInteger):
        return -math.log(found.mass(k)) if found.mass(k) else math.inf
    return float(found.energy(k))


@each_law
def test_noise_is_drawn_as_it_is_planned(law: NoiseLaw) -> None:
    """A law drawn in the place of another would have another variance, and another loss than was charged."""
    assert law_of_mechanism(law.mechanism) is law
    plan, found = measured(law), noise_law(measured(law))
    outcomes = range(-found.half_width(60), found.half_width(60) + 1)
    variance = sum(float(found.pmf(k, 60)[0]) * k * k for k in outcomes)
    assert float(plan.variance) == pytest.approx(variance, abs=1e-6 if law.has_delta else 1 / 6)
    assert plan.stddev**2 == pytest.approx(variance, rel=1e-6)
    assert len(Sampler(found, AesBits()).draw(3)) == 3
    bits = SimulationBits(1)  # one by one, as what is too wide for a table
    slow = np.array([draw_one(found, bits) for _ in range(4000)], dtype=float)
    assert float(np.mean(slow**2)) == pytest.approx(variance, rel=0.2)


@each_law
def test_the_loss_is_that_of_the_drawn_law(law: NoiseLaw) -> None:
    """Verify must find the loss that was planned, by its own lines; for pure laws it is the largest log-odds."""
    plan = measured(law)
    told = Measurement(
        0, "land", "total", frozenset(), plan.parameter, law.name, plan.count_delta, plan.whole_weights
    )
    known = noise_laws.LAWS[law.name]
    assert known.variance(plan.parameter, plan.weights) == plan.variance
    assert (known.mechanism, known.loss_name) == (law.mechanism, law.loss_name)
    assert known.composed_as == law.composed_as  # else what a ledger holds is composed by another engine
    for moved in ((1, 1), (2, 2), (6, 18)):
        assert known.parameter(Fraction(3, 7), *moved) == law.calibrated(Fraction(3, 7), *moved)
    for shift, counts in ((1, 2), (3, 1)):
        if law.has_delta and shift > 1:
            with pytest.raises(ValueError, match="move by 1"):
                law.loss(plan.parameter, shift, counts)
            continue
        loss = law.loss(plan.parameter, shift, counts)
        line = DrawnNoise(
            law=law.name,
            parameter=str(plan.parameter),
            shift=shift,
            coordinates=counts,
            weights=plan.weights,
            level="land",
            query="total",
            attributes=(),
            delta=str(plan.count_delta),
        )
        assert loss == line.loss
        assert line.is_sound
        assert counts * plan.count_delta == line.delta_loss
        moved = MovedCounts(plan.parameter, shift, counts, plan.count_delta)
        checked = loss_of(law.name, [moved])
        assert loss == (checked.rho if law.loss_name == "rho" else checked.epsilon("0").lower)
        stated = protected_attributes(
            [told], [Claim("presence" if counts == 1 else "everything", "", "protected")]
        )[0].loss
        if law.loss_name == "epsilon":
            assert stated.epsilon == law.loss(plan.parameter, 1, counts)
        assert checked.delta == (counts * DELTA if law.has_delta else None)
        if law.loss_name == "epsilon":
            energy = noise_law(plan).energy
            assert loss == counts * max(energy(k) - energy(k - shift) for k in range(50))


@each_law
def test_a_law_keeps_the_delta_that_is_charged(law: NoiseLaw) -> None:
    """Summed by hand, the worst event exceeds e^epsilon times its twin by the charged delta, and not by far less."""
    plan = measured(law)
    if not law.has_delta:
        assert plan.count_delta == 0
        return
    found, known = noise_law(plan), noise_laws.LAWS[law.name]
    assert law_problem(plan.weights, EPSILON, DELTA, known.is_due) == ""
    assert law_problem(plan.weights, EPSILON / 2, DELTA, known.is_due)
    assert law_problem(
        plan.weights, EPSILON, 2 * DELTA, known.is_due
    )  # more private than charged: another law
    less = DELTA * Fraction(99, 100)  # whatever the law is, by its weights alone
    assert law_problem(plan.weights, EPSILON, less, lambda *_: True) == "does not keep its delta"
    line = [found.mass(k) / 2**128 for k in range(-60, 61)]
    needed = sum(max(p - math.exp(EPSILON) * q, 0) for p, q in zip(line[1:], line, strict=False))
    assert DELTA / 2 < needed <= DELTA * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("name", LAWS)
def test_the_audit_knows_the_likelihood_ratio(name: LawName) -> None:
    """An audit by another ratio would not find the attack that the claim is about."""
    law, truth = LAWS[name], (4, 6)
    reach = 8 if law.has_delta else 9
    runs = np.arange(6 - reach, 4 + reach + 1, dtype=np.int32)[:, None]
    answers = PairAnswers(
        ((0, 0),),
        np.array([[t] for t in truth]),
        np.array([float(PARAMETER)]),
        (measured(law).whole_weights,),
    )
    found = LikelihoodRatios(answers, name, (None,)).of(runs)[0]
    expected = [energy_of(law, int(x) - truth[0]) - energy_of(law, int(x) - truth[1]) for x in runs[:, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_what_a_law_never_gives_tells_the_data_sets_apart() -> None:
    """A value that only one of two data sets can give is an event of probability below delta that proves it."""
    answers = PairAnswers(
        ((0, 0),), np.array([[4], [5]]), np.array([0.5]), (measured(LAWS["optimal_integer"]).whole_weights,)
    )
    last = len(answers.weights[0]) - 1
    runs = np.array([[4 - last], [5 + last]], dtype=np.int32)
    found = LikelihoodRatios(answers, "optimal_integer", (None,)).of(runs)[0]
    assert found[0] < -900
    assert found[1] > 900


def test_every_file_of_laws_is_held_to_this() -> None:
    """A law in a file that `LAWS` does not have would be charged by nobody and tested by nobody."""
    found = set()
    for file in Path(privacy_laws.__file__).parent.glob("*.py"):
        module = import_module(f"topdown.privacy.laws.{file.stem}")
        found |= {one.name for one in vars(module).values() if isinstance(one, NoiseLaw)}
    assert found == set(LAWS) == set(get_args(LawName)) == set(noise_laws.LAWS)
    assert {law.mechanism for law in LAWS.values()} == set(get_args(Mechanism))


@each_law
def test_what_composes_a_law_fits_its_loss(law: NoiseLaw) -> None:
    """A ledger adds up losses of one name: an engine for another would make it state what nobody charged."""
    due = {"rho": {"gaussian"}, "epsilon": {"geometric", "bound"}, "epsilon_delta": {"weights"}}
    assert law.composed_as in due[law.loss_name]
    assert law.weights is None or law.has_delta


def test_a_composition_of_two_laws_is_between_nothing_and_their_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Noise of which only epsilon is known must not be composed as if it were geometric: that promised too much."""
    plain, known = LAWS["two_sided_geometric"], noise_laws.LAWS["two_sided_geometric"]
    monkeypatch.setitem(LAWS, "other", replace(plain, name="other", composed_as="bound"))
    monkeypatch.setitem(noise_laws.LAWS, "other", replace(known, name="other", composed_as="bound"))
    rows = [NoisyCounts(name, PARAMETER, 2) for name in (plain.name, "other")]
    loss = compose_noise(rows, "epsilon")
    own = loss_of_laws("epsilon", [(m.law, MovedCounts(m.parameter, m.shift, m.count)) for m in rows])
    assert loss.epsilon == own.epsilon("0").upper == 4 / PARAMETER
    odds = math.exp(4 / PARAMETER)
    for guess in (loss.best_guess(), own.guess):
        assert guess.lower == Fraction(1, 2)
        assert float(guess.upper) == pytest.approx(odds / (1 + odds))
    assert (
        compose_noise(rows[:1], "epsilon").best_guess().upper
        < compose_noise(rows[1:], "epsilon").best_guess().upper
    )
    with pytest.raises(ValueError, match="does not add up"):
        compose_noise(rows, "rho")


@each_law
def test_a_law_has_the_distribution_that_it_plans(law: NoiseLaw) -> None:
    """The parameter in a plan must be the parameter of what is drawn."""
    plan = measured(law)
    drawn = law.distribution(plan.parameter, plan.whole_weights)
    assert drawn == noise_law(plan)
    assert not drawn.is_too_wide
    low, high = drawn.cdf(0, 60)
    at_zero = drawn.pmf(0, 60)[0]
    assert float(low) == pytest.approx(float(high)) == pytest.approx((1 + float(at_zero)) / 2)


@pytest.mark.parametrize("name", RELATIONS)
def test_verify_knows_what_neighbours_change(name: str) -> None:
    """Verify derives sensitivity, charge and rows by its own lines: with another relation they would pass unseen."""
    assert list(noise_laws.RELATIONS) == list(RELATIONS) == list(get_args(Neighbours))
    mine, own = Relation.named(name), noise_laws.RELATIONS[name]
    query = parse_query(SCHEMA, "a")
    assert own.shifts == mine.shifts
    assert (own.l1, own.l2_squared) == (mine.l1_sensitivity(query), mine.l2_sensitivity_squared(query))
    assert own.needs == mine.made_of
    assert own.stated == tuple((c.kind, c.neighbours) for c in stated_changes(name, "person"))
    for rate, base in ((Fraction(1, 3), Fraction(2)), (Fraction(9, 10), Fraction(11, 10))):
        assert own.sampled_odds(rate, base) == mine.sampled_odds(rate, base)
