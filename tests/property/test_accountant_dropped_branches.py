"""What an engine leaves out of the characteristic function must be inside its bound, however often it is multiplied."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from topdown.privacy.accountant import (
    BallQuadrature,
    Composition,
    Quadrature,
    ends,
    precision,
    quotient,
    tilted,
)

# a branch of exactly e**-46, the level below which float64 writes none down, belongs to variance 2.3304
NEAR_THE_LEVEL = st.integers(2300, 2500).map(lambda n: Fraction(n, 1000))


def case_of(variance: Fraction, count: int) -> Composition:
    """Return `count` coordinates of one variance."""
    return Composition.of([(variance, 1, count)])


def written_out(variance: Fraction, count: int, turns: Fraction, theta: Fraction) -> mpmath.mpc:
    """Return the tilted characteristic function with every branch to 60 digits, as a sum over all of them."""
    v, tau, tilt = (mpmath.mpf(x.numerator) / x.denominator for x in (variance, turns, theta))
    orders = range(-12, 13)
    branches = (
        mpmath.exp(-2 * mpmath.pi**2 * v * (tau - j) ** 2 + 2j * mpmath.pi * tilt * (tau - j)) for j in orders
    )
    norm = mpmath.fsum(mpmath.exp(-2 * mpmath.pi**2 * v * j * j) for j in orders)
    return (mpmath.fsum(branches) / norm) ** count


@settings(max_examples=8, deadline=None)
@given(NEAR_THE_LEVEL, st.integers(10**5, 10**8), st.fractions(0, 1, max_denominator=50))
@example(Fraction(117, 50), 23_400_000, Fraction(1, 2))
@example(Fraction(117, 50), 10_000_000, Fraction(1, 2))
def test_float64_holds_what_many_coordinates_make_of_a_dropped_branch(variance, count, share):
    """One branch of e**-46 left out 2.34e7 times put the upper bound 3e-13 below the truth."""
    case = case_of(variance, count)
    epsilon = case.rho + (5 + 4 * share) * Fraction(case.mu).limit_denominator(1000)
    (box,), (ball,) = (case.curve([epsilon], engine=name) for name in ("float64", "ball"))
    assert box.lower <= ball.lower
    assert ball.upper <= box.upper


@settings(max_examples=20, deadline=None)
@given(NEAR_THE_LEVEL, st.integers(1, 10**9), st.fractions(0, 2, max_denominator=64))
def test_spectrum_holds_every_branch(variance, count, theta):
    """All float64 engines (lattice, free of it, transform) multiply this spectrum and its bound."""
    engine = Quadrature(case_of(variance, count).law)
    spectrum, window = engine.spectrum, engine.window
    modulus, phase = tilted(spectrum, np.array([float(theta)]))
    (ratio,) = window.ratios
    with mpmath.workdps(60):
        for i in range(0, len(modulus.T), max(1, len(modulus.T) // 4)):
            turns = ratio * int(window.index[i]) % 1
            truth = written_out(variance, count, turns - (turns > Fraction(1, 2)), theta)
            angle = float(theta) * spectrum.drift[i] + (0.0 if phase is None else phase[0, i])
            found = modulus.T[i].item() * mpmath.expj(float(angle))
            load = 90 + 16 * spectrum.energy[i] + 12 * spectrum.branch_load[i]
            load += 16 * float(theta) * spectrum.travel[i]
            assert abs(found - truth) <= spectrum.size[i] * (spectrum.unseen[i] + 2.0**-53 * load)


@pytest.mark.parametrize("thousandths", [3460, 3500, 3540])
@pytest.mark.parametrize("theta", [Fraction(1, 7), Fraction(3, 8)])
def test_balls_hold_every_branch(thousandths, theta):
    """A left-out branch turns a term as well as stretching it; a real factor cannot hold a turned one."""
    variance, count = Fraction(thousandths, 1000), 10**9
    engine = BallQuadrature(case_of(variance, count).law, 6)
    (ratio,) = engine.window.ratios
    nodes = [n for n, *_ in engine._nodes]
    with precision(engine.bits) as flint, mpmath.workdps(60):
        for n in nodes[1 :: len(nodes) // 3]:
            turns = ratio * n % 1
            turns -= turns > Fraction(1, 2)
            back = theta * count * turns + Fraction(1, 4)  # the main branch is purely imaginary
            found = engine._term(flint, n, quotient(flint, theta), quotient(flint, back))
            angle = 2 * mpmath.pi * mpmath.mpf(back.numerator) / back.denominator
            truth = written_out(variance, count, turns, theta) * mpmath.expj(-angle)
            for part, exact in ((found.real, truth.real), (found.imag, truth.imag)):
                low, high = (mpmath.mpf(x.numerator) / x.denominator for x in ends(part))
                assert low <= exact <= high
