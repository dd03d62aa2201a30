"""Every noise law means the same to whoever plans, draws, shows, audits or checks it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from topdown.audit_runs.score import LikelihoodRatios
from topdown.audit_runs.stage import PairAnswers
from topdown.laws import LAWS, LawName, NoiseLaw, law_of_mechanism
from topdown.measure.draw import law_of
from topdown.noise import AesBits, Sampler, pmf_interval
from topdown.plan.plan import MeasurementPlan
from topdown.publish.verify import ledger_file
from topdown.publish.verify.privacy import losses
from topdown.screen.figures import stddev

PARAMETER = Fraction(9, 2)
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def drawn(law: NoiseLaw):
    """Return the law that a measurement of this name is drawn from."""
    return law_of(MeasurementPlan("total", 1, Fraction(1), Fraction(1), law.name, PARAMETER))


@each_law
def test_noise_is_drawn_as_it_is_planned(law: NoiseLaw) -> None:
    """A law drawn in the place of another would have another variance, and another loss than was charged."""
    assert law_of_mechanism(law.mechanism) is law
    found = drawn(law)
    outcomes = range(-found.half_width(60), found.half_width(60) + 1)
    variance = sum(float(pmf_interval(found, k, 60)[0]) * k * k for k in outcomes)
    assert float(law.variance(PARAMETER)) == pytest.approx(variance, abs=1 / 6)
    assert stddev(law.name, PARAMETER) ** 2 == pytest.approx(variance, rel=1e-6)
    assert len(Sampler(found, AesBits()).draw(3)) == 3


@each_law
def test_the_loss_is_that_of_the_drawn_law(law: NoiseLaw) -> None:
    """Verify must find the loss that was planned, by its own lines; for pure laws it is the largest log-odds."""
    for shift, counts in ((1, 2), (3, 1)):
        loss = law.loss(PARAMETER, shift, counts)
        line = ledger_file.Law(
            law=law.name,
            parameter="9/2",
            shift=shift,
            coordinates=counts,
            level="land",
            query="total",
            attributes=(),
        )
        assert loss == line.loss
        checked = losses.loss_of(law.name, [(PARAMETER, shift, counts)])
        assert loss == (checked.rho if law.loss_name == "rho" else checked.epsilon("0").lower)
        if law.loss_name == "epsilon":
            energy = drawn(law).energy
            assert loss == counts * max(energy(k) - energy(k - shift) for k in range(50))


@pytest.mark.parametrize("name", LAWS)
def test_the_audit_knows_the_likelihood_ratio(name: LawName) -> None:
    """An audit by another ratio would not find the attack that the claim is about."""
    energy, truth = drawn(LAWS[name]).energy, (4, 6)
    runs = np.arange(-9, 20, dtype=np.int32)[:, None]
    answers = PairAnswers(((0, 0),), np.array([[t] for t in truth]), np.array([float(PARAMETER)]))
    found = LikelihoodRatios(answers, name, (None,)).of(runs)[0]
    expected = [float(energy(int(x) - truth[0]) - energy(int(x) - truth[1])) for x in runs[:, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-12)
