"""Events are data; what an accountant does not know it refuses."""

from dataclasses import dataclass
from fractions import Fraction

import mpmath
import pytest

from tests.helpers.compositions import weighted
from topdown.errors import ConfigError
from topdown.privacy.accountant import (
    ComposedEvent,
    DiscreteGaussianEvent,
    FiniteLoss,
    Geometric,
    Mixture,
    PureDP,
    ReleaseEvent,
    Repeated,
    flatten,
)


def brute(loss_tables: list[dict], epsilon: float) -> float:
    """Delta by enumerating every combination of losses (50 digits)."""
    with mpmath.workdps(50):
        total = {mpmath.mpf(0): mpmath.mpf(1)}
        for table in loss_tables:
            wider: dict = {}
            for a, p in total.items():
                for b, q in table.items():
                    wider[a + b] = wider.get(a + b, mpmath.mpf(0)) + p * q
            total = wider
        return float(mpmath.fsum(p * -mpmath.expm1(epsilon - s) for s, p in total.items() if s > epsilon))


def geometric_losses(rate: Fraction, shift: int) -> dict:
    with mpmath.workdps(50):
        a, out = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator), {}
        for x in range(-600, 600):
            loss = mpmath.mpf(rate.numerator * (abs(x - shift) - abs(x))) / rate.denominator
            out[loss] = out.get(loss, mpmath.mpf(0)) + (1 - a) / (1 + a) * a ** abs(x)
        return out


def gaussian_losses(variance: int) -> dict:
    with mpmath.workdps(50):
        weights = {x: mpmath.exp(-mpmath.mpf(x * x) / (2 * variance)) for x in range(-60, 61)}
        norm = mpmath.fsum(weights.values())
        return {(mpmath.mpf(x) + mpmath.mpf(1) / 2) / variance: w / norm for x, w in weights.items()}


def inside(box, value: float) -> bool:
    return float(box.lower) * (1 - 1e-15) <= value <= float(box.upper) * (1 + 1e-15)


@pytest.mark.parametrize("shift", [1, 2, 5])
def test_geometric_losses(shift):
    """The k + 1 losses of a shift by k and their probabilities, against the pmf itself."""
    box = Mixture(Repeated(Geometric(Fraction(1, 3), shift), 3))
    for epsilon in (0.0, 0.7, 1.5):
        assert inside(box.delta(epsilon), brute([geometric_losses(Fraction(1, 3), shift)] * 3, epsilon))


def test_mixture_of_everything_with_a_loss():
    """Geometric, pure-DP and Gaussian events together, against plain enumeration."""
    event = ComposedEvent(
        (Geometric(Fraction(1, 2), 2), PureDP(Fraction(2)), Repeated(DiscreteGaussianEvent(Fraction(3)), 2))
    )
    response = {mpmath.log(2): mpmath.mpf(2) / 3, -mpmath.log(2): mpmath.mpf(1) / 3}
    tables = [geometric_losses(Fraction(1, 2), 2), response, gaussian_losses(3), gaussian_losses(3)]
    mixture = Mixture(event)
    for epsilon in (0.0, 1.0, 3.0):
        box = mixture.delta(epsilon)
        assert inside(box, brute(tables, epsilon))
        assert box.relative_width < 1e-11
    target = mixture.delta(2)
    assert (
        Fraction(2) in mixture.epsilon(target.upper) or abs(float(mixture.epsilon(target.upper)) - 2) < 1e-10
    )


def test_gaussian_events_alone_are_a_composition():
    """Two roads to the same law must give overlapping enclosures."""
    mixture = Mixture(Repeated(DiscreteGaussianEvent(Fraction(10)), 10))
    one, two = mixture.delta(3), weighted({"1/10": 10}).delta(3)
    assert one.lower <= two.upper
    assert two.lower <= one.upper


def test_finite_loss_takes_the_worse_direction():
    """An output only one neighbour can give costs delta whichever neighbour it is."""
    event = FiniteLoss(((Fraction(0), Fraction(1, 10)), (Fraction(1), Fraction(9, 10))))
    swapped = FiniteLoss(tuple((q, p) for p, q in event.outcomes))
    for e in (event, swapped):
        box = Mixture(e).delta(1)
        assert Fraction(1, 10) in box
        with pytest.raises(ConfigError, match="no epsilon has this delta"):
            Mixture(e).epsilon("1/20")


def test_unknown_event_is_refused():
    """An event that is skipped is a leak that is not counted."""

    @dataclass(frozen=True)
    class Other:
        rho: Fraction = Fraction(1)

    with pytest.raises(TypeError, match="unknown privacy event"):
        flatten(ComposedEvent((PureDP(Fraction(3)), Other())))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiscreteGaussianEvent(0.5),  # type: ignore[arg-type]
        lambda: DiscreteGaussianEvent(Fraction(-1)),
        lambda: DiscreteGaussianEvent(Fraction(1), 1.0),  # type: ignore[arg-type]
        lambda: Geometric(Fraction(0)),
        lambda: Geometric(Fraction(1), -1),
        lambda: PureDP(Fraction(1)),
        lambda: FiniteLoss(((Fraction(1, 2), Fraction(1)),)),
        lambda: Repeated(PureDP(Fraction(2)), -1),
        lambda: ReleaseEvent("unbounded", PureDP(Fraction(2))),  # type: ignore[arg-type]
    ],
)
def test_events_check_themselves(make):
    """Each constructor must refuse what its docstring excludes."""
    with pytest.raises((TypeError, ValueError)):
        make()


def test_too_many_losses_are_refused():
    """Incommensurable rates multiply; the refusal must come before the memory is gone."""
    rates = [Geometric(Fraction(1, p)) for p in (101, 103, 107, 109, 113)]
    with pytest.raises(ConfigError, match="distinct losses"):
        Mixture(ComposedEvent(tuple(Repeated(r, 7) for r in rates)))
